"""The visit of a node that is code: its function is run from its start each time, over the steps recorded so far.

A step's key is its place, that is, who calls what and how often before, with a digest of its arguments: so code that
no longer matches the record of a waiting run is noticed before it has an effect. Each branch, that is, each task of
asyncio, counts its own calls; the keys of a branch are in the order of its calls, whatever other branches do.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from hive_agents.agents import calls
from hive_agents.agents.code import Agent, Flow, caller, faults_of
from hive_agents.agents.effects import Done
from hive_agents.agents.node_end import End
from hive_agents.agents.node_requests import Pending
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.sub_agents import NodeLoop, delegated
from hive_agents.agents.tool import HERE, Call, Tool, answered
from hive_agents.agents.tools import ToolRegistry, Tools
from hive_agents.base import HiveError, RightsWithdrawn, WorkerFault, sha256
from hive_agents.runs import LeaseLost, checkpoints

T = TypeVar("T")
CHANGED = "HIVE-436"
_never: ContextVar[tuple[Callable[[Call], bool], ...]] = ContextVar("what flows at work forbid", default=())


class Suspended(BaseException):
    """Unwinds a flow that has to wait; no Exception, so that a flow doesn't take it for the failure of a step."""


async def outputs_of(work: NodeWork, loop: NodeLoop) -> dict[str, Any]:
    """Return the outputs of a node that is code, as JSON by key.

    Raises: Pending where people have to answer first; BudgetExhausted; HIVE-436 where the code doesn't match the
    record; what the code raises.
    """
    code = require_code(work.session.tools, work.node.code)
    return await Recorder(work, loop).run(code, work.inputs)


def require_code(tools: ToolRegistry, code: Any) -> Any:
    """Return the code of a node, which may be its name. Raises: HIVE-409 where it isn't here."""
    found = tools.code.get(code) if isinstance(code, str) else code
    if found is None:
        fix = "name its module under [tools] python, or resume the run with its code: hive run MODULE:NAME --resume RUN"
        raise HiveError.of("HIVE-409", f'the code "{code}" isn\'t here', fix=fix)
    return found


class Recorder:
    """The steps of one visit: what the code calls, each carried out once."""

    def __init__(self, work: NodeWork, loop: NodeLoop) -> None:
        self._work, self._loop = work, loop
        own = [end for end in work.ends if end["node"] == work.node.id]
        completed = sum(end["status"] == "completed" for end in own)
        self._again = work.visit - completed - 1
        """How often a person had the visit tried again after it failed: then its failed steps are done anew."""
        self._base = work.key_of(_end(work.node.id, completed + 1))
        first = work.session.effects.first_parts(f"{self._base}/")
        self._known = {key.partition("~")[0]: key for key in first if "~" in key}
        self._seen: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._branches: dict[Any, str] = {}
        self._requests: dict[int, list[str]] = {}
        """What people are asked, by the number of the step, so that it is shown in the order of the code."""
        self._fault: BaseException | None = None
        self._running, self._rests = 0, asyncio.Event()

    async def run(self, code: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of the code; a step that can't go on unwinds it."""
        self._branches[asyncio.current_task()] = ""
        found: dict[str, Any] = {}
        fault: Exception | None = None
        token = HERE.set(self)
        try:
            found = await self._called(code, inputs)
        except Suspended:
            pass
        except BaseExceptionGroup as group:
            first = _first(group)
            if not isinstance(first, Suspended | Exception):
                raise
            fault = first if isinstance(first, Exception) else None
        except Exception as error:
            fault = error
        finally:
            HERE.reset(token)
        await self._at_rest()  # branches that were left alone have effects, which are recorded first
        if self._fault is not None:
            raise self._fault
        if self._requests:
            raise Pending([id for n in sorted(self._requests) for id in self._requests[n]])
        if fault is not None:
            raise fault
        if left := self._left():
            raise self._changed(f"it no longer comes to {left[0]}")
        return found

    async def _called(self, code: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(code, Flow):
            return _typed(code, await self.within(code, code.takes.load(inputs)))
        if isinstance(code, Agent):
            return code.gives.dump(await self.ask(code, code.takes.load(inputs), ""))
        if hasattr(code, "ainvoke"):
            return await _graph_outputs(code, inputs, self._work.node.output_keys)
        value = _as_json(await answered(code, **inputs))
        keys = self._work.node.output_keys
        return dict(value) if isinstance(value, Mapping) else {keys[0]: value} if keys else {}

    async def within(self, flow: Flow[Any, T], input: Any) -> T:
        token = _never.set((*_never.get(), flow.never) if flow.never is not None else _never.get())
        try:
            return await flow.function(input)
        finally:
            _never.reset(token)

    def call(self, tool: Tool, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        return self._step(tool.name, arguments, partial(self._tool, tool, arguments, _never.get()))

    def read(self, tool: Tool, call: Callable[[], Any]) -> Any:
        stub = self._work.session.stubs
        return call() if stub is None else stub.read(tool, call)

    def ask(self, agent: Agent[Any, T], input: Any, note: str) -> Coroutine[Any, Any, T]:
        given = agent.accepted(input)
        if note and "note" in given:
            fix = "put it into the input, or call the field otherwise"
            raise HiveError.of("HIVE-409", f"the input of {agent.name} has a note of its own", fix=fix)
        given |= {"note": note} if note else {}
        return self._step(agent.name, given, partial(self._agent, agent, given, _never.get()))

    def _step(self, name: str, given: Any, do: Callable[[str], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        """Return a step whose place is that of this call, not of when it is awaited."""
        branch = self._branches.setdefault(asyncio.current_task(), f"{len(self._branches)}:")
        place = f"{self._base}/{branch}{caller(3)}.{name}"
        self._counts[place] += 1
        place = f"{place}.{self._counts[place]}"
        key = f"{place}~{sha256(json.dumps(given, sort_keys=True))[:12]}"
        self._seen.add(place)
        return self._carried_out(len(self._seen), branch, place, key, do)

    async def _carried_out(
        self, number: int, branch: str, place: str, key: str, do: Callable[[str], Awaitable[T]]
    ) -> T:
        try:
            return await self._begun(number, branch, place, key, do)
        except Suspended:
            await self._at_rest()  # a TaskGroup cancels its other tasks when one is unwound, also in mid-effect
            raise

    async def _at_rest(self) -> None:
        """Wait until no step is being carried out."""
        while self._running:
            self._rests.clear()
            await self._rests.wait()

    async def _begun(self, number: int, branch: str, place: str, key: str, do: Callable[[str], Awaitable[T]]) -> T:
        if self._fault is not None or self._requests:
            raise Suspended
        self._running += 1
        try:
            if not self._again:
                if self._known.get(place, key) != key:
                    raise self._changed(f"it calls {self._shown(place)} with other arguments")
                if place not in self._known and (left := self._left(branch)):
                    raise self._changed(f"it comes to {self._shown(place)} before {left[0]}")
            return await self._tried(key, do)
        except Pending as pending:
            self._requests[number] = pending.requests
            raise Suspended from None
        except _Failed as failed:
            raise failed.error from None
        except Exception as error:
            if isinstance(error, HiveError) and not isinstance(error, _ENDING) and error.exit_code != 3:
                raise
            self._fault = self._fault or error
            raise Suspended from None
        finally:
            self._running -= 1
            self._rests.set()

    async def _tried(self, key: str, do: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of a step; one that failed is done anew after a person had the run tried again."""
        for attempt in range(self._again + 1):
            try:
                return await do(f"{key}!{attempt}" if attempt else key)
            except _Failed:
                if attempt == self._again:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _tool(self, tool: Tool, arguments: dict[str, Any], never: Any, key: str) -> Any:
        stub = self._work.session.stubs
        policy = self._work.session.agent.tool_policy
        tool = stub.tool(tool) if stub is not None else tool
        tool = _lent(tool)
        node = self._work.node.model_copy(update={"tools": [tool.name]})
        work = replace(self._work, node=node, policies=Tools({tool.name: tool}, [policy], never=never))
        result = await calls.by_code(work, key, tool.name, arguments)
        if result["is_error"]:
            raise _Failed(result["content"], tool.name)
        return _returned(tool, result["content"])

    async def _agent(self, agent: Agent[Any, T], given: dict[str, Any], never: Any, key: str) -> T:
        work, spec = self._work, agent.asked
        session = work.session
        recorded = session.effects.find(key)
        if recorded is None and session.stubs is not None:
            outputs = await session.stubs.agent(agent, given)
            result: dict[str, Any] = {"agent": agent.name, "status": "completed", "outputs": outputs, "error": None}
        elif recorded is None:
            tools = {one.name: _lent(one) for one in agent.tools if isinstance(one, Tool)}
            tools |= {name: session.tools[name] for name in agent.tools if isinstance(name, str)}
            reach = Tools(tools, [session.agent.tool_policy], sub_agent=True, never=never)
            if "note" in given:
                node = spec.nodes[0].model_copy(update={"input_keys": [*spec.nodes[0].input_keys, "note"]})
                spec = spec.model_copy(update={"nodes": [node]})
            async with session.delegations:
                result = await delegated(work, key, agent.name, "", given, self._loop, agent=spec, reach=reach)
        if recorded is None:
            made = Done(result)
            recorded = await session.effects.within(key, "synthetic", agent.name, lambda: made, node=work.node.id)
        if recorded["status"] != "completed":
            raise _Failed(f"{agent.name} failed: {recorded['error']}", agent.name)
        return agent.gives.load_outputs(recorded["outputs"])

    def _left(self, branch: str | None = None) -> list[str]:
        """Return the recorded steps that the code hasn't come to this time, by name."""
        if self._again:
            return []
        left = [place for place in self._known if place not in self._seen]
        return [self._shown(place) for place in left if branch is None or _branch(self._base, place) == branch]

    def _shown(self, place: str) -> str:
        name, _, n = place.removeprefix(f"{self._base}/").rpartition(".")
        return f"{name.rpartition('.')[2]} ({n})" if n != "1" else name.rpartition(".")[2]

    def _changed(self, how: str) -> HiveError:
        run_id = self._work.session.run_id
        message = f"the code of {self._work.node.id} doesn't match what the run has done: {how}"
        fix = (
            f"put the code back, or go on with what still matches: hive runs retry {run_id}, which does the rest anew;"
            " or begin again with a new run. Between its steps a flow has to do the same each time"
        )
        return Changed.of(CHANGED, message, fix=fix)


class Changed(WorkerFault):
    """Code no longer matches the record of its run."""


class TrialFault(HiveError):
    """A trial lacks a stub, or has one that doesn't fit: a mistake of the test, which the code must not catch."""


_ENDING = (Changed, LeaseLost, RightsWithdrawn, TrialFault)
"""What ends the work, whatever the code would make of it."""


class _Failed(Exception):
    """A recorded step that failed, with the error that the code gets."""

    def __init__(self, message: str, step: str) -> None:
        super().__init__(message)
        self.error = HiveError.of("HIVE-422", message[:2_000], path=step)


def _lent(tool: Tool) -> Tool:
    """Return a tool as code lends it: what only reads is allowed, unless a policy says otherwise."""
    reads = tool.side_effect == "read" and tool.policy == "ask" and not tool.binds
    return replace(tool, policy="allow") if reads else tool


def _branch(base: str, place: str) -> str:
    number, colon, _ = place.removeprefix(f"{base}/").partition(":")
    return f"{number}:" if colon else ""


def _end(node: str, visit: int) -> End:
    return End(node=node, visit=visit, status="completed", outputs=[], targets=[], conversation="", error=None)


def _first(error: BaseException) -> BaseException:
    """Return what ends a group of branches: that one of them has to wait, or else the first of their errors."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    return _first((error.subgroup(Suspended) or error).exceptions[0])


def _typed(flow: Flow[Any, Any], value: Any) -> dict[str, Any]:
    from pydantic import ValidationError

    try:
        return flow.gives.dump(value)
    except ValidationError as error:
        why = f"{flow.name} returned what it isn't annotated with: {faults_of(error)[0]}"
        raise HiveError.of("HIVE-422", why) from None


def _as_json(value: Any) -> Any:
    """Return models, dataclasses and messages as JSON has them; what can't be JSON as it is."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(value, by_alias=False)
    except PydanticSerializationError:  # the data buffer says which value it is
        return value


async def _graph_outputs(graph: Any, inputs: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    state = await checkpoints.on_its_own(graph, dict(inputs))
    if "__interrupt__" in state:
        fix = "let an effect with `ask` be what a person decides"
        raise HiveError.of("HIVE-422", "the graph stopped at an interrupt, which nobody answers here", fix=fix)
    return {key: _as_json(state[key]) for key in keys if key in state}


def _returned(tool: Tool, content: str) -> Any:
    """Return what a tool's function returned, of the type that it is annotated with, from its JSON."""
    from typing import get_type_hints

    from pydantic import TypeAdapter, ValidationError

    value = json.loads(content)
    try:
        hint = get_type_hints(tool.function).get("return", Any) if tool.function is not None else Any
        return TypeAdapter(hint).validate_python(value) if hint is not None else None
    except NameError:  # a type that only its module's readers can see
        return value
    except ValidationError as error:
        raise _Failed(f"{tool.name} returned what it isn't annotated with: {faults_of(error)[0]}", tool.name) from None
