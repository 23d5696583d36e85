"""Held-out questions that somebody has seen are told, and others aren't."""

from __future__ import annotations

from pathlib import Path

from hive_agents.evaluation import GoldenQuery, GoldenSet, leaks_of
from tests.runs_of import ten_queries
from tests.sample import hive


def questions(**texts: str) -> GoldenSet:
    queries = (GoldenQuery(id=name, query=text, relevant=["a"]) for name, text in texts.items())
    return GoldenSet("", 10, tuple(queries), "evals/golden.json", "")


def told(held_out: GoldenSet, others: GoldenSet, *documents: tuple[str, str]) -> list[str]:
    return [warning.message for warning in leaks_of(held_out, others, documents).warnings(held_out)]


def test_a_question_in_nearly_the_same_words_as_an_open_one_is_told() -> None:
    held_out = questions(h1="how do I rotate an API key", h2="who signs a batch record")
    others = questions(
        t1="How do I rotate an API key now?", t2="which reports are sent in March", h2="who signs a batch record"
    )
    assert told(held_out, others) == [
        "of 2 held-out questions 1 is nearly the same as open ones: h1 (t1), and left out of the proof"
    ]


def test_a_question_that_stands_in_a_document_is_told_and_a_short_one_is_not() -> None:
    held_out = questions(h1="How do I rotate an API key?", h2="rotate a key")
    document = ("faqs/keys.md", "# Keys\n\n## How do I *rotate* an API-key\n\nTo rotate a key, make another.")
    assert told(held_out, held_out, document) == [
        "of 2 held-out questions 1 is word for word in a document: h1 (faqs/keys.md), and left out of the proof"
    ]
    assert told(held_out, held_out, ("a.md", "how do I rotate an API token")) == []


def test_questions_that_differ_in_numbers_alone_are_no_duplicates() -> None:
    held_out, others = questions(h1="what does the error E12 mean"), questions(t1="what does the error E13 mean")
    assert told(held_out, others) == []


def test_a_gate_of_files_warns_and_decides_as_before(tmp_path: Path) -> None:
    arguments = ten_queries(tmp_path)
    (tmp_path / "texts.tsv").write_text("\n".join(f"t{n}\thow is thing {n} kept in the store" for n in range(10)))
    (tmp_path / "held.txt").write_text("\n".join(f"t{n}" for n in range(8)))
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.md").write_text("How is thing 3 kept in the store? In a box.")
    (tmp_path / "corpus" / "b.bin").write_bytes(b"\xff\xfe\x00")
    given = [*arguments, "--queries", tmp_path / "texts.tsv", "--holdout", tmp_path / "held.txt"]
    ran = hive("gate", *given, "--corpus", tmp_path / "corpus", "--json")
    assert (ran.code, ran.json["decision"]) == (0, "passed")
    assert [one["code"] for one in ran.json["warnings"]].count("HIVE-313") == 1
    assert hive("gate", *given, "--corpus", tmp_path / "none", "--json").code == 2
