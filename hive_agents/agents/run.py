"""Start runs of agents, and resume them after a crash or an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from hive_agents.access import Principal, Standing
from hive_agents.agents.code import Agent, TypedCode
from hive_agents.agents.code_steps import require_code
from hive_agents.agents.deployed import known_agents
from hive_agents.agents.effects import Effects
from hive_agents.agents.goal_judge import results
from hive_agents.agents.guards.budget import Budget
from hive_agents.agents.input import RunValue, accepted_input, read_agent
from hive_agents.agents.models import RunModels
from hive_agents.agents.session import AgentSession, Stubs
from hive_agents.agents.spec import AgentSpec
from hive_agents.agents.tools import ToolRegistry
from hive_agents.base import HiveError
from hive_agents.events import EventLog
from hive_agents.goals import Goal, load_goal
from hive_agents.judging import Runtime, load_rules
from hive_agents.models import Chain
from hive_agents.runs import AGENT_GRAPH, Lease, Limits, Run, RunOutcome, RunRow, RunStore, leases_of, say, store
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Role

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from hive_agents.agents.effects import Done
    from hive_agents.events import Bus


@dataclass
class AgentRun(Run):
    """One run of an agent.

    `tools` are those that the agent may use, by default the workspace's; `models` opens the chain of a role, by default
    those of the settings; `on_text` gets a node's name and each piece of its model's text; `recorded` is as for
    `Effects`; `stubs` as for `Trial`. None of these is stored: they have to be passed again when the run is resumed.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import AgentRun, AgentSpec, Goal, NodeSpec, Workspace
    >>> folder = TemporaryDirectory()
    >>> Path(folder.name, "collections").mkdir()
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\\nchat = ["scripted:s.jsonl"]')
    >>> _ = Path(folder.name, "s.jsonl").write_text('{"content": "Good morning."}')
    >>> agent = AgentSpec(id="host", goal="greet", entry="hello", nodes=[NodeSpec(id="hello", system_prompt="Greet.")])
    >>> run = AgentRun.start(Workspace(folder.name), agent, {}, goal=Goal(id="greet", name="Greet"))
    >>> run.go()["status"]
    'done'
    >>> folder.cleanup()
    """

    GRAPH: ClassVar[str] = AGENT_GRAPH
    SOURCE = "agent"
    BRIEF = True

    agent: AgentSpec
    goal: Goal
    tools: ToolRegistry
    models: Callable[[Role], Chain]
    on_text: Callable[[str, str], object] | None = None
    recorded: Callable[[str, str], Done | None] | None = None
    stubs: Stubs | None = None

    @classmethod
    def start(
        cls,
        workspace: Workspace,
        agent: AgentSpec | str | TypedCode[Any, Any],
        input: Any,
        *,
        principal: Principal | None = None,
        goal: Goal | None = None,
        thread_id: str | None = None,
        key: str | None = None,
        hold: bool = True,
        limits: Limits | None = None,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        **seams: Any,
    ) -> AgentRun:
        """Return a queued run. `input` gives each input key of the entry, or is a value of the type that a flow or an
        agent in code takes; `limits` are those of the settings by default.

        With `hold` this process holds its lease; otherwise a host executes it. If a run of the same tenant has `key`
        already, that run is returned, with the agent that it was started with.

        Raises: HIVE-106, HIVE-103 or HIVE-104 (exit code 2) for a bad input, what levels 1 and 2 find in the agent and
        in rules, HIVE-401 without a model where it is held, HIVE-409 for a key of a run that was started with something
        else, and for a limit in dollars where a model's price isn't known.
        """
        passed: dict[str, Any] = {"tools": tools, "models": models}
        brought = tools is not None or models is not None
        tools = _tools(workspace, tools)
        code = tools.code.get(agent) if isinstance(agent, str) else agent
        if isinstance(code, TypedCode) and not (isinstance(agent, str) and agent in known_agents(workspace)):
            brought = brought or code.name not in tools.code
            agent, goal, input = code.spec, goal or code.goal, code.accepted(input)
        if not isinstance(agent, AgentSpec | str):
            fix = "mark an async function with @hive_agents.flow, or give an Agent, an AgentSpec or an id"
            raise HiveError.of("HIVE-409", f"{getattr(agent, '__name__', agent)} is no agent", fix=fix)
        agent = read_agent(workspace, agent, tools, goal)
        load_rules(workspace)  # one that can't be read would stop the run at its first judgment, after its effects
        standing = Standing.of(workspace, principal) if principal is not None else None
        limits = (limits or Limits.of(workspace.settings.runs)).within(agent.budget)
        value = RunValue.of(agent, goal, accepted_input(agent, input), standing, limits, brought)
        if models is None:
            models = RunModels(workspace, agent)
            models.require_prices(limits.usd)
        if hold:  # a host opens its own models
            _require_model(agent, models)
        run_id = store.new_run_id()
        thread_id = thread_id or f"{agent.id}:{run_id}"
        # Before the row is stored: hosts take every queued run without a lease.
        lease = leases_of(workspace).acquire(thread_id, run_id) if hold else None
        new = False
        try:
            row, new = RunStore(workspace).insert(
                AGENT_GRAPH,
                value.model_dump(mode="json"),
                agent=agent.id,
                owner=principal,
                thread_id=thread_id,
                key=key,
                run_id=run_id,
            )
        finally:
            if not new and lease is not None:
                lease.release()
        if not new:
            same = RunValue.read(row.value).agent == value.agent  # `agent` may have judges that aren't stored
            return cls.resume(workspace, row.run_id, agent=agent if same else None, **passed, **seams)
        goal = goal or load_goal(workspace, agent.goal)
        return cls(workspace, row, agent, goal, tools, models, **seams, _lease=lease)

    @classmethod
    def resume(
        cls,
        workspace: Workspace,
        run_id: str,
        *,
        agent: AgentSpec | TypedCode[Any, Any] | None = None,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        **seams: Any,
    ) -> AgentRun:
        """Return the run as it was started; `agent` is needed only where its judges or its code are objects that the
        modules of [tools] python don't have.

        Raises: HIVE-409 (exit code 2) for an unknown run or one of another graph.
        """
        row = RunStore(workspace).get(run_id)
        if row.graph != AGENT_GRAPH:
            fix = "`hive optimize --resume` goes on with the optimizer's"
            raise HiveError.of("HIVE-409", f"{run_id} is a run of {row.graph}, not of an agent", fix=fix, exit_code=2)
        value = RunValue.read(row.value)
        tools = _tools(workspace, tools)
        agent = (agent.spec if isinstance(agent, TypedCode) else agent) or value.agent
        for node in agent.nodes:
            if node.code is not None:
                require_code(tools, node.code)
        return cls(
            workspace,
            row,
            agent,
            value.goal or load_goal(workspace, agent.goal),
            tools,
            models or RunModels(workspace, agent),
            **seams,
        )

    @staticmethod
    def result_of(row: RunRow) -> dict[str, Any]:
        """Return {run_id, status, outputs, judgment, approval_ids, stopped_by, error}."""
        current = {"status": row.status, "stopped_by": row.summary["stopped_by"], "error": row.summary["error"]}
        empty: dict[str, Any] = {
            "run_id": row.run_id,
            "status": None,
            "outputs": {},
            "judgment": None,
            "approval_ids": [],
        }
        return (row.result or empty) | current

    @staticmethod
    def checkpoints(row: RunRow) -> str:
        return row.run_id

    def open(self, lease: Lease, bus: Bus | None) -> AgentSession:
        assert bus is not None, "runs of agents publish events"
        import_module(f"graphs.{self.GRAPH}")
        value = RunValue.read(self.row.value)
        models = self.models if isinstance(self.models, RunModels) else None

        def permitted() -> Principal | None:
            return value.principal.now(self.workspace) if value.principal else None

        effects = Effects(
            self.workspace,
            self.run_id,
            Budget(value.limits),
            lease=lease,
            permitted=permitted,
            mark=(lambda: models.mark) if models is not None else None,
            recorded=self.recorded,
        )
        if models is not None:
            models.restore(effects.last_mark())
        runtime = Runtime(self.workspace, tenant=self.row.tenant, run_id=self.run_id, reader=permitted)
        return AgentSession(
            self.workspace,
            self.agent,
            self.goal,
            self.run_id,
            self.row.thread_id,
            self.tools,
            self.models,
            effects,
            runtime,
            partial(EventLog(self.workspace).tell, bus),
            value.principal,
            self.on_text,
            self.stubs,
            patience=self.workspace.settings.runs.patience_seconds if self.hosted else 0.0,
        )

    def compile(self, saver: BaseCheckpointSaver[str] | None) -> Any:
        # Not an installed graph: it is built from the agent's spec.
        return import_module(f"graphs.{self.GRAPH}").compiled(self.agent).copy({"checkpointer": saver})

    def begin(self, context: AgentSession) -> dict[str, Any]:
        for key, value in self.row.value["input"].items():
            context.buffer.write(key, value)
        return {"run_id": self.run_id}

    def outcome(self, context: AgentSession, state: Mapping[str, Any], pending: list[str]) -> RunOutcome:
        end = state.get("outcome") or {"status": "waiting", "error": None}
        fault = end["error"]
        verdicts = len(state.get("verdicts", [])) + 1
        judged = context.effects.find(f"GOAL#{verdicts}") or context.effects.find(f"GOAL#{verdicts - 1}")
        error = {"code": fault["code"], "message": fault["message"]} if fault else None
        stopped_by = fault["reason"] if fault else None
        result = {
            "run_id": self.run_id,
            "status": end["status"],
            "outputs": results(context, state.get("ends", [])),
            "judgment": judged["judgment"] if judged else None,
            "approval_ids": pending,
            "stopped_by": stopped_by,
            "error": error,
        }
        return RunOutcome(end["status"], result, stopped_by, error)

    def require_model(self) -> None:
        """Raises: HIVE-401 where the agent needs a chat model, and none can be opened here."""
        _require_model(self.agent, self.models)

    def say(self, text: str) -> None:
        """Send a message to the agent; see `runs.say`."""
        say(self.workspace, self.run_id, text)


def _require_model(agent: AgentSpec, models: Callable[[Role], Chain]) -> None:
    for node in agent.nodes:
        if node.code is None or (isinstance(node.code, Agent) and node.code.asked.model is None):
            models("chat")


def _tools(workspace: Workspace, tools: ToolRegistry | None) -> ToolRegistry:
    """Return the tools of a workspace, overridden by `tools`."""
    from hive_agents.agents.own_tools import workspace_tools

    known = workspace_tools(workspace)
    return known if tools is None else tools.over(known)
