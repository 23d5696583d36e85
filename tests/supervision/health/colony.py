"""A colony in a test's hands: rows, events and leases as running agents leave them, at times that the test chooses."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hive_agents import Workspace
from hive_agents.events import EscalationTicket, Event, EventBus, EventLog, EventType, tickets_of
from hive_agents.host.health import HealthJudge
from hive_agents.runs import Leases, RunStore
from hive_agents.store import connected

START = dt.datetime(2026, 3, 1, 8, 0, tzinfo=dt.UTC)
TICK = dt.timedelta(seconds=120)


class Colony:
    """`now` is what the clock of events, rows and ticks says. Events are logged together, before anybody reads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._log, self.store = workspace, EventLog(workspace), RunStore(workspace)
        self._told: list[Event] = []
        self.now = START

    @property
    def workspace(self) -> Workspace:
        self.flush()
        return self._workspace

    @property
    def log(self) -> EventLog:
        self.flush()
        return self._log

    def flush(self) -> None:
        self._log.append(self._told)
        self._told = []

    def run(self, run_id: str, status: str = "running", *, tenant: str = "local", **limits: float) -> str:
        value = {"agent": {"id": "digest"}, "input": {}, "limits": {"steps": 200, "tokens": 0, "usd": 0.0, **limits}}
        self.store.insert("event_loop", value, agent="digest", run_id=run_id)
        self.row(run_id, status=status, tenant=tenant, node="collect", started_at=self.stamp)
        self.tell(run_id, "run.started", agent="digest")
        return run_id

    def row(self, run_id: str, **columns: Any) -> None:
        sets = ", ".join(f"{name} = ?" for name in columns)
        with connected(self._workspace.records) as connection:
            connection.execute(f"UPDATE runs SET {sets} WHERE run_id = ?", (*columns.values(), run_id))

    def end(self, run_id: str, status: str, stopped_by: str | None = None, code: str | None = None) -> None:
        error = {"code": code, "message": f"it ended by {stopped_by}"} if code else None
        self.store.update(run_id, status, stopped_by=stopped_by, error=error)
        self.row(run_id, ended_at=self.stamp)
        self.tell(run_id, {"done": "run.completed"}.get(status, f"run.{status}"), error=error)

    def tell(self, run_id: str, type: str, node: str = "collect", **payload: Any) -> None:
        self._told.append(Event(EventType(type), run_id, node_id=node, payload=payload, time=self.stamp))

    def call(self, run_id: str, arguments: str, turn: int, *, n: int = 0, tool: str = "read_page", **told: Any) -> None:
        type = "tool.failed" if "error" in told else "tool.completed"
        key = f"collect#1/{turn}/{n}"
        self.tell(run_id, type, tool=tool, call=key, fingerprint=f"{tool}({arguments})", **told)

    def judged(self, run_id: str, action: str, turn: int) -> None:
        self.tell(run_id, "judgment.made", level=2, action=action, feedback="too short", iteration=turn)

    def lease(self, run_id: str) -> None:
        """Somebody takes the run, and is never heard of again."""
        assert Leases(self.workspace, clock=lambda: self.now.timestamp()).acquire(f"digest:{run_id}", run_id)

    @property
    def stamp(self) -> str:
        return self.now.isoformat(timespec="milliseconds")

    def later(self, **time: float) -> None:
        self.now += dt.timedelta(**time)

    async def tick(self, **seams: Any) -> None:
        """One tick of a judge that was just started."""
        async with EventBus(EventLog(self.workspace)) as bus:
            await HealthJudge(self.workspace, bus, **seams).tick(self.now)

    def tickets(self) -> list[EscalationTicket]:
        return list(tickets_of(self.log.replay()).values())

    def ticket(self) -> EscalationTicket:
        (found,) = self.tickets()
        return found

    def told(self, *types: str) -> list[str]:
        """The types of what the judge told."""
        return [str(event.type) for event in self.log.replay() if str(event.type).startswith(types or ("escalation",))]
