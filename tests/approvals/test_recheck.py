"""An edit goes through rules and permissions again, by the same checks that the command line uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.host.decisions import decide
from tests.approvals.asking import editable, refused

RESULT: dict[str, Any] = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
RULE = {"id": "no_eval", "condition": "'eval(' in result['code']", "action": "escalate"}
GOAL = {
    "id": "auth",
    "name": "Auth",
    "goal_type": "security",
    "constraints": [
        {"id": "no_secret", "check": "'secret' not in result['code']"},
        {"id": "short", "constraint_type": "soft", "check": "len(result['code']) < 20"},
    ],
}


@pytest.fixture
def judged(place: Workspace) -> Workspace:
    for folder, value in (("rules", RULE), ("goals", GOAL)):
        (place.root / folder).mkdir()
        (place.root / folder / f"{value['id']}.json").write_text(json.dumps(value))
    return place


def edit(place: Workspace, patch: dict[str, Any], **parts: Any) -> str:
    request = ApprovalStore(place).file(editable(**parts)).id
    return decide(place, request, "edit", by="dana", patch=patch)[0].status


def judgment(**context: Any) -> dict[str, Any]:
    return {"kind": "judgment", "context": {"args": {"code": "x"}} | context, "args_schema": RESULT}


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        (None, True),
        ([], True),
        ([{"match": "send_*", "decision": "ask"}, {"match": "*", "decision": "deny"}], True),
        ([{"match": "send_*", "decision": "deny"}], False),
        ([{"match": "other", "decision": "allow"}, {"match": "*", "decision": "deny"}], False),
        ([{"match": "send_*", "decision": "perhaps"}], False),
        ("send_*", False),
        (3, False),
    ],
)
def test_a_denied_tool_is_not_edited_into_permission(place: Workspace, policy: Any, passes: bool) -> None:
    """A policy that can't be read denies; a request without one was asked about because nobody had a rule."""
    args = {"tool": "send_mail", "args": {"to": "a@example.org"}}
    context = args if policy is None else args | {"policy": policy}
    if passes:
        assert edit(place, {"n": 1}, context=context) == "edited"
    else:
        with refused("HIVE-105"):
            edit(place, {"n": 1}, context=context)


@pytest.mark.parametrize(
    ("code", "goal", "passes"),
    [
        ("print(1)", None, True),
        ("eval(x)", None, False),
        ("secret", None, True),
        ("secret", "auth", False),
        ("a soft constraint keeps nobody back", "auth", True),
        ("eval(x)", "auth", False),
        ("print(1)", "unknown", False),
    ],
)
def test_an_edited_result_meets_the_rules_and_the_goal(
    judged: Workspace, code: str, goal: str | None, passes: bool
) -> None:
    parts = judgment() if goal is None else judgment(goal_id=goal)
    if passes:
        assert edit(judged, {"code": code}, **parts) == "edited"
    else:
        with refused("HIVE-105"):
            edit(judged, {"code": code}, **parts)


def test_a_rule_for_other_goals_has_nothing_to_say(judged: Workspace) -> None:
    (judged.root / "rules" / "no_eval.json").write_text(json.dumps(RULE | {"goal_types": ["security"]}))
    assert edit(judged, {"code": "eval(x)"}, **judgment(goal_type="chat")) == "edited"
    with refused("HIVE-105"):
        edit(judged, {"code": "eval(x)"}, **judgment(goal_type="security"))


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"condition": "result['missing']"}, False),
        ({"condition": "result['missing']", "mode": "shadow"}, True),
        ({"condition": "True", "action": "accept"}, True),
        ({"condition": "True", "action": "retry"}, False),
        ({"condition": "eval("}, False),
    ],
)
def test_only_an_accepting_rule_lets_an_edit_pass(judged: Workspace, changes: dict[str, Any], passes: bool) -> None:
    """A rule that raises, or can't be read, stands against it: no fault ever accepts."""
    (judged.root / "rules" / "no_eval.json").write_text(json.dumps(RULE | changes))
    if passes:
        assert edit(judged, {"code": "y"}, **judgment()) == "edited"
    else:
        with refused("HIVE-105"):
            edit(judged, {"code": "y"}, **judgment())
