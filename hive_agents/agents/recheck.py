"""Check an edited request against rules and policies before the edit is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from hive_agents.agents.call_bounds import CallBounds
from hive_agents.agents.stricter import present_policies
from hive_agents.approvals import ApprovalRequest, Recheck, ToolPolicy, ToolRule
from hive_agents.base import HiveError
from hive_agents.goals import Goal, load_goal
from hive_agents.goals.expressions import ExpressionError
from hive_agents.judging import JudgmentAction, load_rules, rules
from hive_agents.workspace import Workspace


def recheck_for(workspace: Workspace) -> Recheck:
    """Return a function that returns the objections to an edited request, in words; what can't be checked is one.

    - `tool_call`: the policy in `context["policy"]`, a list of tool rules, must not deny `context["tool"]`, and no
      hard constraint in `context["hard_constraints"]`, which are `CallBounds`, may be violated.
    - `judgment`: `context["args"]` is the result; no rule of the workspace for its `goal_type` may match it except
      to accept it, and no hard constraint of the goal `goal_id` may be violated. Other kinds have their schema only.
    """

    def recheck(request: ApprovalRequest) -> list[str]:
        try:
            if request.kind == "tool_call":
                return [*_barred(request.context), *_barred_now(workspace, request.context)]
            if request.kind == "judgment":
                return list(_refused(workspace, request.context))
        except HiveError as error:
            return [diagnostic.message for diagnostic in error.diagnostics]
        return []

    return recheck


def _barred(context: Mapping[str, Any]) -> Iterator[str]:
    tool, args = str(context.get("tool")), context.get("args")
    try:
        policy = ToolPolicy([ToolRule.model_validate(rule) for rule in context.get("policy", ())])
    except (ValidationError, TypeError):
        yield "the request's tool policy can't be read"
        return
    if policy.decide(tool, args if isinstance(args, dict) else {}) == "deny":
        yield f"the tool policy denies {tool} with these arguments"
    if context.get("hard_constraints") is None:
        return
    try:
        bounds = CallBounds.model_validate(context["hard_constraints"])
    except ValidationError:
        yield "the request's hard constraints can't be read"
        return
    for found in bounds.violated(tool, args if isinstance(args, dict) else {}):
        about = f" ({found['description']})" if found["description"] else ""
        yield f"it violates {found['id']}{about}: {found['why']}"


def _barred_now(workspace: Workspace, context: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objections of the agent's policy of now."""
    tool, args = str(context.get("tool")), context.get("args")
    for policy in present_policies(workspace, [str(context["agent"])] if "agent" in context else []).values():
        if ToolPolicy(policy).decide(tool, args if isinstance(args, dict) else {}) == "deny":
            yield f"the tool policy denies {tool} now"


def _refused(workspace: Workspace, context: Mapping[str, Any]) -> Iterator[str]:
    goal = load_goal(workspace, str(context["goal_id"])) if context.get("goal_id") else None
    try:
        of_goal = goal or {"goal_type": context.get("goal_type")}
        names = rules.names_of(context["args"], of_goal, context.get("attempt", 1))
    except ExpressionError as error:
        yield f"conditions can't read it: {error}"
        return
    yield from _violated(goal, names)
    decided = rules.decide([rule for rule in load_rules(workspace) if rule.mode == "active"], names)
    if decided is not None and decided.error is not None:
        yield f"the rule {decided.rule.id} raises: {decided.error}"
    elif decided is not None and decided.rule.action is not JudgmentAction.ACCEPT:
        yield f"the rule {decided.rule.id} says {decided.rule.action}"


def _violated(goal: Goal | None, names: dict[str, Any]) -> Iterator[str]:
    for constraint in goal.constraints if goal is not None else ():
        condition = constraint.condition
        if constraint.constraint_type != "hard" or condition is None or constraint.of_calls:
            continue
        try:
            holds = bool(condition.evaluate_plain(names))
        except ExpressionError:
            holds = False
        if not holds:
            yield f"it violates {constraint.id}"
