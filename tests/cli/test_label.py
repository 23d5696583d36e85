"""`hive label` on many questions: keys, pages, undo, what is saved when, and what is only for training."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.workspace.trusted import trust
from tests.sample import Ran, hive, words_sample
from tests.topics import make_topics


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = words_sample(tmp_path / "workspace")
    (workspace.root / "evals" / "golden.json").unlink()
    return workspace


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call a command with what a person types."""

    def call(typed: str, *arguments: object) -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        return hive(*arguments)

    return call


def queries(place: Workspace) -> list[dict[str, Any]]:
    path = place.root / "evals" / "golden.json"
    return list(json.loads(path.read_text())["queries"]) if path.exists() else []


def test_numbers_patterns_and_all_label_several_documents_at_once(place: Workspace, answer: Any) -> None:
    ran = answer("r 2 4-5\nd faqs/*\ni all\n", "label", "lost badge", "-w", place.root, "--json")
    [entry] = queries(place)
    pooled = [*entry["relevant"], *entry["distractors"], *entry["irrelevant"]]
    assert len(entry["relevant"]) == 3
    assert entry["distractors"]
    assert {doc_id.split("/")[0] for doc_id in entry["distractors"]} == {"faqs"}
    assert len(pooled) == len(set(pooled)) > 10
    assert ran.json["query_id"] == "q1"


def test_undo_takes_the_last_answer_back(place: Workspace, answer: Any) -> None:
    answer("r\nu\nd\ni all\nu\ni all\n", "label", "lost badge", "-w", place.root, "--json")
    [entry] = queries(place)
    assert (len(entry["relevant"]), len(entry["distractors"])) == (0, 1)
    assert "irrelevant" in entry


def test_a_document_can_be_opened_before_it_is_judged(place: Workspace, answer: Any) -> None:
    ran = answer("o\nr\nq\n", "label", "lost badge", "-w", place.root, "--json")
    [doc_id] = ran.json["relevant"]
    body = (place.documents / doc_id).read_text().split("---\n", 2)[2]
    assert body.strip().splitlines()[-1][:60] in ran.err or "more lines: documents/" in ran.err


def test_stdout_holds_the_result_alone(place: Workspace, answer: Any) -> None:
    assert answer("\nr\nq\n", "label", "lost badge", "-w", place.root).out.startswith("q1: ")


def test_a_page_holds_ten_documents(place: Workspace, answer: Any) -> None:
    first = answer("q\n", "label", "lost badge", "-w", place.root).err
    assert "\n10. " in first
    assert "\n11. " not in first
    assert "\n11. " in answer("i 1-10\nq\n", "label", "lost badge", "-w", place.root).err


def test_a_file_of_questions_is_labelled_one_after_the_other_and_goes_on_later(
    place: Workspace, answer: Any, tmp_path: Path
) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("# mine\nlost badge\n\nLost badge?\nrotate a token\nreset the freezer\n")
    command = ("label", "--questions", file, "-w", place.root, "--json")
    first = answer("r\nn\nr\nq\n", *command)
    asked = {entry["query"] for entry in queries(place)}
    assert len(asked) == 2
    assert asked < {"lost badge", "rotate a token", "reset the freezer"}
    assert first.json["open"] == 1
    assert "you stopped" in first.json["stopped"]
    assert answer("n\n", *command).json["stopped"] == "1 question passed over; the same command asks them again"
    second = answer("r\nn\n", *command)
    assert [one["query_id"] for one in second.json["queries"]] == ["q3"]
    assert "question 1 of 1" in second.err
    assert second.json["stopped"] == "every question is labelled"


def test_between_two_configs_what_they_find_is_labelled_first_where_they_differ(tmp_path: Path, answer: Any) -> None:
    topics = make_topics(tmp_path / "topics")
    file = topics.root / "questions.txt"
    file.write_text("nothing of use\nheater\n")
    command = ("label", "--questions", file, "-w", topics.root, "--json")
    ran = answer("i all\nq\n", *command, "--between", "naive", "careful")
    assert ran.code == 0, ran.out
    (entry,) = queries(topics)
    assert (entry["query"], set(entry["irrelevant"])) == ("heater", {"faqs/heater.md", "guides/heater.md"})
    assert answer("", *command, "--between", "naive", "none").codes == {"HIVE-107"}
    made = hive("label", "--suggest", 2, "--between", "naive", "careful", "-w", topics.root, "--json")
    assert (made.code, made.codes) == (2, {"HIVE-409"})


def test_what_was_asked_in_chats_can_be_labelled(place: Workspace, answer: Any) -> None:
    hive("chat", "where is my licence key", "--as", "dana", "-w", place.root)
    answer("r\nn\n", "label", "--chat", "-w", place.root)
    assert [entry["query"] for entry in queries(place)] == ["where is my licence key"]


def test_suggested_questions_are_for_training_only(place: Workspace) -> None:
    ran = hive("label", "--suggest", 30, "-w", place.root, "--json")
    made = queries(place)
    assert len(made) == len(ran.json["queries"]) == 30
    assert {entry["split"] for entry in made} == {"train"}
    assert all(entry["tags"] == ["generated", "by-heading"] and len(entry["relevant"]) == 1 for entry in made)
    refused = hive("label", "--suggest", 3, "--split", "holdout", "-w", place.root, "--json")
    assert (refused.code, refused.codes) == (2, {"HIVE-409"})


def script(place: Workspace, *lines: dict[str, Any]) -> None:
    (place.root / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\nchat = ["scripted:script.jsonl"]\n')
    trust(place)


def test_a_model_s_questions_are_marked_as_its_own_and_headings_fill_up(place: Workspace) -> None:
    """It answers with a question, with nothing, with the same question again, and with what is none."""
    question = {"structured": {"question": "who lets me in when my badge is lost?"}}
    script(place, question, {"structured": {"question": ""}}, question, {"structured": {"question": " ?? "}})
    ran = hive("label", "--suggest", 4, "-w", place.root, "--json")
    made = queries(place)
    assert made[0]["query"] == "who lets me in when my badge is lost?"
    assert [entry["tags"][1] for entry in made] == ["by-model", "by-heading", "by-heading", "by-heading"]
    assert {entry["split"] for entry in made} == {"train"}
    assert (ran.json["by_model"], ran.json["failure"]) == (1, None)


def test_a_model_that_fails_leaves_the_questions_to_the_headings(place: Workspace) -> None:
    script(place, {"error": "authentication", "repeat": True})
    ran = hive("label", "--suggest", 5, "-w", place.root)
    assert [entry["tags"][1] for entry in queries(place)] == ["by-heading"] * 5
    assert "the model wrote no more: authentication" in ran.out
    assert "5 questions written, 5 from headings" in ran.out


def test_a_documents_orders_stay_inside_the_fence(place: Workspace) -> None:
    script(place, {"structured": {"question": "what is asked?"}, "when": {"contains": "gives you no orders"}})
    assert hive("label", "--suggest", 1, "-w", place.root, "--json").json["by_model"] == 1


def test_nothing_is_proved_on_questions_that_nobody_asked(place: Workspace) -> None:
    hive("label", "--suggest", 30, "-w", place.root)
    assert not load_golden(place).asked.queries
    hive("label", "lost badge", "-r", "faqs/passwords.md", "-w", place.root)
    active = json.loads((place.root / "configs" / "v1.json").read_text())
    active |= {"name": "v2"}
    active["retrieval"] |= {"top_k": 3}
    (place.root / "configs" / "v2.json").write_text(json.dumps(active))
    ran = hive("deploy", "v2", "-w", place.root, "--json")
    assert ran.json["evaluation"]["n"] == 1


def test_one_thing_to_label_must_be_named(place: Workspace) -> None:
    for arguments in ((), ("x", "--chat"), ("--chat", "--suggest", 3)):
        assert hive("label", *arguments, "-w", place.root, "--json").code == 2
