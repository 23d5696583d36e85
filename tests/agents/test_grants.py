"""One answer for several calls: for those of a batch as they were reviewed, for the same call in the rest of a run."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, batch_hash
from hive_agents.base.errors import HiveError
from tests.agents.loops import said
from tests.agents.test_before_the_deed import DONE, Desk, asked, decide, refund, refunding
from tests.agents.test_loop_people import ITEMS, Post, mailing
from tests.sample import Ran, hive

ASK = {"match": "*", "decision": "ask"}


def approvals(place: Workspace, *arguments: object) -> Ran:
    return hive("approvals", *arguments, "-w", place.root, "--json")


def test_a_call_granted_for_the_run_is_made_again_without_asking(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(5)], [refund(5)], [refund(6)], DONE), ASK)
    (request,) = asked(place, run.go())
    decide(place, request, "approve", for_run=True)
    (other,) = asked(place, run.go())
    assert desk.paid == [5, 5]
    assert other.context["args"] == {"amount": 6}


def test_a_grant_holds_in_its_own_run_only(place: Workspace) -> None:
    desk = Desk()
    first = refunding(place, desk, said([refund(5)], DONE), ASK)
    decide(place, asked(place, first.go())[0], "approve", for_run=True)
    assert first.go()["status"] == "done"
    assert refunding(place, desk, said([refund(5)], DONE), ASK).go()["status"] == "waiting"
    assert desk.paid == [5]


def test_an_edit_that_is_granted_holds_for_the_edited_call(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(9)], [refund(4)], [refund(9)], DONE), ASK)
    decide(place, asked(place, run.go())[0], "edit", patch={"amount": 4}, for_run=True)
    (again,) = asked(place, run.go())
    assert (desk.paid, again.context["args"]) == ([4, 4], {"amount": 9})


def test_only_calls_of_tools_can_be_granted_for_a_run(place: Workspace) -> None:
    run = refunding(place, Desk(), said([("ask_user", {"question": "which?"})], DONE), ASK)
    (request,) = asked(place, run.go())
    with pytest.raises(HiveError, match="for a run"):
        decide(place, request, "respond", message="this", for_run=True)


def test_the_calls_of_a_turn_are_decided_as_one_batch(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(n) for n in (1, 2, 3)], DONE), ASK)
    asked(place, run.go())
    shown = approvals(place, "review", run.run_id).json
    assert [one["args"] for one in shown["items"]] == [{"amount": 1}, {"amount": 2}, {"amount": 3}]
    ran = approvals(place, "approve", "--batch", shown["batch"], "--as", "dana")
    assert [one["status"] for one in ran.json["items"]] == ["approved"] * 3
    assert run.go()["status"] == "done"
    assert sorted(desk.paid) == [1, 2, 3]


def test_a_batch_that_is_not_what_was_reviewed_decides_nothing(place: Workspace) -> None:
    desk = Desk()
    run = refunding(place, desk, said([refund(n) for n in (1, 2, 3)], DONE), ASK)
    first, *_ = asked(place, run.go())
    shown = approvals(place, "review", run.run_id).json
    store = ApprovalStore(place)
    before = batch_hash(store.batch(run.run_id))
    store.revise(first.id, context=first.context | {"args": {"amount": 1_000}})
    assert batch_hash(store.batch(run.run_id)) != before
    ran = approvals(place, "approve", "--batch", shown["batch"], "--as", "dana")
    assert (ran.code, ran.json["diagnostics"][0]["code"]) == (1, "HIVE-416")
    assert {one.status for one in store.list()} == {"pending"}


def test_one_grant_answers_the_same_calls_that_wait_beside_it(place: Workspace) -> None:
    post = Post()
    mail: tuple[str, dict[str, Any]] = ("mail", {"to": "dana", "n": 1})
    run = mailing(place, said([mail, mail], ITEMS), None, post)
    first, second = asked(place, run.go())
    ran = approvals(place, "approve", first.id, "--for-run", "--as", "dana")
    assert (ran.code, ran.json["status"]) == (0, "approved")
    assert ApprovalStore(place).get(second.id).status == "superseded"
    assert run.go()["status"] == "done"
    assert post.sent == [("dana", 1), ("dana", 1)]
