from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalStore, Approvers
from tests.approvals.asking import filing, refused
from tests.records import alter_json

GOLDEN = ["./evals/golden.json", "EVALS/golden.json", "x/../evals/golden.json", "/w/evals", "ｅｖａｌｓ/g", ["evals/"]]
DANAS = ["dana", "Dana", "user:dana ", " user: dana", "User:DANA", "da\u200bna", "ｄａｎａ"]
ALWAYS: list[dict[str, Any]] = [
    {"kind": "deploy"},
    {"kind": "rule", "context": {"goal_types": ["security", "code"]}},
    {"kind": "rule", "context": {"goal_type": "Security"}},
    {"kind": "rule", "context": {}},
    {"kind": "threshold", "context": {"previous": 0.8, "threshold": 0.7}},
    {"kind": "threshold", "context": {}},
    {"kind": "ticket", "context": {"file": "evals/golden.json"}},
    {"kind": "judgment", "context": {"golden": True}},
    {"kind": "rule", "context": {"goal_types": ["style", " Security\t"]}},
    *(
        {"kind": "ticket", "context": {"file": file}}
        for file in (
            "./evals/golden.json",
            "EVALS/golden.json",
            "x/../evals/golden.json",
            "/w/evals",
            "ｅｖａｌｓ/g",
            ["evals/"],
        )
    ),
]
NOT_BY_THEMSELVES: list[dict[str, Any]] = [
    {"kind": "rule", "context": {"goal_types": ["style"]}},
    {"kind": "threshold", "context": {"previous": 0.7, "threshold": 0.8}},
    {"kind": "question"},
    {"kind": "tool_call"},
    {"kind": "ticket", "context": {"file": "documents/evaluation.md"}},
]


@pytest.mark.parametrize("parts", ALWAYS)
def test_who_asks_never_decides_what_needs_four_eyes(place: Workspace, parts: dict[str, Any]) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(requester="user:dana", approvers=Approvers(exclude_requester=False), **parts))
    for verb in ("approve", "reject"):
        for who in ("dana", "user:dana", "DANA", " Dana ", "ｄａｎａ"):
            with refused("HIVE-415"):
                approvals.decide(request.id, verb, by=who)
    assert approvals.decide(request.id, "approve", by="eve").status == "approved"


@pytest.mark.parametrize(
    "requester", ["dana", "Dana", "user:dana ", " user: dana", "User:DANA", "da\u200bna", "ｄａｎａ"]
)
def test_who_asks_is_known_however_the_name_is_written(place: Workspace, requester: str) -> None:
    request = ApprovalStore(place).file(filing(kind="deploy", requester=requester))
    with refused("HIVE-415"):
        ApprovalStore(place).decide(request.id, "approve", by="dana")


@pytest.mark.parametrize("parts", NOT_BY_THEMSELVES)
def test_other_requests_may_be_decided_by_who_asks(place: Workspace, parts: dict[str, Any]) -> None:
    request = ApprovalStore(place).file(filing(requester="user:dana", **parts))
    assert ApprovalStore(place).decide(request.id, "approve", by="dana").status == "approved"


def test_each_of_several_approvers_is_another_person(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=3)))
    assert approvals.decide(request.id, "approve", by="dana").remaining_approvals == 2
    assert approvals.decide(request.id, "approve", by="DANA").remaining_approvals == 2
    assert approvals.decide(request.id, "approve", by="eve").remaining_approvals == 1
    assert approvals.decide(request.id, "approve", by="finn").status == "approved"


def test_one_rejection_is_enough(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=3)))
    approvals.decide(request.id, "approve", by="dana")
    assert approvals.decide(request.id, "reject", by="dana").status == "rejected"


def test_a_delegate_decides_in_place_of_who_delegated(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(kind="deploy", requester="user:dana"))
    for by, to in (("eve", "dana"), ("dana", "eve"), ("eve", "eve")):
        with refused("HIVE-415"):
            approvals.delegate(request.id, by=by, to=to)
    approvals.delegate(request.id, by="eve", to="finn")
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="eve")
    with refused("HIVE-415"):
        approvals.delegate(request.id, by="finn", to="eve")
    assert approvals.decide(request.id, "approve", by="finn").status == "approved"


@pytest.mark.parametrize("starter", DANAS)
def test_whom_an_agent_works_for_asks_as_much_as_the_agent(place: Workspace, starter: str) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(on_behalf_of=starter, approvers=Approvers(exclude_requester=True)))
    with refused("HIVE-415"):
        approvals.decide(request.id, "approve", by="dana")
    with refused("HIVE-415"):
        approvals.delegate(request.id, by="eve", to="dana")
    assert approvals.decide(request.id, "approve", by="eve").status == "approved"


def test_who_is_worked_for_decides_where_four_eyes_are_not_asked_for(place: Workspace) -> None:
    request = ApprovalStore(place).file(filing(kind="question", on_behalf_of="user:dana"))
    assert ApprovalStore(place).decide(request.id, "approve", by="dana").status == "approved"


def test_whom_an_agent_works_for_cannot_be_taken_out_of_the_row(place: Workspace) -> None:
    request = ApprovalStore(place).file(filing(on_behalf_of="dana", approvers=Approvers(exclude_requester=True)))
    alter_json(place, "approvals", "request", lambda found: found.pop("on_behalf_of"))
    with refused("HIVE-413"):
        ApprovalStore(place).decide(request.id, "approve", by="dana")


def test_one_person_is_not_two_whatever_they_say(place: Workspace) -> None:
    """Another message makes the same person's second answer no repeat, and no second pair of eyes either."""
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=2), allowed_decisions=["approve", "reject"])).id
    approvals.decide(request, "approve", by="dana", message="fine")
    for who in ("dana", "Dana", "user:dana"):
        with refused("HIVE-414"):
            approvals.decide(request, "approve", by=who, message="fine, I say")
    assert (approvals.get(request).status, approvals.get(request).remaining_approvals) == ("pending", 1)
    assert approvals.decide(request, "approve", by="eve", message="fine").status == "approved"


def test_what_is_revised_while_it_is_decided_is_not_decided(place: Workspace) -> None:
    """Between the look at a request and the transaction somebody makes another one of it."""
    approvals = ApprovalStore(place)
    request = approvals.file(filing(context={"amount": 1})).id

    def revised(_: object) -> None:
        ApprovalStore(place).revise(request, context={"amount": 1_000_000})

    with refused("HIVE-416"):
        approvals.decide(request, "approve", by="dana", check=revised)
    assert (approvals.get(request).status, approvals.get(request).decisions) == ("pending", [])


@pytest.mark.parametrize(
    "who", [{"authn": "local"}, {"authn": "token", "tenant": "globex", "holder": Principal("globex", "dana")}]
)
def test_who_may_not_decide_does_not_learn_what_was_decided(place: Workspace, who: dict[str, Any]) -> None:
    """The same answer again is no way in: whoever repeats has to be somebody who may give it."""
    (place.root / "hive.toml").write_text("[approvals]\nrequire_token = true\n")
    approvals = ApprovalStore(Workspace(place.root))
    request = approvals.file(filing(tenant="acme")).id
    mine: dict[str, Any] = {"by": "dana", "authn": "token", "tenant": "acme", "holder": Principal("acme", "dana")}
    assert approvals.decide(request, "approve", **mine).status == "approved"
    assert approvals.decide(request, "approve", **mine).status == "approved"
    with refused("HIVE-415"):
        approvals.decide(request, "approve", by="dana", **who)
