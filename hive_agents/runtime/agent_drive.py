"""One worker driving an agent's graph: to its end, to a question, or until somebody asks it to rest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_agents.agents import AgentSession, Effects, results
from hive_agents.agents.guards import Budget
from hive_agents.approvals import ApprovalStore
from hive_agents.errors import HiveError
from hive_agents.events import Event, EventType
from hive_agents.llm import tracing
from hive_agents.runs import AGENT_GRAPH, ENDED, LOST, WEIGHT, Lease, LeaseLost, RunRow, RunStore
from hive_agents.runtime.agent_input import RunValue
from hive_agents.runtime.checkpoints import async_checkpointer
from hive_agents.runtime.run_models import RunModels
from hive_agents.runtime.runtime import Runtime
from hive_agents.store import audit, database_errors

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
        if self.asked is not None and WEIGHT.index(asked) < WEIGHT.index(self.asked):
            return
        self.asked = asked
        self._control.request_drain(asked)
        if asked == LOST:
            self._cut()
        elif asked == "stop":
            asyncio.get_running_loop().call_later(GRACE, self._cut)

    async def go(self, bus: Bus) -> dict[str, Any]:
        """Drive the graph as far as it goes. Raises: LeaseLost (HIVE-425), and what the graph stands on fails with."""
        self._bus = bus
        session = await asyncio.to_thread(self._session, bus)
        self._working = True
        try:
            return await self._go(session)
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
            again = row.summary["node"] is not None
            kind, at = (EventType.RUN_RESUMED, f"run/{audit.now()}") if again else (EventType.RUN_STARTED, "run")
            begun = session.event(kind, at, agent=self._run.agent.id)
            if not await self._record(begun, "running", among=[row.status]):
                return result_of(await self._row())  # somebody was quicker and paused or stopped it
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
        return await self._ended(session, state, asked)

    @property
    def _store(self) -> RunStore:
        return RunStore(self._run.workspace)

    async def _row(self) -> RunRow:
        return await asyncio.to_thread(self._store.get, self._run.run_id)

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
            with tracing(workspace), database_errors(workspace.state / "checkpoints.db"):
                while True:
                    now = await graph.aget_state(config)
                    answer, pending = await asyncio.to_thread(self._answer, now)
                    if now.values and (not now.tasks or (now.interrupts and answer is None)):
                        break
                    value = answer or (None if now.tasks else {"run_id": run_id})
                    if answer is None and not now.tasks:
                        await asyncio.to_thread(self._give_input, session)
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
        self._working = False  # what is left is to record how it ended
        result, now = await asyncio.to_thread(self._result, session, state, asked)
        status, error = result["status"], result["error"]
        at = f"end/{','.join(asked)}" if status not in _RESTS.values() else f"run/{audit.now()}"
        told = session.event(_STATUS[status], at, approval_ids=asked, error=error)
        how = {"result": result, "stopped_by": result["stopped_by"], "error": error}
        if not await self._record(told, status, **how, seen=None if status in ENDED else now):
            return await self._rested(session, "queued")  # somebody asked it to rest in that moment
        return result

    def _result(self, session: AgentSession, state: dict[str, Any], asked: list[str]) -> tuple[dict[str, Any], RunRow]:
        """How it ended or what it waits for, and the row as it stood then."""
        outcome = state.get("outcome") or {"status": "waiting", "error": None}
        fault = outcome["error"]
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
            "error": {"code": fault["code"], "message": fault["message"]} if fault else None,
        }
        return result, now

    async def _rested(self, session: AgentSession, status: str) -> dict[str, Any]:
        """Not at its end: somebody wanted it to rest, or it was interrupted."""
        self._working = False
        while True:
            row = await self._row()
            to = _RESTS[row.control] if row.control is not None else status
            # Somebody was quicker, before this worker began.
            if to == row.status or row.status not in ("running", self._run.row.status):
                return result_of(row)
            told = session.event(
                _STATUS[to], f"run/{audit.now()}", by=row.control_by, error=None, agent=self._run.agent.id
            )
            stopped_by = (row.control_by or "interrupted") if to == "stopped" else None
            if await self._record(told, to, stopped_by=stopped_by, seen=row):
                return result_of(await self._row())

    async def _broken_off(self, session: AgentSession, error: Exception) -> None:
        """Not the agent failed but what it stands on: the run can be resumed when that is mended.

        That of a host goes back into the queue: nobody is there to resume it.
        """
        self._working = False
        why = {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(error, HiveError):
            why = {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
        stopped_by = why["code"] if isinstance(error, HiveError) else "fault"
        status = "queued" if self._run.hosted else "stopped"
        with suppress(HiveError):
            told = session.event(_STATUS[status], f"run/{audit.now()}", error=why)
            by, held = None if self._run.hosted else stopped_by, ("running", self._run.row.status)
            if not await self._record(told, status, stopped_by=by, error=why, unasked=True, among=held):
                await self._rested(session, status)

    async def _record(self, told: Event, status: str, **how: Any) -> bool:
        """How the run stands and that it is told of, in one transaction; then those who listen hear of it."""
        update = partial(self._store.update, self._run.run_id, status, **how, lease=self._lease, told=told)
        done = await asyncio.to_thread(update)
        if done:
            with suppress(HiveError):  # it is in the log
                await self._bus.announce(told)
        return done

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
    stands = {"status": row.status, "stopped_by": row.summary["stopped_by"], "error": row.summary["error"]}
    return (
        row.result or {"run_id": row.run_id, "status": None, "outputs": {}, "judgment": None, "approval_ids": []}
    ) | stands
