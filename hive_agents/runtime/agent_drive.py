"""One worker driving an agent's graph: to its end, to a question, or until somebody asks it to rest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents import audit
from hive_agents.agents.effects import Effects
from hive_agents.agents.goal_judge import results
from hive_agents.agents.guards import Budget
from hive_agents.agents.session import AgentSession
from hive_agents.approvals import ApprovalStore
from hive_agents.database import database_errors
from hive_agents.errors import HiveError
from hive_agents.events import EventType
from hive_agents.runs import AGENT_GRAPH, LOST, Lease, LeaseLost, RunRow, RunStore
from hive_agents.runtime.agent_input import RunValue
from hive_agents.runtime.checkpoints import async_checkpointer
from hive_agents.runtime.run_models import RunModels
from hive_agents.runtime.runtime import Runtime

if TYPE_CHECKING:
    from hive_agents.events import Bus
    from hive_agents.runtime.agent_run import AgentRun

STEPS = 100_000
GRACE = 5.0
"""Seconds that a step may take after somebody asked its run to stop."""

_STATUS = {
    "done": EventType.RUN_COMPLETED,
    "failed": EventType.RUN_FAILED,
    "waiting": EventType.RUN_WAITING,
    "paused": EventType.RUN_PAUSED,
    "stopped": EventType.RUN_STOPPED,
    "queued": EventType.RUN_QUEUED,
}
_RESTS = {"pause": "paused", "stop": "stopped", "drain": "queued"}
_WEIGHT = ("drain", "pause", "stop", LOST)
"""What is asked later counts only where it weighs as much."""


class Drive:
    """`asked` is what somebody wants of the worker: "pause", "stop", "drain", or "lost" when it has to let go."""

    def __init__(self, run: AgentRun, lease: Lease, worker: asyncio.Task[Any]) -> None:
        from langgraph.runtime import RunControl

        self.asked: str | None = None
        self._run, self._lease, self._worker = run, lease, worker
        self._control = RunControl()
        self._working = False

    def ask(self, asked: str) -> None:
        """Rest before the next step; the step of a run that is stopped has a few seconds, that of a lost one none."""
        if self.asked is not None and _WEIGHT.index(asked) < _WEIGHT.index(self.asked):
            return
        self.asked = asked
        self._control.request_drain(asked)
        if asked == LOST:
            self._cut()
        elif asked == "stop":
            asyncio.get_running_loop().call_later(GRACE, self._cut)

    async def go(self, bus: Bus) -> dict[str, Any]:
        """Drive the graph as far as it goes. Raises: LeaseLost (HIVE-425), and what the graph stands on fails with."""
        self._working = True
        try:
            return await self._go(self._session(bus))
        finally:
            self._working = False

    async def _go(self, session: AgentSession) -> dict[str, Any]:
        from langgraph.errors import GraphDrained

        row = self._run.row
        try:
            # What a worker that died was asked holds for the next one.
            if row.control is not None:
                self.ask(row.control)
            if self.asked is not None and self.asked != LOST:
                return await self._rested(session, _RESTS[self.asked])
            if not await asyncio.to_thread(self._record, "running", among=[row.status]):
                return result_of(self._store.get(row.run_id))  # somebody was quicker and paused or stopped it
            await session.emit(EventType.RUN_STARTED, "run", agent=self._run.agent.id)
            if row.summary["node"] is not None:
                await session.emit(EventType.RUN_RESUMED, f"run/{audit.now()}", agent=self._run.agent.id)
            state, asked = await self._graph(session)
        except GraphDrained:
            if self.asked == LOST:
                raise self._lease.lost from None
            return await self._rested(session, _RESTS[self.asked or "drain"])
        except asyncio.CancelledError:
            if self.asked not in (LOST, "stop"):
                await self._rested(session, "queued" if self._run.hosted else "stopped")
                raise
            self._worker.uncancel()
            if self.asked == LOST:
                raise self._lease.lost from None
            return await self._rested(session, "stopped")
        except LeaseLost:
            raise
        except Exception as error:
            await self._broken_off(session, error)
            raise
        self._working = False  # what is left is to record how it ended
        return await self._ended(session, state, asked)

    @property
    def _store(self) -> RunStore:
        return RunStore(self._run.workspace)

    def _cut(self) -> None:
        if self._working:
            self._worker.cancel()

    async def _graph(self, session: AgentSession) -> tuple[dict[str, Any], list[str]]:
        """The graph's state at rest, and the requests that it waits for."""
        from importlib import import_module

        workspace, agent, run_id = self._run.workspace, self._run.agent, self._run.run_id
        config: Any = {"configurable": {"thread_id": run_id}, "recursion_limit": STEPS}
        async with async_checkpointer(workspace, self._lease) as saver:
            # No entry point: a graph for each agent is made of its spec.
            graph = import_module(f"graphs.{AGENT_GRAPH}").build(agent).compile(checkpointer=saver)
            with database_errors(workspace.state / "checkpoints.db"):
                while True:
                    now = await graph.aget_state(config)
                    answer, pending = self._answer(now)
                    if now.values and (not now.tasks or (now.interrupts and answer is None)):
                        break
                    value = answer or (None if now.tasks else {"run_id": run_id})
                    if answer is None and not now.tasks:
                        self._give_input(session)
                    await graph.ainvoke(value, config, context=session, durability="sync", control=self._control)
        return dict(now.values), pending

    def _answer(self, known: Any) -> tuple[Any, list[str]]:
        """What wakes the branches whose requests were all answered, None where there are none; and the other requests.

        Both of one look: a request that is decided a moment later is one that the run waits for, which wakes it.
        """
        from langgraph.types import Command

        store = ApprovalStore(self._run.workspace)
        asked = {one.id: list(one.value["approval_ids"]) for one in known.interrupts}
        pending = {id for ids in asked.values() for id in ids if not store.get(id).decided}
        ready = {branch: "answered" for branch, ids in asked.items() if not pending.intersection(ids)}
        return Command(resume=ready) if ready else None, [id for ids in asked.values() for id in ids if id in pending]

    def _give_input(self, session: AgentSession) -> None:
        for key, value in self._run.row.value["input"].items():
            session.buffer.write(key, value)

    async def _ended(self, session: AgentSession, state: dict[str, Any], asked: list[str]) -> dict[str, Any]:
        outcome = state.get("outcome") or {"status": "waiting", "error": None}
        fault = outcome["error"]
        error = {"code": fault["code"], "message": fault["message"]} if fault else None
        verdicts = len(state.get("verdicts", [])) + 1
        judged = session.effects.find(f"GOAL#{verdicts}") or session.effects.find(f"GOAL#{verdicts - 1}")
        status, by = outcome["status"], None
        now = self._store.get(self._run.run_id)
        if status == "waiting" and now.control is not None:
            status, by = _RESTS[now.control], now.control_by
        result = {
            "run_id": self._run.run_id,
            "status": status,
            "outputs": results(session),
            "judgment": judged["judgment"] if judged else None,
            "approval_ids": asked,
            "stopped_by": fault["reason"] if fault else by,
            "error": error,
        }
        # Told first: the log takes it once, and a process that dies in between tells it again.
        at = f"end/{','.join(result['approval_ids'])}" if status == outcome["status"] else f"run/{audit.now()}"
        await session.emit(_STATUS[status], at, approval_ids=result["approval_ids"], error=error)
        told = {"result": result, "stopped_by": result["stopped_by"], "error": error}
        if not self._record(status, **told, unasked=status == "waiting"):
            return await self._rested(session, "queued")  # somebody asked it to rest in that moment
        return result

    async def _rested(self, session: AgentSession, status: str) -> dict[str, Any]:
        """Not at its end: somebody wanted it to rest, or it was interrupted."""
        row = self._store.get(self._run.run_id)
        by = row.control_by
        if row.control is not None:
            status = _RESTS[row.control]
        elif status == row.status:
            return result_of(row)
        stopped_by = (by or "interrupted") if status == "stopped" else None
        self._record(status, stopped_by=stopped_by)
        told = {"by": by, "error": None, "agent": self._run.agent.id}
        await session.emit(_STATUS[status], f"run/{audit.now()}", **told)
        return result_of(self._store.get(self._run.run_id))

    async def _broken_off(self, session: AgentSession, error: Exception) -> None:
        """Not the agent failed but what it stands on: the run can be resumed when that is mended.

        That of a host goes back into the queue: nobody is there to resume it.
        """
        why = {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(error, HiveError):
            why = {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
        stopped_by = why["code"] if isinstance(error, HiveError) else "fault"
        status = "queued" if self._run.hosted else "stopped"
        with suppress(HiveError):
            await session.emit(_STATUS[status], f"run/{audit.now()}", error=why)
            self._record(status, stopped_by=None if self._run.hosted else stopped_by, error=why)

    def _record(self, status: str, **told: Any) -> bool:
        return self._store.update(self._run.run_id, status, **told, lease=self._lease)

    def _session(self, bus: Bus) -> AgentSession:
        run, workspace = self._run, self._run.workspace
        value = RunValue.read(run.row.value)
        principal = value.principal.principal if value.principal is not None else None
        models = run.models if isinstance(run.models, RunModels) else None
        effects = Effects(
            workspace,
            run.run_id,
            Budget(value.limits),
            lease=self._lease,
            mark=(lambda: models.mark) if models is not None else None,
        )
        if models is not None:
            models.restore(effects.last_mark())
        court = Runtime(workspace, tenant=run.row.tenant, run_id=run.run_id)
        return AgentSession(
            workspace,
            run.agent,
            run.goal,
            run.run_id,
            run.row.thread_id,
            run.tools,
            run.models,
            effects,
            court,
            bus.publish,
            principal,
            run.on_text,
        )


def result_of(row: RunRow) -> dict[str, Any]:
    """What `AgentRun.work` gives for a run as its row stands."""
    return row.result or {
        "run_id": row.run_id,
        "status": row.status,
        "outputs": {},
        "judgment": None,
        "approval_ids": [],
        "stopped_by": row.summary["stopped_by"],
        "error": row.summary["error"],
    }
