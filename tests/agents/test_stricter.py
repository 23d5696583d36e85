"""What a person allowed runs only if nothing has become stricter since: a policy, or a goal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.agents import changes_since, stricter
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base import Busy
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.agents.loops import agent, asked, decide, events, said, sets, start, words
from tests.agents.test_before_the_deed import DONE, Desk, refund
from tests.people import token_of
from tests.sample import hive
from tests.server.serving import served

ASK = [{"match": "*", "decision": "ask"}]
ALLOW = [{"match": "*", "decision": "allow"}]
DENY = [{"match": "issue_refund", "decision": "deny"}, *ALLOW]
STOP = {"id": "no_refunds", "description": "none this week", "check": "tool != 'issue_refund'"}
DESK = node("desk", output_keys=["decision"], tools=["issue_refund", "look_up"])


def serves(place: Workspace, policy: Any, text: str = "") -> None:
    write_json(place, "agents/digest.json", text or agent_json(DESK, tool_policy=policy))


def constrained(place: Workspace, *constraints: dict[str, Any]) -> None:
    write_json(place, "goals/digest.json", GOAL | {"constraints": constraints})


def refunding(place: Workspace, desk: Desk, *answers: Any, policy: Any = ASK) -> AgentRun:
    serves(place, policy)
    return start(place, agent(DESK, tool_policy=policy), said(*answers), tools=desk.registry)


def resumed(run: AgentRun, desk: Desk) -> AgentRun:
    """The same run in a process that reads its goal anew."""
    return AgentRun.resume(run.workspace, run.run_id, tools=desk.registry, models=run.models)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("first", ["approve", "change"])
def test_an_approved_call_does_not_run_where_the_policy_denies_it_now(place: Workspace, anew: bool, first: str) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    if first == "change":
        serves(place, DENY)
        assert changes_since(place, request) == ["policy of issue_refund: ask → deny"]
    decide(place, request, "approve")
    serves(place, DENY)
    assert (resumed(run, desk) if anew else run).go()["status"] == "done"
    assert desk.paid == []
    (failed,) = events(place, run, "tool.failed")
    assert "policy of issue_refund: ask → deny" in failed.payload["error"]
    assert any("HIVE-416" in text for text in words(run))


@pytest.mark.parametrize("anew", [False, True])
def test_an_approved_call_against_a_new_constraint_is_asked_about_again(place: Workspace, anew: bool) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    constrained(place, STOP)
    (change,) = changes_since(place, request)
    assert change.startswith("constraint no_refunds added")
    decide(place, request, "approve")
    run = resumed(run, desk) if anew else run
    (again,) = asked(place, run.go())
    assert again.id != request.id
    assert desk.paid == []
    assert (again.risk, again.context["constraints"][0]["id"]) == ("high", "no_refunds")
    assert changes_since(place, again) == []
    decide(place, again, "approve")  # by a person who read of the constraint
    assert run.go()["status"] == "done"
    assert desk.paid == [5]


def test_a_run_whose_guards_can_not_be_read_while_the_records_are_away_goes_on_with_its_call(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    decide(place, request, "approve")

    def away(*_: Any) -> Any:
        raise Busy.of("HIVE-402", "the database can't be reached", fix="start it")

    with monkeypatch.context() as patch:
        patch.setattr(stricter, "serving_agent", away)
        with pytest.raises(Busy):
            run.go()
    assert resumed(run, desk).go()["status"] == "done"
    assert desk.paid == [5]
    assert events(place, run, "tool.failed") == []


def test_a_question_about_a_new_constraint_stays_when_the_constraint_goes(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    constrained(place, STOP)
    decide(place, request, "approve")
    (again,) = asked(place, run.go())
    constrained(place)
    assert asked(place, run.go())[0].id == again.id
    decide(place, again, "reject")
    assert run.go()["status"] == "done"
    assert desk.paid == []


def test_a_grant_for_the_run_ends_with_what_became_stricter(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], [("ask_user", {"question": "on?"})], [refund(5)], [refund(5)], DONE)
    decide(place, asked(place, run.go())[0], "approve", for_run=True)
    (question,) = asked(place, run.go())
    constrained(place, STOP)
    decide(place, question, "respond", message="yes")
    (again,) = asked(place, run.go())
    assert again.context["constraints"]
    serves(place, DENY)
    decide(place, again, "approve", for_run=True)
    assert run.go()["status"] == "done"
    assert desk.paid == [5]


def test_what_was_allowed_is_asked_about_or_denied_as_it_is_now(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [("ask_user", {"question": "on?"})], [refund(5)], [refund(6)], DONE, policy=ALLOW)
    (question,) = asked(place, run.go())
    serves(place, ASK)
    decide(place, question, "respond", message="yes")
    (request,) = asked(place, run.go())
    assert request.context["args"] == {"amount": 5}
    serves(place, ALLOW)  # a question that was asked has to be answered
    assert asked(place, run.go())[0].id == request.id
    serves(place, DENY)
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    assert desk.paid == []


def test_what_became_milder_does_not_count(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE, policy=DENY)
    serves(place, ALLOW)
    assert run.go()["status"] == "done"
    assert desk.paid == []


def test_guards_that_cannot_be_read_let_nothing_through(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    serves(place, ASK, '{"id": "digest", ')
    assert "can't be told" in changes_since(place, request)[0]
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    assert desk.paid == []


def test_an_edit_is_held_against_the_policy_of_now(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())
    above = {"match": "issue_refund", "when": "args['amount'] > 7", "decision": "deny"}
    serves(place, [above, *ASK])
    ran = hive("approvals", "edit", request.id, "--patch", '{"amount": 8}', "--as", "dana", "-w", place.root, "--json")
    assert ran.json["diagnostics"][0]["code"] == "HIVE-105"
    decide(place, request, "edit", patch={"amount": 6})
    assert run.go()["status"] == "done"
    assert desk.paid == [6]


def test_a_file_is_not_written_where_that_is_denied_now(place: Workspace) -> None:
    writes = node("desk", output_keys=["decision"], tools=["save_data"])
    write_json(place, "agents/digest.json", agent_json(writes, tool_policy=ASK))
    call = ("save_data", {"filename": "a.txt", "text": "x"})
    run = start(place, agent(writes, tool_policy=ASK), said([call], [sets("decision", "no")]))
    (request,) = asked(place, run.go())
    write_json(place, "agents/digest.json", agent_json(writes, tool_policy=[{"match": "save_*", "decision": "deny"}]))
    decide(place, request, "approve")
    assert run.go()["status"] == "done"
    (failed,) = events(place, run, "tool.failed")
    assert "policy of save_data: ask → deny" in failed.payload["error"]


def test_the_terminal_shows_what_changed_since_a_request_was_filed(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, [refund(5)], DONE)
    (request,) = asked(place, run.go())

    def shown() -> tuple[str, Any]:
        plain = hive("approvals", "show", request.id, "-w", place.root).out
        review = hive("approvals", "review", run.run_id, "-w", place.root).out
        assert ("since this was asked" in plain) == ("since this was asked" in review)
        return plain, hive("approvals", "show", request.id, "--json", "-w", place.root).json.get("changed")

    assert shown()[1] is None
    serves(place, DENY)
    constrained(place, STOP)
    text, changed = shown()
    assert changed[0] == "policy of issue_refund: ask → deny"
    assert changed[1].startswith("constraint no_refunds added: tool != 'issue_refund'")
    assert "since this was asked: policy of issue_refund: ask → deny; constraint no_refunds added" in text


async def test_the_pages_and_the_api_show_what_changed_since_a_request_was_filed(place: Workspace) -> None:
    run = refunding(place, Desk(), [refund(5)], DONE)
    (request,) = asked(place, await asyncio.to_thread(run.go))
    told = "policy of issue_refund: ask → deny"
    async with served(place, roles=("http",)) as client:
        ann = Principal("acme", "ann", frozenset(), frozenset({"admin"}))
        who = {"Authorization": f"Bearer {token_of(place, ann)}"}
        pages = ("/approvals", f"/approvals/{request.id}")
        assert [told in (await client.get(path, headers=who)).text for path in pages] == [False, False]
        serves(place, DENY)
        shown = (await client.get(f"/api/approvals/{request.id}", headers=who)).json()["request"]
        assert shown["changed"] == [told]
        assert [told in (await client.get(path, headers=who)).text for path in pages] == [True, True]


def test_requests_of_others_have_no_changes(place: Workspace) -> None:
    from tests.approvals.asking import editable, filing

    store = ApprovalStore(place)
    requests: list[ApprovalRequest] = [store.file(editable()), store.file(filing())]
    assert [changes_since(place, one) for one in requests] == [[], []]
    assert json.dumps([one.to_json() for one in requests])
