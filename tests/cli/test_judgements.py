"""Judgements of other tools come in and go out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from tests.sample import hive
from tests.topics import make_topics, query, write_golden

CSV = """query,docid,rating
"how, to set a heater",guides/heater.md,3
"how, to set a heater",faqs/heater,0
set it,gone.md,1
"""
JSON = {
    "name": "a",
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [{"query": "how, to set a heater", "ratings": [{"docId": "guides/heater", "rating": "3.000"}]}],
}


@pytest.fixture
def topics(tmp_path: Path) -> Workspace:
    workspace = make_topics(tmp_path / "ws")
    (workspace.root / "evals").mkdir(exist_ok=True)
    return workspace


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", CSV),
        ("a.json", json.dumps(JSON)),
        ("a.qrels", "q7 0 guides/heater.md 1\nq7 0 faqs/heater.md 0\n"),
    ],
)
def test_judgements_of_another_tool_are_labels(topics: Workspace, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "texts.tsv").write_text("q7\thow, to set a heater\n")
    ran = hive("label", "--import", tmp_path / name, "--queries", tmp_path / "texts.tsv", "-w", topics.root, "--json")
    assert (ran.code, len(ran.json["queries"])) == (0, 1)
    (written,) = load_golden(topics)
    assert (written.query, written.relevant) == ("how, to set a heater", ["guides/heater.md"])
    assert written.seen.keys() == {"guides/heater.md"}
    assert ran.json["unknown"] == (1 if name == "a.csv" else 0)


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.qrels"])
def test_labels_that_go_out_come_in_again(topics: Workspace, tmp_path: Path, name: str) -> None:
    """The workbench knows no misleading documents, so these come back as irrelevant."""
    write_golden(topics, [query("heater"), query("gripper", query='set the "gripper", now')])
    before = [(one.query, one.relevant, one.distractors) for one in load_golden(topics)]
    assert hive("label", "--export", tmp_path / name, "-w", topics.root).code == 0
    (topics.root / "evals" / "golden.json").unlink()
    ran = hive(
        *("label", "--import", tmp_path / name, "--queries", tmp_path / f"{name}.queries.tsv", "-w", topics.root)
        if name == "out.qrels"
        else ("label", "--import", tmp_path / name, "-w", topics.root)
    )
    assert ran.code == 0
    after = [(one.query, one.relevant, one.distractors) for one in load_golden(topics)]
    assert after == [(text, good, [] if name == "out.json" else bad) for text, good, bad in before]


def test_a_file_of_no_judgements_is_told(topics: Workspace, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"judgments": []}')
    ran = hive("label", "--import", tmp_path / "a.json", "-w", topics.root)
    assert (ran.code, "judgmentRatings" in ran.err + ran.out) == (2, True)
    (tmp_path / "a.qrels").write_text("q7 0 guides/heater.md 1\n")
    assert "--queries" in hive("label", "--import", tmp_path / "a.qrels", "-w", topics.root).err
