"""Tools that stand in for others in an eval case, and what the case expects of the calls that are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hive_agents.agents import Tool
from hive_agents.expressions import ExpressionError, parse
from hive_agents.goals import CALL_NAMES, EvalCase, ExpectedCall, ToolStub
from hive_agents.memory import ToolResult

StubCall = tuple[str, dict[str, Any]]


@dataclass
class Heard:
    """What was called, in order, what a person was asked about, and what was refused."""

    calls: list[StubCall] = field(default_factory=list)
    asked: list[StubCall] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def stubbed(tool: Tool, stubs: ToolStub | Sequence[ToolStub], heard: Heard) -> Tool:
    """Return the tool with the first of its stubs that fits a call, and isn't used up, in place of what it does."""
    choices = [stubs] if isinstance(stubs, ToolStub) else list(stubs)
    left = {n: one.times for n, one in enumerate(choices) if one.times is not None}

    async def call(arguments: Mapping[str, Any], *_: Any) -> Any:
        heard.calls.append((tool.name, dict(arguments)))
        fits = (n for n, one in enumerate(choices) if left.get(n) != 0 and _holds(one.when, arguments))
        n = next(fits, None)
        if n is None:
            heard.refused.append(tool.name)
            return ToolResult(f"this is a rehearsal: the case has no answer of {tool.name} to this", is_error=True)
        if n in left:
            left[n] -= 1
        found = choices[n]
        return ToolResult(found.error, is_error=True) if found.error is not None else found.returns

    return replace(tool, call=call, credentials={})


def unexpected(case: EvalCase, heard: Heard, row: Mapping[str, Any]) -> str:
    """Return in words what of the calls and the cost isn't as the case wants it; "" where all is."""
    wanted = case.calls
    if wanted is not None:
        left = iter(heard.calls)
        for expected in wanted.order:
            if not any(_is(expected, call) for call in left):
                return f"it did not call {_told(expected)}" + (" in that order" if len(wanted.order) > 1 else "")
        for expected in wanted.never:
            if any(_is(expected, call) for call in heard.calls):
                return f"it called {_told(expected)}"
        for expected in wanted.asks:
            if not any(_is(expected, call) for call in heard.asked):
                return f"it asked nobody about {_told(expected)}"
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


def _told(expected: ExpectedCall) -> str:
    return expected.tool + (f" with {expected.when}" if expected.when else "")
