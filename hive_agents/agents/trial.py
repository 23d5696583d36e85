"""A flow in a test: stubs in place of its agents and effects, people who answer, and what came of it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload
from weakref import finalize

from hive_agents.agents.code import Agent, TypedCode
from hive_agents.agents.code_steps import TrialFault
from hive_agents.agents.recheck import recheck_for
from hive_agents.agents.run import AgentRun
from hive_agents.agents.tool import Call, Tool
from hive_agents.agents.typed_tools import Effect, FunctionTool
from hive_agents.approvals import ApprovalStore, Verb
from hive_agents.base import HiveError
from hive_agents.workspace import Workspace

P = ParamSpec("P")
R = TypeVar("R")
In = TypeVar("In")
Out = TypeVar("Out")


class Trial(Generic[In, Out]):
    """One run of a flow in a temporary workspace, by the engine of all runs, without a model and a server.

    `stubs` gives the output of each agent that the flow calls, or a function of its input; effects have stubs, too.
    Tools that only read are called as they are, unless they have one. `run` and the answers of people return the trial
    itself, at rest.

    >>> import asyncio
    >>> from hive_agents import effect, flow
    >>> @effect
    ... async def greet(name: str) -> str:
    ...     return f"sent to {name}"
    >>> @flow
    ... async def welcome(name: str) -> str:
    ...     return await greet(name)
    >>> async def test() -> Trial[str, str]:
    ...     trial = Trial(welcome).stub(greet, returns="sent")
    ...     waits = await trial.run("Dana")
    ...     assert waits.asks == [greet.call("Dana")]
    ...     return await trial.approve(by="root")
    >>> done = asyncio.run(test())
    >>> done.output, done.count(greet)
    ('sent', 1)
    """

    def __init__(self, flow: TypedCode[In, Out], stubs: Mapping[Agent[Any, Any], Any] | None = None) -> None:
        """Raises: HIVE-105 for a stub that isn't of its agent's output type."""
        folder = Path(tempfile.mkdtemp(prefix="hive-trial-"))
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        (folder / "collections").mkdir()
        self.workspace = Workspace(folder)
        self._flow, self._run = flow, _NOT_YET
        self._stubs = _Stubs()
        for agent, returns in (stubs or {}).items():
            self.stub(agent, returns=returns)

    @overload
    def stub(self, of: Effect[P, R] | FunctionTool[P, R], *, returns: R) -> Self: ...
    @overload
    def stub(self, of: Agent[Any, R], *, returns: R | Callable[[Any], R]) -> Self: ...
    @overload
    def stub(self, of: Effect[P, R] | FunctionTool[P, R] | Agent[Any, R], *, raises: Exception) -> Self: ...
    def stub(self, of: Any, *, returns: Any = None, raises: Exception | None = None) -> Self:
        """Let an agent, an effect or a tool return this, or fail with an error.

        Raises: HIVE-105 for what isn't of an agent's output type, HIVE-409 for the name of another one's stub.
        """
        if self._stubs.stubbed.setdefault(of.name, of) is not of:
            fix = 'give one of them a name, as in Agent(…, name="checker")'
            raise HiveError.of("HIVE-409", f'two that have stubs here are called "{of.name}"', fix=fix)
        if isinstance(of, Agent) and raises is None and not callable(returns):
            _dumped(of, returns)
        self._stubs.given[of.name] = returns, raises
        return self

    async def run(self, input: In) -> Self:
        """Run the flow on an input until it ends, or waits for a person."""
        run = AgentRun.start(self.workspace, self._flow, input, models=_no_model, stubs=self._stubs)
        return await self._worked(run)

    async def approve(self, *, by: str) -> Self:
        """Approve what it waits for, and go on."""
        return await self._decided("approve", by)

    async def reject(self, *, by: str, reason: str = "no") -> Self:
        """Reject what it waits for, and go on."""
        return await self._decided("reject", by, reason=reason)

    async def edit(self, *, by: str, **args: Any) -> Self:
        """Approve what it waits for with these arguments in the place of its own, and go on."""
        return await self._decided("edit", by, args=args)

    @property
    def asks(self) -> list[Call]:
        """The calls that people are asked about. They may be asked about the output, too, by the judge of its goal."""
        calls = [one for one in self._pending() if one.kind == "tool_call"]
        return [Call(str(one.context["tool"]), dict(one.context["args"])) for one in calls]

    @property
    def status(self) -> str:
        """The status of the run: waiting, done, failed."""
        return str(self._result["status"])

    @property
    def error(self) -> str | None:
        """The code and message of the error with which it failed."""
        error = self._result["error"]
        return f"{error['code']}: {error['message']}" if error else None

    @property
    def output(self) -> Out:
        """What the flow returned. Raises: HIVE-409 for one that isn't done."""
        if self.status != "done":
            fix = "mend the flow or its stubs" if self.error else "answer what it `asks`"
            raise HiveError.of("HIVE-409", f"the flow is {self.status}: {self.error or self.asks}", fix=fix)
        return self._flow.output(self._result["outputs"])

    def count(self, of: Tool | Agent[Any, Any]) -> int:
        """Return how often an effect, a tool or an agent was carried out."""
        return self._stubs.calls[of.name]

    @property
    def _result(self) -> dict[str, Any]:
        if self._run is _NOT_YET:
            raise HiveError.of("HIVE-409", "the flow hasn't run yet", fix="await trial.run(input) first")
        return AgentRun.result_of(self._run.store.get(self._run.run_id))

    def _pending(self) -> list[Any]:
        store = ApprovalStore(self.workspace)
        return [one for one in (store.get(id) for id in self._result["approval_ids"]) if not one.decided]

    async def _decided(self, verb: Verb, by: str, *, args: Any = None, reason: str | None = None) -> Self:
        pending = self._pending()
        if not pending:
            raise HiveError.of("HIVE-409", f"nobody is asked: the flow is {self.status}", fix="see `error`")
        store = ApprovalStore(self.workspace, recheck=recheck_for(self.workspace))
        for one in pending:
            store.decide(one.id, verb, by=by, patch=args, reason=reason)
        run = AgentRun.resume(self.workspace, self._run.run_id, agent=self._flow, models=_no_model, stubs=self._stubs)
        return await self._worked(run)

    async def _worked(self, run: AgentRun) -> Self:
        self._run = run
        await run.work()
        return self


_NOT_YET: Any = None


def _no_model(_: Any) -> Any:
    raise HiveError.of("HIVE-401", "a trial has no model", fix="give each agent a stub")


class _Stubs:
    """The stubs of a trial, and how often each tool and agent was carried out."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[Any, Exception | None]] = {}
        self.stubbed: dict[str, Any] = {}
        """The agent, effect or tool that has the stub of each name."""
        self.calls: Counter[str] = Counter()

    def tool(self, tool: Tool) -> Tool:
        async def action(arguments: Mapping[str, Any], context: Any, secrets: Any) -> Any:
            self.calls[tool.name] += 1
            if tool.name not in self.given:
                return await tool.action(arguments, context, secrets)
            return self._given(tool)

        if tool.name not in self.given and tool.side_effect != "read":
            raise _unstubbed(tool.name)
        return replace(tool, action=action, credentials={})

    def read(self, tool: Tool, call: Callable[[], Any]) -> Any:
        self.calls[tool.name] += 1
        return self._given(tool) if tool.name in self.given else call()

    async def agent(self, agent: Any, given: dict[str, Any]) -> dict[str, Any]:
        self.calls[agent.name] += 1
        returns = self._given(agent)
        try:
            return _dumped(agent, returns(agent.takes.load(given)) if callable(returns) else returns)
        except HiveError as error:
            raise TrialFault(error.diagnostics) from None

    def _given(self, of: Any) -> Any:
        if of.name not in self.given:
            raise _unstubbed(of.name)
        returns, raises = self.given[of.name]
        if raises is not None:
            raise raises
        return returns


def _dumped(agent: Agent[Any, Any], value: Any) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        return agent.gives.dump(value)
    except ValidationError as error:
        why = error.errors(include_url=False)[0]["msg"]
        fix = f"give a {agent.gives.model.__name__}"
        raise HiveError.of("HIVE-105", f"the stub of {agent.name} doesn't fit: {why}", fix=fix) from None


def _unstubbed(name: str) -> TrialFault:
    return TrialFault.of("HIVE-409", f"{name} has no stub in this trial", fix=f"trial.stub({name}, returns=…)")
