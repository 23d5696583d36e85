"""A goal's hard constraints on a tool call: as the agent makes it, and as a person edits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hive_agents.agents.tool import SideEffect, Tool
from hive_agents.base.files import Format
from hive_agents.goals import Constraint, Goal
from hive_agents.goals.expressions import ExpressionError


class CallBounds(Format):
    """The constraints on a tool's calls, with the part of the result so far that their checks read.

    An approval request keeps them in `context["hard_constraints"]`: an edit is checked by the same as the call was.

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
    """Values of the arguments that a call leaves out."""
    result: dict[str, Any]

    @classmethod
    def of(cls, constraints: Sequence[Constraint], tool: Tool, result: Mapping[str, Any]) -> CallBounds:
        conditions = [constraint.condition for constraint in constraints if constraint.condition is not None]
        reads_whole_result = any(condition.reads_whole("result") for condition in conditions)
        keys = frozenset().union(*(condition.keys("result")[1] for condition in conditions))
        result_read = {name: value for name, value in result.items() if reads_whole_result or name in keys}
        properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
        return cls(
            constraints=list(constraints),
            side_effect=tool.side_effect,
            parameters=list(properties),
            defaults={
                name: schema["default"]
                for name, schema in properties.items()
                if isinstance(schema, dict) and "default" in schema
            },
            result=result_read,
        )

    def violated(self, tool: str, arguments: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return {id, description, why} of each constraint that a call violates, or that can't be evaluated.

        Arguments replace the outputs of the same names. A check of an output that isn't set yet is skipped; one of an
        argument that is left out, and has no default, can't be evaluated.
        """
        violations = []
        args = {**self.defaults, **arguments}
        for constraint in self.constraints:
            if not speaks(constraint, self.side_effect, self.parameters, arguments):
                continue
            condition = constraint.condition
            assert condition is not None, "constraints on calls have a check"
            outputs = {**self.result, **arguments}
            names = {"result": outputs, "tool": tool, "args": args}
            if not condition.keys("result")[0] <= outputs.keys():
                continue
            try:
                why = "" if condition.evaluate(names) else f"{constraint.check} does not hold"
            except ExpressionError as error:
                why = f"{constraint.check} can't be told: {error}"
            if why:
                violations.append({"id": constraint.id, "description": constraint.description, "why": why[:500]})
        return violations


def binding(goal: Goal, tool: Tool) -> list[Constraint]:
    """Return the hard constraints that can apply to a call of a tool, whatever its arguments are."""
    properties = set(tool.parameters.get("properties") or {})
    any_name = bool(tool.parameters.get("additionalProperties"))
    return [
        one
        for one in goal.constraints
        if one.constraint_type == "hard"
        and (condition := one.condition) is not None
        and (one.of_calls or (tool.side_effect != "read" and (any_name or properties & condition.keys("result")[1])))
    ]


def speaks(
    constraint: Constraint, side_effect: SideEffect, parameters: Iterable[str], arguments: Mapping[str, Any]
) -> bool:
    """Return whether a hard constraint applies to a call of a tool with these parameters.

    It applies where its check reads `tool`, or `args` of which the tool has all that the check needs; and, for a tool
    with effects, where its check reads a key of the result that the call has as an argument.
    """
    condition = constraint.condition
    if condition is None:
        return False
    if constraint.of_calls:
        return condition.uses("tool") or condition.keys("args")[0] <= {*parameters, *arguments}
    return side_effect != "read" and not arguments.keys().isdisjoint(condition.keys("result")[1])
