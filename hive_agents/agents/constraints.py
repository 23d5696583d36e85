"""The hard constraints of a goal that speak of a call: asked before its effect, for after it they come too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.agents.tool import Tool
from hive_agents.expressions import ExpressionError
from hive_agents.goals import Constraint, Goal


def speaking(goal: Goal, tool: Tool, arguments: Mapping[str, Any]) -> list[Constraint]:
    """Return the hard constraints that are about a call.

    That is one whose check reads `tool` or `args`, where the arguments have the keys that it can't do without; and,
    for a tool with effects, one whose check reads a key of the result that the call has as an argument.
    """
    return [one for one in goal.constraints if one.constraint_type == "hard" and _speaks(one, tool, arguments)]


def violated(
    constraints: Sequence[Constraint], result: Mapping[str, Any], tool: str, arguments: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return {id, description, why} of each that doesn't hold for a call, or can't be told.

    Its arguments stand for the outputs of the same names. A check that needs an output which isn't there yet waits.
    """
    found = []
    outputs = {**result, **arguments}
    names = {"result": outputs, "tool": tool, "args": dict(arguments)}
    for one in constraints:
        condition = one.condition
        assert condition is not None, "constraints that speak of calls have a check"
        if not condition.keys("result")[0] <= outputs.keys():
            continue
        try:
            why = "" if condition.evaluate(names) else f"{one.check} does not hold"
        except ExpressionError as error:
            why = f"{one.check} can't be told: {error}"
        if why:
            found.append({"id": one.id, "description": one.description, "why": why[:500]})
    return found


def _speaks(constraint: Constraint, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    condition = constraint.condition
    if condition is None:
        return False
    if constraint.of_calls:
        return condition.uses("tool") or condition.keys("args")[0] <= arguments.keys()
    return tool.side_effect != "read" and not arguments.keys().isdisjoint(condition.keys("result")[1])
