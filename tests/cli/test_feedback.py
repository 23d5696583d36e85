"""`hive feedback`: from a reader's opinion to a training label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, ViewGate, known_principal, mint
from hive_agents.base import HiveError
from hive_agents.copilot import Chat
from hive_agents.copilot.feedback import FeedbackQueue
from hive_agents.store import connected
from tests.copilot.chats import copied_knowledge_base, use_models
from tests.sample import Ran, hive

QUESTION = "how many signatures does a recall take?"
KEYS = {
    *("id", "created_at", "tenant", "thread_id", "query", "doc_id", "verdict", "by", "comment", "status"),
    *("reviewed_by", "passage"),
}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def feedback(place: Workspace, user: str, *arguments: object) -> Ran:
    return hive("feedback", *arguments, "--as", user, "-w", place.root, "--json")


def ask(place: Workspace, user: str = "dana") -> dict[str, Any]:
    reply: dict[str, Any] = hive("chat", QUESTION, "--as", user, "-w", place.root, "--json").json
    return reply


def said(place: Workspace, verdict: str = "relevant", user: str = "dana") -> dict[str, Any]:
    run = ask(place, user)["run_id"]
    ran = feedback(place, user, "add", "--run", run, "--result", 1, "--verdict", verdict, "--comment", "as it is")
    assert ran.code == 0, ran.out
    item: dict[str, Any] = ran.json
    return item


def golden(place: Workspace) -> list[dict[str, Any]]:
    file = place.root / "evals" / "golden.json"
    found: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["queries"] if file.exists() else []
    return found


def test_whoever_made_the_token_of_an_opinion_does_not_review_it(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, root = ask(place)["run_id"], known_principal(place, "root")
    with monkeypatch.context() as environ:
        environ.setenv("HIVE_TOKEN", mint(place, known_principal(place, "dana"), maker=root).token)
        item = hive("feedback", "add", "--run", run, "--result", 1, "--verdict", "relevant", "-w", place.root, "--json")
    assert set(item.json) == KEYS | {"ok"} & set(item.json)
    refused = feedback(place, "root", "review", item.json["id"], "--accept")
    assert (refused.code, refused.codes, golden(place)) == (1, {"HIVE-415"}, [])


@pytest.mark.parametrize(
    ("author_made_by", "reviewer", "reviewer_made_by", "hindered"),
    [
        (("root",), "alice", ("root",), None),  # one admin made the tokens of both
        (("root",), "root", (), "made"),
        (("kim", "root"), "root", ("kim",), "made"),
        ((), "alice", ("dana",), "made"),
        ((), "alice", ("root", "Dana"), "made"),
        (("root",), "dana", (), "own"),
        (("root",), "Dana", ("kim",), "own"),
        (("root",), "alice", (), None),
        (("owner:lee",), "alice", ("owner:lee",), None),
    ],
)
def test_feedback_is_reviewed_by_whoever_made_no_token_of_its_author_and_has_none_from_them(
    place: Workspace, author_made_by: tuple[str, ...], reviewer: str, reviewer_made_by: tuple[str, ...],
    hindered: str | None,
) -> None:  # fmt: skip
    reply = ask(place)

    def queue(user: str, makers: tuple[str, ...], *roles: str) -> FeedbackQueue:
        hands = tuple(one if ":" in one else f"user:{one}" for one in makers)
        person = Principal("acme", user, frozenset({"qa"}), frozenset(roles), makers=hands)
        return FeedbackQueue(place, person, ViewGate.of(place, person))

    item = queue("dana", author_made_by, "reader").add(reply["run_id"], 1, "relevant")
    reviews = queue(reviewer, reviewer_made_by, "operator")
    (listed,) = reviews.items("pending")
    assert reviews.hindrance(listed) == hindered
    offered = [one.id for one in reviews.waiting()]
    if hindered is None:
        assert offered == [item.id]
        assert reviews.review(item.id, accept=True).status == "accepted"
        assert [one["relevant"] for one in golden(place)] == [["sops/recall.md"]]
    else:
        assert offered == []
        with pytest.raises(HiveError, match="HIVE-415"):
            reviews.review(item.id, accept=True)
        assert golden(place) == []
    assert queue("hana", (), "reader").waiting() == []


def test_an_opinion_waits_for_another_person_and_becomes_a_training_label(place: Workspace) -> None:
    item = said(place)
    assert set(item) >= KEYS
    assert (item["doc_id"], item["by"], item["status"], item["tenant"]) == ("sops/recall.md", "dana", "pending", "acme")
    assert [one["id"] for one in feedback(place, "root", "list").json["items"]] == [item["id"]]
    own = feedback(place, "dana", "review", item["id"], "--accept")
    assert (own.code, own.codes) == (1, {"HIVE-415"})  # four eyes
    assert golden(place) == []
    (reviewed,) = feedback(place, "root", "review", item["id"], "--accept").json["items"]
    assert (reviewed["status"], reviewed["reviewed_by"]) == ("accepted", "root")
    (query,) = golden(place)
    assert (query["query"], query["relevant"], query["split"]) == (QUESTION, ["sops/recall.md"], "train")
    again = feedback(place, "root", "review", item["id"], "--reject")
    assert (again.code, again.codes) == (1, {"HIVE-414"})


@pytest.mark.parametrize("verdict", ["distractor", "outdated", "wrong_document"])
def test_what_misleads_becomes_a_distractor(place: Workspace, verdict: str) -> None:
    item = said(place, verdict)
    assert feedback(place, "root", "review", item["id"], "--accept").code == 0
    assert golden(place)[0]["distractors"] == ["sops/recall.md"]


def test_a_rejected_opinion_teaches_nothing(place: Workspace) -> None:
    item = said(place)
    (reviewed,) = feedback(place, "root", "review", item["id"], "--reject").json["items"]
    assert reviewed["status"] == "rejected"
    assert golden(place) == []


def test_a_question_that_measures_keeps_its_labels(place: Workspace) -> None:
    (place.root / "evals").mkdir(exist_ok=True)
    query = {"id": "q1", "query": QUESTION, "relevant": ["faqs/lost.md"], "split": "holdout"}
    text = json.dumps({"collection": "kb", "k": 10, "queries": [query]})
    (place.root / "evals" / "golden.json").write_text(text, encoding="utf-8")
    item = said(place)
    ran = feedback(place, "root", "review", item["id"], "--accept")
    assert (ran.code, ran.codes) == (1, {"HIVE-415"})
    assert (place.root / "evals" / "golden.json").read_text("utf-8") == text


def test_nobody_learns_of_documents_through_the_queue(place: Workspace) -> None:
    item = said(place)
    for user in ("guest", "hana"):
        assert feedback(place, user, "list").json == {"items": []}
        ran = feedback(place, user, "review", item["id"], "--accept")
        missing = feedback(place, user, "review", "f0000000000", "--accept")
        assert (ran.code, missing.code) == (2, 2)
        assert ran.out.replace(item["id"], "f0000000000") == missing.out
    run = ask(place, "guest")["run_id"]
    forbidden = feedback(place, "guest", "add", "--run", run, "--doc", "sops/recall.md", "--verdict", "relevant")
    unknown = feedback(place, "guest", "add", "--run", run, "--doc", "sops/none.md", "--verdict", "relevant")
    assert forbidden.code == 2
    assert forbidden.out == unknown.out


def test_usage_is_explained(place: Workspace) -> None:
    run = ask(place)["run_id"]
    for arguments in (
        ("add", "--run", run, "--result", 1, "--verdict", "nice"),
        ("add", "--run", run, "--verdict", "relevant"),
        ("add", "--run", run, "--result", 99, "--verdict", "relevant"),
        ("add", "--run", "r0000000000", "--result", 1, "--verdict", "relevant"),
        ("review", "f0000000000"),
    ):
        ran = feedback(place, "dana", *arguments)
        assert (ran.code, ran.codes) == (2, {"HIVE-409"}), arguments
    assert "0 pending opinions" in hive("feedback", "review", "--as", "root", "-w", place.root).out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        # To be viewed, and no result of the turn: it can be what is missing there, and nothing else.
        (("--verdict", "wrong_document", "--doc", "guides/g25.md"), "HIVE-409"),
        (("--verdict", "relevant", "--result", 1, "--comment", "x" * 1001), "HIVE-105"),
    ],
)
def test_an_opinion_is_short_and_of_a_result(place: Workspace, arguments: tuple[object, ...], code: str) -> None:
    reply = ask(place)
    assert "guides/g25.md" not in [result["doc_id"] for result in reply["results"]]
    ran = feedback(place, "dana", "add", "--run", reply["run_id"], *arguments)
    assert (ran.code, ran.codes) == (2, {code})
    missing = feedback(
        place, "dana", "add", "--run", reply["run_id"], "--verdict", "relevant", "--doc", "guides/g25.md"
    )
    assert (missing.code, missing.json["doc_id"]) == (0, "guides/g25.md")


def test_a_status_is_one_of_three(place: Workspace) -> None:
    ran = feedback(place, "dana", "list", "--status", "bogus")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert feedback(place, "dana", "list", "--status", "Pending").json == {"items": []}


def test_a_name_in_another_case_is_no_second_pair_of_eyes(place: Workspace) -> None:
    item = said(place)
    file = place.root / "access" / "principals.json"
    people = json.loads(file.read_text())
    people["principals"]["DANA"] = people["principals"]["dana"]
    file.write_text(json.dumps(people))
    ran = feedback(place, "DANA", "review", item["id"], "--accept")
    assert (ran.code, ran.codes) == (1, {"HIVE-415"})


def answered(place: Workspace) -> str:
    """The run of a question that a model answered from a document which only quality assurance may open."""
    use_models(place, answer=[{"content": "A recall takes two signatures [1].", "repeat": True}])
    reply = ask(place)
    assert (reply["status"], reply["answer_source"]) == ("answered", "model")
    run: str = reply["run_id"]
    return run


@pytest.mark.parametrize("verdict", ["right", "wrong", "outdated", "incomplete"])
def test_an_opinion_on_a_models_answer_waits_for_another_person(place: Workspace, verdict: str) -> None:
    run = answered(place)
    said = feedback(place, "dana", "add", "--run", run, "--answer", "--verdict", verdict, "--comment", "three")
    assert said.code == 0, said.out
    (item,) = feedback(place, "dana", "list").json["items"]
    assert (item["doc_id"], item["verdict"]) == (None, verdict)
    assert item["answer"] == "A recall takes two signatures [1]."
    own = feedback(place, "dana", "review", item["id"], "--accept")
    assert (own.code, own.codes) == (1, {"HIVE-415"})
    people = place.root / "access" / "principals.json"
    for groups, seen in (([], 0), (["qa"], 1)):  # who may not open the document sees no answer from it
        rights = json.loads(people.read_text("utf-8"))
        rights["principals"]["kim"] = {"tenant": "acme", "groups": groups, "roles": ["reader", "approver"]}
        people.write_text(json.dumps(rights), encoding="utf-8")
        assert len(feedback(place, "kim", "list").json["items"]) == seen
        ran = feedback(place, "kim", "review", item["id"], "--accept")
        assert ran.code == (0 if seen else 2)
    (reviewed,) = ran.json["items"]
    assert (reviewed["status"], reviewed["reviewed_by"]) == ("accepted", "kim")
    assert golden(place) == []  # an answer is no document
    assert "two signatures" in hive("feedback", "list", "--as", "kim", "-w", place.root).out


def test_an_opinion_is_on_an_answer_or_on_a_result(place: Workspace) -> None:
    run = answered(place)
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    without = ask(place)["run_id"]
    for arguments in (
        ("--run", run, "--answer", "--verdict", "relevant"),
        ("--run", run, "--answer", "--result", 1, "--verdict", "wrong"),
        ("--run", run, "--result", 1, "--verdict", "incomplete"),
        ("--run", without, "--answer", "--verdict", "wrong"),  # no model's words
    ):
        ran = feedback(place, "dana", "add", *arguments)
        assert (ran.code, ran.codes) == (2, {"HIVE-409"}), arguments


def test_opinions_on_answers_go_with_their_conversation(place: Workspace) -> None:
    run = answered(place)
    assert feedback(place, "dana", "add", "--run", run, "--answer", "--verdict", "wrong").code == 0
    chat = Chat(place, known_principal(place, "dana"))
    (item,) = feedback(place, "dana", "list").json["items"]
    chat.threads.delete(item["thread_id"])
    assert feedback(place, "dana", "list").json["items"] == []
    with connected(place.records) as connection:
        assert connection.execute("SELECT count(*) FROM feedback").fetchone()[0] == 0
