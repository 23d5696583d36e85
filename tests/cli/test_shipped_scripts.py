"""What the documents show of agents works without a model: the sample's scripts, and the demo's part about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents.cli.demo import Story
from hive_agents.cli.timeline import line_of
from hive_agents.events import Event, EventType
from tests.sample import copied_sample, hive


def test_the_curators_script_ends_with_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied_sample(tmp_path / "ws")
    monkeypatch.setenv("HIVE_MODELS__CHAT", '["scripted:scripts/curator.jsonl"]')
    run = ("run", "curator", "--input", '{"topic": "vessel A"}', "--as", "dana")
    waiting = hive(*run, "-w", place.root, "--json")
    (request,) = waiting.json["approval_ids"]
    assert hive("approvals", "respond", request, "--message", "me", "--as", "dana", "-w", place.root).code == 0
    ended = hive("run", "--resume", waiting.json["run_id"], "-w", place.root, "--json")
    assert ended.json["outputs"]["report"].startswith("# Cleaning of vessel A")
    for document in ended.json["outputs"]["findings"][0]["doc_ids"]:
        assert (place.documents / document).exists()
    assert "tool.failed" not in {event["type"] for event in _timeline(place.root, ended.json["run_id"])}


@pytest.mark.slow
def test_the_optimizers_script_ends_with_what_the_gate_says_of_its_config(tmp_path: Path) -> None:
    """As the demo runs it, with a person's yes before the gate."""
    place = copied_sample(tmp_path / "ws")
    told = Story(place, silent=True).agent()
    assert (told["status"], told["outputs"]["decision"]) == ("done", "passed: it serves now")
    assert json.loads((place.root / "configs" / "active.json").read_text())["name"] == "retired-later"
    assert "tool.failed" not in {event["type"] for event in _timeline(place.root, told["run_id"])}


def test_a_timeline_shows_what_a_model_said_and_does_not_obey_it() -> None:
    told = {"level": 2, "action": "retry", "feedback": "gone\x1b[2J"}
    assert "\x1b" not in str(line_of(Event(EventType.JUDGMENT_MADE, node_id="write", payload=told)))


def _timeline(root: Path, run: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = hive("runs", "show", run, "-w", root, "--json").json["timeline"]
    return found
