from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.approvals.interchange import exported, exported_decision, imported, imported_decision
from tests.approvals.asking import SCHEMA, editable, refused

CURRENT: dict[str, Any] = {
    "action_requests": [{"name": "send_mail", "args": {"to": "a@example.org", "n": 1}, "description": "may I?"}],
    "review_configs": [
        {
            "action_name": "send_mail",
            "allowed_decisions": ["approve", "edit", "reject", "respond"],
            "args_schema": SCHEMA,
        }
    ],
}
LEGACY: list[dict[str, Any]] = [
    {
        "action_request": {"action": "send_mail", "args": {"to": "a@example.org", "n": 1}},
        "config": {"allow_accept": True, "allow_edit": False, "allow_respond": True, "allow_ignore": True},
        "description": "may I?",
    }
]


def filed(value: Any) -> list[Filing]:
    return imported(value, requester="agent:worker", run_id="r1")


def test_current_names_come_back_as_they_were() -> None:
    assert exported(filed(CURRENT)) == CURRENT
    assert exported([editable()]) == CURRENT


def test_legacy_names_come_back_as_they_were() -> None:
    assert exported(filed(LEGACY), "legacy") == LEGACY
    assert filed(LEGACY[0]) == filed(LEGACY)
    assert filed(LEGACY)[0].allowed_decisions == ["approve", "respond", "reject"]


@pytest.mark.parametrize("given", [1, "true", "false", [0], {}, None])
def test_an_answer_is_allowed_by_true_and_nothing_else(given: Any) -> None:
    config = LEGACY[0]["config"] | {"allow_accept": given}
    assert filed(LEGACY[0] | {"config": config})[0].allowed_decisions == ["respond", "reject"]


@pytest.mark.filterwarnings("ignore")  # of names that have moved
def test_the_values_are_those_of_langgraph() -> None:
    from langgraph.prebuilt.interrupt import ActionRequest, HumanInterrupt, HumanInterruptConfig

    (made,) = exported([editable()], "legacy")
    assert set(made) == set(HumanInterrupt.__annotations__)
    assert set(made["action_request"]) == set(ActionRequest.__annotations__)
    assert set(made["config"]) == set(HumanInterruptConfig.__annotations__)


@pytest.mark.parametrize(
    ("current", "legacy", "status"),
    [
        ({"type": "approve"}, {"type": "accept", "args": None}, "approved"),
        ({"type": "reject", "message": "no"}, {"type": "ignore", "args": None}, "rejected"),
        ({"type": "respond", "message": "ask dana"}, {"type": "response", "args": "ask dana"}, "responded"),
        (
            {"type": "edit", "edited_action": {"name": "send_mail", "args": {"to": "b@example.org"}}},
            {"type": "edit", "args": {"action": "send_mail", "args": {"to": "b@example.org"}}},
            "edited",
        ),
    ],
)
def test_decisions_go_both_ways(place: Workspace, current: dict[str, Any], legacy: dict[str, Any], status: str) -> None:
    store = ApprovalStore(place)
    for value in (current, legacy):
        request = store.file(editable())
        decided = store.decide(request.id, by="dana", **imported_decision(request, value))
        assert decided.status == status
        assert exported_decision(decided, "legacy") == legacy
        if value is current:
            assert exported_decision(decided) == current


def test_an_edit_can_not_call_another_tool(place: Workspace) -> None:
    request = ApprovalStore(place).file(editable())
    with refused("HIVE-104"):
        imported_decision(request, {"type": "edit", "edited_action": {"name": "pay", "args": {}}})
    with refused("HIVE-104"):
        imported_decision(request, {"type": "yes"})


def test_several_calls_of_one_run_are_several_requests(place: Workspace) -> None:
    two = CURRENT | {"action_requests": CURRENT["action_requests"] * 2}
    store = ApprovalStore(place)
    assert len({store.file(one).id for one in [*filed(two), *filed(two)]}) == 2


@pytest.mark.parametrize("value", [None, 3, [], {}, [{}], {"action_requests": [{}]}, [{"config": {}}], {"a": 1}])
def test_what_is_no_interrupt_is_refused(value: Any) -> None:
    if value == []:
        assert filed(value) == []
        return
    with refused("HIVE-104"):
        filed(value)


def test_without_a_schema_an_edit_keeps_the_types() -> None:
    (one,) = filed([LEGACY[0] | {"config": {"allow_edit": True}}])
    assert one.args_schema is not None
    assert one.args_schema["properties"] == {"to": {"type": "string"}, "n": {"type": "integer"}}
