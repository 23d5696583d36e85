"""Stubs of tools in an eval case, and the calls that the case expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hive_agents.agents.tool import Tool
from hive_agents.goals import CALL_NAMES, EvalCase, ExpectedCall, ToolStub
from hive_agents.goals.expressions import ExpressionError, parse
from hive_agents.memory import ToolResult

StubCall = tuple[str, dict[str, Any]]


@dataclass
class Heard:
    """The calls that were made, in order, those that a person was asked about, and the tools of refused ones."""

    calls: list[StubCall] = field(default_factory=list)
    asked: list[StubCall] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def stubbed(tool: Tool, stubs: ToolStub | Sequence[ToolStub], heard: Heard) -> Tool:
    """Return the tool with its action replaced: a call is answered by the first stub that fits and isn't used up."""
    choices = [stubs] if isinstance(stubs, ToolStub) else list(stubs)
    remaining = {n: one.times for n, one in enumerate(choices) if one.times is not None}

    async def call(arguments: Mapping[str, Any], *_: Any) -> Any:
        heard.calls.append((tool.name, dict(arguments)))
        fitting = (n for n, one in enumerate(choices) if remaining.get(n) != 0 and _holds(one.when, arguments))
        n = next(fitting, None)
        if n is None:
            heard.refused.append(tool.name)
            return ToolResult(f"this is a rehearsal: the case has no answer of {tool.name} to this", is_error=True)
        if n in remaining:
            remaining[n] -= 1
        stub = choices[n]
        return ToolResult(stub.error, is_error=True) if stub.error is not None else stub.returns

    return replace(tool, call=call, credentials={})


def unexpected(case: EvalCase, heard: Heard, row: Mapping[str, Any]) -> str:
    """Return how the calls or the cost violate the case, in words; "" where they don't."""
    wanted = case.calls
    if wanted is not None:
        calls = iter(heard.calls)
        for expected in wanted.order:
            if not any(_is(expected, call) for call in calls):
                return f"it did not call {_described(expected)}" + (" in that order" if len(wanted.order) > 1 else "")
        for expected in wanted.never:
            if any(_is(expected, call) for call in heard.calls):
                return f"it called {_described(expected)}"
        for expected in wanted.asks:
            if not any(_is(expected, call) for call in heard.asked):
                return f"it asked nobody about {_described(expected)}"
    for measure, limit in (case.at_most or {}).items():
        if row[measure] > limit:
            return f"it took {row[measure]:g} {measure}, more than {limit:g}"
    return ""


def _is(expected: ExpectedCall, call: StubCall) -> bool:
    return expected.tool == call[0] and _holds(expected.when, call[1])


def _holds(when: str | None, arguments: Mapping[str, Any]) -> bool:
    if when is None:
        return True
    try:
        return bool(parse(when, CALL_NAMES).evaluate({"args": dict(arguments)}))
    except ExpressionError:
        return False


def _described(expected: ExpectedCall) -> str:
    return expected.tool + (f" with {expected.when}" if expected.when else "")
