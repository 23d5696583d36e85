"""What a goal's hard constraints say of a call of a tool: as the agent made it, and as a person edits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hive_agents.agents.tool import SideEffect, Tool
from hive_agents.expressions import ExpressionError
from hive_agents.files import Format
from hive_agents.goals import Constraint, Goal


class CallBounds(Format):
    """The constraints that a tool's calls are held to, with what their checks read of the result so far.

    A request to make a call has them in `context["hard_constraints"]`, so that an edit is held to just what the call
    was held to.

    >>> small = Constraint(id="small", check="args['amount'] <= result['most']")
    >>> pay = Tool("pay", "Pay.", {"properties": {"amount": {"type": "number"}}}, "external", print)
    >>> bounds = CallBounds.of([small], pay, {"most": 100, "other": "x"})
    >>> bounds.result, bounds.violated("pay", {"amount": 100})
    ({'most': 100}, [])
    >>> bounds.violated("pay", {"amount": 101})[0]["why"]
    "args['amount'] <= result['most'] does not hold"
    """

    constraints: list[Constraint]
    side_effect: SideEffect
    parameters: list[str]
    defaults: dict[str, Any]
    """What stands for the arguments that a call leaves out."""
    result: dict[str, Any]

    @classmethod
    def of(cls, constraints: Sequence[Constraint], tool: Tool, result: Mapping[str, Any]) -> CallBounds:
        read = [constraint.condition for constraint in constraints if constraint.condition is not None]
        whole = any(condition.reads_whole("result") for condition in read)
        keys = frozenset().union(*(condition.keys("result")[1] for condition in read))
        kept = {name: value for name, value in result.items() if whole or name in keys}
        given: Mapping[str, Any] = tool.parameters.get("properties") or {}
        return cls(
            constraints=list(constraints),
            side_effect=tool.side_effect,
            parameters=list(given),
            defaults={name: of["default"] for name, of in given.items() if isinstance(of, dict) and "default" in of},
            result=kept,
        )

    def violated(self, tool: str, arguments: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return {id, description, why} of each that doesn't hold for a call, or can't be told.

        Its arguments stand for the outputs of the same names. A check that needs an output which isn't there yet waits;
        one that needs an argument which is left out, and has no default, can't be told.
        """
        found = []
        args = {**self.defaults, **arguments}
        for one in self.constraints:
            if not speaks(one, self.side_effect, self.parameters, arguments):
                continue
            condition = one.condition
            assert condition is not None, "constraints that speak of calls have a check"
            outputs = {**self.result, **arguments}
            names = {"result": outputs, "tool": tool, "args": args}
            if not condition.keys("result")[0] <= outputs.keys():
                continue
            try:
                why = "" if condition.evaluate(names) else f"{one.check} does not hold"
            except ExpressionError as error:
                why = f"{one.check} can't be told: {error}"
            if why:
                found.append({"id": one.id, "description": one.description, "why": why[:500]})
        return found


def binding(goal: Goal, tool: Tool) -> list[Constraint]:
    """Return the hard constraints that may be about a call of a tool, whatever its arguments are."""
    given = set(tool.parameters.get("properties") or {})
    any_name = bool(tool.parameters.get("additionalProperties"))
    return [
        one
        for one in goal.constraints
        if one.constraint_type == "hard"
        and (condition := one.condition) is not None
        and (one.of_calls or (tool.side_effect != "read" and (any_name or given & condition.keys("result")[1])))
    ]


def speaks(
    constraint: Constraint, side_effect: SideEffect, parameters: Iterable[str], arguments: Mapping[str, Any]
) -> bool:
    """Return whether a hard constraint is about a call of a tool that has these parameters.

    It is where its check reads `tool` or `args`, and the tool has the arguments that it can't do without, given or left
    out; and, for a tool with effects, where its check reads a key of the result that the call has as an argument.
    """
    condition = constraint.condition
    if condition is None:
        return False
    if constraint.of_calls:
        return condition.uses("tool") or condition.keys("args")[0] <= {*parameters, *arguments}
    return side_effect != "read" and not arguments.keys().isdisjoint(condition.keys("result")[1])
