"""Run an agent: started, resumed after a crash or an answer, always with a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hive_agents.access import Principal
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.guards import Limits
from hive_agents.approvals import ApprovalStore
from hive_agents.errors import HiveError
from hive_agents.events import Event, EventBus, EventLog
from hive_agents.goals import Goal, load_goal
from hive_agents.llm import Chain, Role, waited
from hive_agents.runs import AGENT_GRAPH, ENDED, Hold, Lease, Leases, RunRow, RunStore, new_run_id, say, take, taken
from hive_agents.runtime.agent_drive import Drive, result_of
from hive_agents.runtime.agent_input import RunValue, accepted_input, read_agent
from hive_agents.runtime.run_models import RunModels
from hive_agents.telemetry import span
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.events import Bus


@dataclass
class AgentRun:
    """One run of an agent; its row is in the store before its graph starts.

    `tools` are what the agent may use, the bundled ones by default; `models` opens the chain of a role, those of the
    settings by default; `bus` gets the events, one of the run's own by default, which logs them; `on_text` gets a
    node's name and what its model says, piece by piece, `on_event` each event of the run. None of these is stored:
    whoever resumes a run brings them. A `hosted` run is worked on only while nobody wants it to rest, and goes back
    into the queue where it breaks off or is cancelled.

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

    workspace: Workspace
    row: RunRow
    agent: AgentSpec
    goal: Goal
    tools: ToolRegistry
    models: Callable[[Role], Chain]
    bus: Bus | None = None
    on_text: Callable[[str, str], object] | None = None
    on_event: Callable[[Event], object] | None = None
    hosted: bool = False
    _drained: bool = field(default=False, repr=False)
    _lease: Lease | None = field(default=None, repr=False)
    _drive: Drive | None = field(default=None, repr=False)

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
        key: str | None = None,
        hold: bool = True,
        limits: Limits | None = None,
        tools: ToolRegistry | None = None,
        models: Callable[[Role], Chain] | None = None,
        **seams: Any,
    ) -> AgentRun:
        """A queued run. `input` gives each input key of the entry; `limits` are those of the settings by default.

        With `hold` it is this process's for now; without, a host takes it. With a `key` that a run of the same tenant
        has already, it is that run which comes back, with the agent that it was started with.

        Raises: HIVE-106, HIVE-103 or HIVE-104 (exit code 2) for a bad input, what levels 1 and 2 find in the agent,
        HIVE-401 without a model where it is held, HIVE-409 for a key of a run that was started with something else, and
        for a limit in dollars where a model's price isn't known.
        """
        given: dict[str, Any] = {"tools": tools, "models": models}
        brought = tools is not None or models is not None
        tools = _tools(workspace, tools)
        agent = read_agent(workspace, agent, tools, goal)
        limits = limits or Limits.of(workspace.settings.runs)
        value = RunValue.of(agent, goal, accepted_input(agent, input), principal, limits, brought)
        if models is None:
            models = RunModels(workspace, agent)
            models.require_prices(limits.usd)
        if hold:  # a host has models of its own
            models("chat")
        run_id = new_run_id()
        thread_id = thread_id or f"{agent.id}:{run_id}"
        # Before the row: a host takes whatever is queued and nobody's.
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
            same = RunValue.read(row.value).agent == value.agent  # which may have judges that aren't stored
            return cls.resume(workspace, row.run_id, agent=agent if same else None, **given, **seams)
        goal = goal or load_goal(workspace, agent.goal)
        return cls(workspace, row, agent, goal, tools, models, **seams, _lease=lease)

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
        row = RunStore(workspace).get(run_id)
        if row.graph != AGENT_GRAPH:
            fix = "`hive optimize --resume` goes on with the optimizer's"
            raise HiveError.of("HIVE-409", f"{run_id} is a run of {row.graph}, not of an agent", fix=fix, exit_code=2)
        value = RunValue.read(row.value)
        agent = agent or value.agent
        return cls(
            workspace,
            row,
            agent,
            value.goal or load_goal(workspace, agent.goal),
            _tools(workspace, tools),
            models or RunModels(workspace, agent),
            **seams,
        )

    @property
    def run_id(self) -> str:
        return self.row.run_id

    def go(self, *, wait: float = 30.0) -> dict[str, Any]:
        """`work` for code that doesn't await, in a notebook too; Ctrl-C leaves the run stopped, to be resumed."""
        try:
            return waited(self.work(wait=wait))
        except KeyboardInterrupt:
            store = RunStore(self.workspace)
            self.row = store.get(self.run_id)
            if self.row.status == "queued":  # nothing had begun that could record it
                self.row, _ = store.move(self.run_id, "queued", "interrupted", to="stopped")
            return result_of(self.row)

    async def work(self, *, wait: float = 30.0) -> dict[str, Any]:
        """Run to the end, or until people have to answer; a run that has ended gives its result again.

        Somebody may pause or stop it meanwhile (`runs.pause`, `runs.stop`, from any process), or `drain` it. Where they
        did so while this waited for another process, that holds.

        Returns {run_id, status, outputs, judgment, approval_ids, stopped_by, error}.
        Raises: HIVE-402 where another process still works on it after `wait` seconds; HIVE-425 where one took it over.
        """
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        assert worker is not None
        lease = await taken(lambda: self._taken(wait))
        assert lease is not None
        drive = self._drive = Drive(self, lease, worker)
        async with Hold(lease, lambda asked: loop.call_soon_threadsafe(drive.ask, asked)):
            if await asyncio.to_thread(self._rests):
                return result_of(self.row)
            if self._drained:
                drive.ask("drain")
            try:
                with span(f"run {self.agent.id}", workspace=self.workspace, hive__run_id=self.run_id) as told:
                    result = await self._driven(drive)
                    told.note(hive__status=result["status"])
                    return result
            finally:
                self.row = await asyncio.to_thread(RunStore(self.workspace).get, self.run_id)

    def drain(self) -> None:
        """Let the run rest after its present step and go back into the queue; called on its event loop."""
        self._drained = True
        if self._drive is not None:
            self._drive.ask("drain")

    def say(self, text: str) -> None:
        """A person's words to the agent, read before its next turn."""
        say(self.workspace, self.run_id, text)

    async def _driven(self, drive: Drive) -> dict[str, Any]:
        async with AsyncExitStack() as stack:
            bus = self.bus or EventBus(EventLog(self.workspace))
            if isinstance(bus, EventBus) and bus is not self.bus:
                await stack.enter_async_context(bus)
            if self.on_event is not None:
                stack.callback(bus.unsubscribe, bus.subscribe(self.on_event, run_id=self.run_id))
                stack.push_async_callback(bus.drain)
            return await drive.go(bus)

    def _taken(self, wait: float) -> Lease:
        import_module(f"graphs.{AGENT_GRAPH}")  # in this thread: it takes a second the first time
        lease, self._lease = self._lease, None
        if lease is not None and lease.renew():
            return lease
        return take(leases_of(self.workspace), self.row.thread_id, self.run_id, wait)

    def _rests(self) -> bool:
        """Whether there is nothing to do as the row stands now: it has ended, or nobody has answered what it asked."""
        known, self.row = self.row.status, RunStore(self.workspace).get(self.run_id)
        if self.row.status in ("paused", "stopped") and (self.hosted or self.row.status != known):
            return True
        if self.hosted and self.row.status in ENDED:
            return True
        if self.row.result is None:
            return False
        return self.row.status in ENDED or (self.row.status == "waiting" and not self._answered(self.row.result))

    def _answered(self, result: dict[str, Any]) -> bool:
        store, asked = ApprovalStore(self.workspace), result["approval_ids"]
        return not asked or any(store.get(id).decided for id in asked)


def leases_of(workspace: Workspace) -> Leases:
    return Leases(workspace, seconds=workspace.settings.runs.lease_seconds)


def _tools(workspace: Workspace, given: ToolRegistry | None) -> ToolRegistry:
    """The tools of a workspace, and over them those that the caller brings."""
    from hive_agents.agents import workspace_tools

    known = workspace_tools(workspace)
    return known if given is None else given.over(known)
