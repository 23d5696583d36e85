"""Run the optimizer graph: started, resumed, interrupted, always with a result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hive_agents.approvals import ApprovalStore
from hive_agents.errors import HiveError
from hive_agents.events import Event, EventType, derived_id
from hive_agents.files import atomic_write
from hive_agents.llm import tracing
from hive_agents.optimizer import page, restate, result_of
from hive_agents.retrieval import active_config
from hive_agents.runs import LOST, RESTS, WEIGHT, Hold, Lease, LeaseLost, Leases, RunRow, RunStore, take
from hive_agents.runtime.checkpoints import checkpointer
from hive_agents.runtime.context import HiveContext
from hive_agents.runtime.graphs import load_graph
from hive_agents.store import audit
from hive_agents.workspace import Workspace

OnUpdate = Callable[[dict[str, Any]], None]

_TOLD = {
    "queued": EventType.RUN_QUEUED,
    "waiting": EventType.RUN_WAITING,
    "paused": EventType.RUN_PAUSED,
    "stopped": EventType.RUN_STOPPED,
    "done": EventType.RUN_COMPLETED,
}


class OptimizeRun:
    """One run of the optimizer graph; its row is in the store before the graph starts."""

    def __init__(self, workspace: Workspace, run: RunRow) -> None:
        self.workspace = workspace
        self.run = run
        self._asked: str | None = None

    @classmethod
    def start(cls, workspace: Workspace, *, golden: Path | None, deploy: bool, settings: dict[str, Any]) -> OptimizeRun:
        """Raises: HIVE-408 without an active config, level 1 for the golden set or a bad setting."""
        from hive_agents.evaluation import load_golden
        from hive_agents.verification import require_sound

        active = active_config(workspace)
        require_sound(workspace, active.stored, golden=load_golden(workspace, golden))
        value = {"golden": str(golden.resolve()) if golden else None, "deploy": deploy, "settings": settings}
        return cls(workspace, RunStore(workspace).insert("optimizer", value, status="running")[0])

    @classmethod
    def resume(cls, workspace: Workspace, run_id: str) -> OptimizeRun:
        """Raises: HIVE-409 for an unknown run."""
        row = RunStore(workspace).get(run_id)
        if row.graph != "optimizer":
            fix = f"hive run --resume {run_id}"
            raise HiveError.of("HIVE-409", f"{run_id} is a run of {row.agent or row.graph}", fix=fix, exit_code=2)
        return cls(workspace, row)

    def go(self, on_update: OnUpdate | None = None, *, wait: float = 30.0) -> dict[str, Any]:
        """Run to the end, or go on from the last checkpoint; a run that has ended gives its result again.

        A run that waits for a person gives what it has, and goes on once the request is decided. Ctrl-C ends it
        with `stopped_by: interrupted` and what was found so far.
        Raises: HIVE-402 where another process still works on it after `wait` seconds, or somebody paused or stopped it
        just now.
        """
        self.workspace.state_folder("runs")
        folder = self.workspace.state_folder(f"runs/{self.run.run_id}")
        leases, known = Leases(self.workspace, seconds=self.workspace.settings.runs.lease_seconds), self.run.status
        with Hold(take(leases, self.run.thread_id, self.run.run_id, wait), self._ask) as hold:
            self.run = self._store.get(self.run.run_id)
            if self.run.status == "done" and self.run.result is not None:
                return self.run.result
            if self.run.status in RESTS.values() and self.run.status != known:
                raise self._moved()
            if self.run.control is not None:  # asked of a worker that died
                self._ask(self.run.control)
            try:
                return self._go(folder, on_update, hold.lease)
            except LeaseLost:
                raise
            except Exception as error:
                self._broken_off(error, hold.lease)
                raise

    def drain(self) -> None:
        """Let the run rest after its present step and go into the queue; from any thread."""
        self._ask("drain")

    def _ask(self, asked: str) -> None:
        if self._asked is None or WEIGHT.index(asked) > WEIGHT.index(self._asked):
            self._asked = asked

    @property
    def _store(self) -> RunStore:
        return RunStore(self.workspace)

    def _go(self, folder: Path, on_update: OnUpdate | None, lease: Lease) -> dict[str, Any]:
        value = self.run.value
        context = HiveContext(str(self.workspace.root), value["golden"], {"optimizer": value["settings"]})
        config: Any = {"configurable": {"thread_id": self.run.thread_id}, "recursion_limit": 10_000}
        interrupted = False
        with tracing(self.workspace), checkpointer(self.workspace, lease) as saver:
            graph = load_graph("optimizer", saver)
            now = graph.get_state(config)
            answer = self._answer(now)
            if now.interrupts and answer is None and self.run.result and self.run.status not in ("queued", "running"):
                return self.run.result
            self._begin(lease, again=bool(now.values) or self.run.status in RESTS.values())
            # Not `next`: it is empty, too, where a process died after a node's writes and before the checkpoint.
            fresh = None if now.tasks else {"run_id": self.run.run_id, "deploy": value["deploy"]}
            try:
                while not _rests(now, answer) and self._asked is None:
                    for update in graph.stream(
                        answer or fresh, config, context=context, stream_mode="updates", durability="sync"
                    ):
                        if on_update is not None and {"judge", "diagnose"} & update.keys():
                            on_update(dict(graph.get_state(config).values))
                        if self._asked is not None:
                            break
                    now = graph.get_state(config)
                    answer = self._answer(now)  # it may have been decided before the run came to ask
            except KeyboardInterrupt:
                interrupted = True
            now = graph.get_state(config)
        state = dict(now.values)
        if self._asked == LOST:
            raise lease.lost
        if self._asked == "drain" and not interrupted and not _rests(now, answer):
            self._record("queued", lease, result=self.run.result)
            return {"run_id": self.run.run_id, "status": self._store.get(self.run.run_id).status}
        # What has come to its end may have deployed: nothing stops that any more.
        interrupted = (interrupted or self._asked in RESTS) and not (state and not now.tasks)
        if (self.run.result or {}).get("approval_id") and state.get("status") == "stopped":
            # Nothing was measured since: the session may not even open any more.
            result = (self.run.result or {}) | {"status": state["status"], "stopped_by": state["stopped_by"]}
            result["decision"] = self._decision(state)
            restate(folder / "report.html", result)
        else:
            result = self._result(context, state, folder, interrupted)
        status = "waiting" if now.interrupts else "done"
        if interrupted:
            status = RESTS.get(self._asked or "", "stopped")
        self._record(status, lease, result=result)
        return result

    def _begin(self, lease: Lease, *, again: bool) -> None:
        kind = EventType.RUN_RESUMED if again else EventType.RUN_STARTED
        event = self._event(kind, audit.now() if again else "run", agent=None)
        kept = self.run.result
        if not self._store.update(self.run.run_id, "running", result=kept, lease=lease, seen=self.run, told=event):
            raise self._moved()

    def _moved(self) -> HiveError:
        told = f"somebody paused or stopped run {self.run.run_id} just now"
        fix = f"see `hive runs show {self.run.run_id}`"
        return HiveError.of("HIVE-402", told, path=self.run.run_id, fix=fix)

    def _record(
        self, status: str, lease: Lease, *, result: dict[str, Any] | None, error: dict[str, str] | None = None
    ) -> None:
        """How a run that was worked on stands now: as somebody wanted in that very moment, unless it is done."""
        done = False
        while not done and (row := self._store.get(self.run.run_id)).status == "running":
            if status != "done" and row.control is not None:
                status = RESTS[row.control]
            by = row.control_by or (error or {}).get("code") or "interrupted"
            asked = [result["approval_id"]] if result and result.get("approval_id") else []
            told = {"agent": None, "by": row.control_by, "approval_ids": asked, "error": error}
            done = self._store.update(
                self.run.run_id,
                status,
                result=result,
                stopped_by=by if status == "stopped" else None,
                error=error,
                lease=lease,
                seen=row,
                told=self._event(_TOLD[status], audit.now(), **told),
            )

    def _broken_off(self, error: Exception, lease: Lease) -> None:
        """Not the search failed but what it stands on: a run that was worked on waits for another worker.

        One that a person went on with, or answered, is what it was before.
        """
        why = {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(error, HiveError):
            why = {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
        status = self.run.status if self.run.status in ("waiting", *RESTS.values()) else "queued"
        with suppress(HiveError):
            self._record(status, lease, result=self.run.result, error=why)

    def _event(self, kind: EventType, at: str, **told: Any) -> Event:
        run, id = self.run, derived_id("optimizer_run", self.run.run_id, kind, at)
        return Event(kind, run.run_id, run.thread_id, None, run.thread_id, run.tenant, told, id=id)

    def _answer(self, known: Any) -> Any:
        """What wakes a run that waits for a person; None while nobody has decided."""
        if not known.interrupts:
            return None
        from langgraph.types import Command

        request = ApprovalStore(self.workspace).get(known.values["approval_id"])
        return Command(resume={one.id: request.status for one in known.interrupts}) if request.decided else None

    def _decision(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """What became of the request: its status, who decided, and why; None while nobody was asked or answered."""
        if not state.get("approval_id"):
            return None
        request = ApprovalStore(self.workspace).get(state["approval_id"])
        if not request.decided:
            return None
        # Nobody's vote ends a request that expired or was superseded.
        last = request.decisions[-1] if request.decisions and request.status in ("approved", "rejected") else None
        reason = (last.reason or last.message) if last else request.note
        return {"status": request.status, "by": last.by if last else None, "reason": reason}

    def _result(self, context: HiveContext, state: dict[str, Any], folder: Path, interrupted: bool) -> dict[str, Any]:
        session = context.optimizer(self.run.run_id, state)
        result = result_of(session, state, self.run.run_id, interrupted=interrupted)
        result["decision"] = self._decision(state)
        atomic_write(folder / "report.html", page(result, session).encode(), mode=0o600)
        result["report"] = self.workspace.relative(folder / "report.html")
        return result


def _rests(now: Any, answer: Any) -> bool:
    """Whether a run is at its end, or waits for a person who hasn't answered."""
    return bool(now.values) and (not now.tasks or (bool(now.interrupts) and answer is None))
