"""Run an agent: started, resumed after a crash or an answer, always with a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_agents import audit
from hive_agents.access import Principal
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.effects import Effects
from hive_agents.agents.goal_judge import results
from hive_agents.agents.guards import Budget, Limits
from hive_agents.agents.session import AgentSession
from hive_agents.approvals import ApprovalStore
from hive_agents.database import database_errors
from hive_agents.errors import HiveError
from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents.files import locked
from hive_agents.goals import Goal, load_goal
from hive_agents.llm import Chain, Role
from hive_agents.memory import run_folder
from hive_agents.runtime.agent_input import RunValue, accepted_input, read_agent
from hive_agents.runtime.agent_store import ENDED, GRAPH, RunRow, get_run, insert_run, say, update_run
from hive_agents.runtime.checkpoints import async_checkpointer
from hive_agents.runtime.run_models import RunModels
from hive_agents.runtime.runtime import Runtime
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.events import Bus

STEPS = 100_000
_STATUS = {
    "done": EventType.RUN_COMPLETED,
    "failed": EventType.RUN_FAILED,
    "waiting": EventType.RUN_WAITING,
}


@dataclass
class AgentRun:
    """One run of an agent; its row is in the store before its graph starts.

    `tools` are what the agent may use, the bundled ones by default; `models` opens the chain of a role, those of the
    settings by default; `bus` gets the events, one of the run's own by default, which logs them; `on_text` gets a
    node's name and what its model says, piece by piece, `on_event` each event of the run. None of these is stored:
    whoever resumes a run brings them.
    """

    workspace: Workspace
    row: RunRow
    agent: AgentSpec
    goal: Goal
    tools: ToolRegistry
    models: Callable[[Role], Chain]
    bus: Bus | None = None
    on_text: Callable[[str, str], object] | None = None
    on_event: Callable[[Event], object] | None = None

    @classmethod
    def start(
        cls,
        workspace: Workspace,
        agent: AgentSpec | str,
        input: Mapping[str, Any],
        *,
        principal: Principal | None = None,
        goal: Goal | None = None,
        thread_id: str | None = None,
        limits: Limits | None = None,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        **seams: Any,
    ) -> AgentRun:
        """A queued run. `input` gives each input key of the entry; `limits` are those of the settings by default.

        Raises: HIVE-106, HIVE-103 or HIVE-104 (exit code 2) for a bad input, what levels 1 and 2 find in the agent,
        HIVE-401 without a model.
        """
        brought = tools is not None or models is not None
        tools = tools if tools is not None else _bundled(workspace)
        agent = read_agent(workspace, agent, tools, goal)
        value = RunValue.of(
            agent, goal, accepted_input(agent, input), principal, limits or Limits.of(workspace.settings.runs), brought
        )
        models = models or RunModels(workspace, agent)
        models("chat")
        row = insert_run(workspace, agent.id, value.model_dump(mode="json"), principal, thread_id)
        queued = Event(EventType.RUN_QUEUED, row.run_id, row.thread_id, tenant=row.summary["tenant"])
        EventLog(workspace).append([queued])
        return cls(workspace, row, agent, goal or load_goal(workspace, agent.goal), tools, models, **seams)

    @classmethod
    def resume(
        cls,
        workspace: Workspace,
        run_id: str,
        *,
        agent: AgentSpec | None = None,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        **seams: Any,
    ) -> AgentRun:
        """The run as it was started; `agent` is needed only where its judges are objects.

        Raises: HIVE-409 (exit code 2) for an unknown run or one of another graph, HIVE-401 without a model.
        """
        row = get_run(workspace, run_id)
        if row.graph != GRAPH:
            fix = "`hive optimize --resume` goes on with the optimizer's"
            raise HiveError.of("HIVE-409", f"{run_id} is a run of {row.graph}, not of an agent", fix=fix, exit_code=2)
        value = RunValue.read(row.value)
        agent = agent or value.agent
        return cls(
            workspace,
            row,
            agent,
            value.goal or load_goal(workspace, agent.goal),
            tools if tools is not None else _bundled(workspace),
            models or RunModels(workspace, agent),
            **seams,
        )

    @property
    def run_id(self) -> str:
        return self.row.run_id

    def go(self, *, wait: float = 30.0) -> dict[str, Any]:
        """`work` for code that doesn't await; Ctrl-C leaves the run stopped, to be resumed."""
        try:
            return asyncio.run(self.work(wait=wait))
        except KeyboardInterrupt:
            return self._result(get_run(self.workspace, self.run_id), [])

    async def work(self, *, wait: float = 30.0) -> dict[str, Any]:
        """Run to the end, or until people have to answer; a run that has ended gives its result again.

        Returns {run_id, status, outputs, judgment, approval_ids, stopped_by, error}.
        Raises: HIVE-402 where another process still works on it after `wait` seconds.
        """
        self.workspace.state_folder("runs")
        lock = run_folder(self.workspace, self.run_id) / ".run.lock"
        with locked(lock, f"working on run {self.run_id}", wait):
            self.row = get_run(self.workspace, self.run_id)
            if self.row.status in ENDED and self.row.result is not None:
                return self.row.result
            if self.row.status == "waiting" and self.row.result is not None and not self._answered(self.row.result):
                return self.row.result
            async with AsyncExitStack() as stack:
                bus = self.bus or EventBus(EventLog(self.workspace))
                if isinstance(bus, EventBus) and bus is not self.bus:
                    await stack.enter_async_context(bus)
                if self.on_event is not None:
                    stack.callback(bus.unsubscribe, bus.subscribe(self.on_event, run_id=self.run_id))
                    stack.push_async_callback(bus.drain)
                return await self._driven(bus)

    def say(self, text: str) -> None:
        """A person's words to the agent, read before its next turn."""
        say(self.workspace, self.run_id, text)

    async def _driven(self, bus: Bus) -> dict[str, Any]:
        session = self._session(bus)
        first = self.row.status == "queued"
        await asyncio.to_thread(update_run, self.workspace, self.run_id, "running")
        await session.emit(EventType.RUN_STARTED, "run", agent=self.agent.id)
        if not first:
            resumed = f"run/{audit.now()}"
            await session.emit(EventType.RUN_RESUMED, resumed, agent=self.agent.id)
        try:
            state, asked = await self._graph(session)
        except asyncio.CancelledError:
            update_run(self.workspace, self.run_id, "stopped", stopped_by="interrupted")
            await session.emit(EventType.RUN_STOPPED, f"run/{audit.now()}", error=None)
            raise
        except Exception as error:
            await self._broken_off(session, error)
            raise
        return await self._ended(session, state, asked)

    async def _graph(self, session: AgentSession) -> tuple[dict[str, Any], list[str]]:
        """The graph's state at rest, and the requests that it waits for."""
        from importlib import import_module

        config: Any = {"configurable": {"thread_id": self.run_id}, "recursion_limit": STEPS}
        async with async_checkpointer(self.workspace) as saver:
            # No entry point: a graph for each agent is made of its spec.
            graph = import_module(f"graphs.{GRAPH}").build(self.agent).compile(checkpointer=saver)
            with database_errors(self.workspace.state / "checkpoints.db"):
                while True:
                    now = await graph.aget_state(config)
                    answer = self._answer(now)
                    if now.values and (not now.tasks or (now.interrupts and answer is None)):
                        break
                    value = answer or (None if now.tasks else {"run_id": self.run_id})
                    if answer is None and not now.tasks:
                        self._give_input(session)
                    await graph.ainvoke(value, config, context=session, durability="sync")
        asked = [id for one in now.interrupts for id in one.value["approval_ids"]]
        return dict(now.values), asked

    def _answer(self, known: Any) -> Any:
        """What wakes the branches whose requests were all answered; None where there are none."""
        from langgraph.types import Command

        store = ApprovalStore(self.workspace)
        ready = {
            one.id: "answered"
            for one in known.interrupts
            if all(store.get(id).decided for id in one.value["approval_ids"])
        }
        return Command(resume=ready) if ready else None

    def _answered(self, result: dict[str, Any]) -> bool:
        store = ApprovalStore(self.workspace)
        return any(store.get(id).decided for id in result["approval_ids"])

    def _give_input(self, session: AgentSession) -> None:
        for key, value in self.row.value["input"].items():
            session.buffer.write(key, value)

    async def _ended(self, session: AgentSession, state: dict[str, Any], asked: list[str]) -> dict[str, Any]:
        outcome = state.get("outcome") or {"status": "waiting", "error": None}
        fault = outcome["error"]
        error = {"code": fault["code"], "message": fault["message"]} if fault else None
        verdicts = len(state.get("verdicts", [])) + 1
        judged = session.effects.find(f"GOAL#{verdicts}") or session.effects.find(f"GOAL#{verdicts - 1}")
        store = ApprovalStore(self.workspace)
        result = {
            "run_id": self.run_id,
            "status": outcome["status"],
            "outputs": results(session),
            "judgment": judged["judgment"] if judged else None,
            "approval_ids": [id for id in asked if not store.get(id).decided],
            "stopped_by": fault["reason"] if fault else None,
            "error": error,
        }
        # Told first: the log takes it once, and a process that dies in between tells it again.
        at = f"end/{','.join(result['approval_ids'])}"
        await session.emit(_STATUS[outcome["status"]], at, approval_ids=result["approval_ids"], error=error)
        stopped_by = result["stopped_by"]
        update_run(self.workspace, self.run_id, outcome["status"], result=result, stopped_by=stopped_by, error=error)
        self.row = get_run(self.workspace, self.run_id)
        return result

    async def _broken_off(self, session: AgentSession, error: Exception) -> None:
        """Not the agent failed but what it stands on: the run can be resumed when that is mended."""
        why = {"code": "HIVE-422", "message": f"{type(error).__name__}: {error}"[:500]}
        if isinstance(error, HiveError):
            why = {"code": error.diagnostics[0].code, "message": error.diagnostics[0].message}
        stopped_by = why["code"] if isinstance(error, HiveError) else "fault"
        with suppress(HiveError):
            await session.emit(EventType.RUN_STOPPED, f"run/{audit.now()}", error=why)
            update_run(self.workspace, self.run_id, "stopped", stopped_by=stopped_by, error=why)

    def _session(self, bus: Bus) -> AgentSession:
        value = RunValue.read(self.row.value)
        principal = value.principal.principal if value.principal is not None else None
        models = self.models if isinstance(self.models, RunModels) else None
        effects = Effects(
            self.workspace,
            self.run_id,
            Budget(value.limits),
            mark=(lambda: models.mark) if models is not None else None,
        )
        if models is not None:
            models.restore(effects.last_mark())
        return AgentSession(
            self.workspace,
            self.agent,
            self.goal,
            self.run_id,
            self.row.thread_id,
            self.tools,
            self.models,
            effects,
            Runtime(self.workspace, tenant=self.row.summary["tenant"], run_id=self.run_id),
            bus.publish,
            principal,
            self.on_text,
        )

    def _result(self, row: RunRow, asked: list[str]) -> dict[str, Any]:
        return row.result or {
            "run_id": self.run_id,
            "status": row.status,
            "outputs": {},
            "judgment": None,
            "approval_ids": asked,
            "stopped_by": row.summary["stopped_by"],
            "error": row.summary["error"],
        }


def _bundled(workspace: Workspace) -> ToolRegistry:
    from hive_agents.agents.bundled import bundled_tools

    return bundled_tools(workspace)
