"""Documents that say the same with other figures are found, those first that queries return, each with what helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.optimizer.stale import StalePair, stale_pairs
from hive_agents.ranking import SearchEngine, parse_config
from tests.conftest import make_workspace, write_document
from tests.sample import hive

THINGS = ("lamp", "pump", "valve", "motor", "filter", "sensor", "heater", "mixer", "scale", "freezer")
CONFIG = {"name": "words", "collection": "kb", "retrieval": {"method": "keyword", "top_k": 5}}


def page(thing: str, *, days: int, status: str, updated: str, more: str = "") -> str:
    head = f"title: {thing}\nstatus: {status}\ncategory: pages\neffective: {updated}"
    return f"---\n{head}\n---\nThe {thing} must be serviced by trained people every {days} days.\n{more}\n"


def workshop(folder: Path, planted: int = 4) -> Workspace:
    """A page of each thing; of the first `planted` there is a retired one, too, with another interval."""
    documents = {}
    for number, thing in enumerate(THINGS):
        documents[f"now/{thing}.md"] = page(thing, days=30 + number, status="effective", updated="2025-02-01")
        if number < planted:
            documents[f"old/{thing}.md"] = page(thing, days=90 + number, status="retired", updated="2021-02-01")
    place = make_workspace(folder, embedding=False, documents=documents)
    golden = [
        {"id": thing, "query": f"how often is the {thing} serviced", "relevant": [f"now/{thing}.md"],
         "distractors": [f"old/{thing}.md"] if number < planted else []}
        for number, thing in enumerate(THINGS)
    ]  # fmt: skip
    (place.root / "evals").mkdir()
    (place.root / "evals" / "golden.json").write_text(json.dumps({"collection": "kb", "queries": golden}))
    place.index()
    return place


def found(place: Workspace, queries: list[str], **edits: Any) -> list[StalePair]:
    config = parse_config(json.dumps(CONFIG | edits), "configs/words.json").config
    return stale_pairs(SearchEngine(place), config, queries, load_golden(place))


def test_every_planted_contradiction_is_found_and_nothing_else(tmp_path: Path) -> None:
    pairs = found(workshop(tmp_path / "ws"), [])
    assert {pair.documents for pair in pairs} == {(f"now/{thing}.md", f"old/{thing}.md") for thing in THINGS[:4]}
    assert {pair.newer for pair in pairs} == {f"now/{thing}.md" for thing in THINGS[:4]}
    first = next(pair for pair in pairs if "now/lamp.md" in pair.documents)
    assert [one.figures for one in first.disagreements] == [(("30",), ("90",))]


def test_what_is_returned_most_stands_first(tmp_path: Path) -> None:
    place = workshop(tmp_path / "ws")
    pairs = found(place, ["valve", "valve serviced", "pump"])
    assert [(pair.suspects, pair.returned) for pair in pairs[:2]] == [(("old/valve.md",), 2), (("old/pump.md",), 1)]


def test_a_value_that_only_older_documents_have_is_proposed_as_a_filter_with_what_it_costs(tmp_path: Path) -> None:
    place = workshop(tmp_path / "ws")
    (pair, *_) = found(place, ["how often is the lamp serviced"])
    (advice,) = [one for one in pair.advice if one.kind == "filter"]
    assert advice.told == "status: not retired"
    assert advice.cost is not None
    assert (advice.cost.lose, advice.cost.win) == (0, 4)
    assert [one.told for one in pair.advice if one.kind == "label"] == [
        'if it misleads: hive label "how often is the lamp serviced" --distractor old/lamp.md'
    ]


def test_after_the_proposed_filter_no_query_returns_the_older_one(tmp_path: Path) -> None:
    place = workshop(tmp_path / "ws")
    pairs = found(place, ["how often is the lamp serviced"], filters={"status": {"not": ["retired"]}})
    assert {pair.returned for pair in pairs} == {0}


def test_pages_of_several_versions_are_told_as_such_and_the_higher_version_is_newer(tmp_path: Path) -> None:
    def manual(limit: int) -> str:
        lines = [f"The {thing} is checked before each shift by its operator." for thing in THINGS]
        return "---\ntitle: Limits\n---\n" + "\n\n".join([*lines, f"At most {limit} keys can be held by one account."])

    documents = {"v3.9/limits.md": manual(10), "v3.10/limits.md": manual(25)}
    place = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    place.index()
    config = parse_config(json.dumps(CONFIG), "configs/words.json").config
    (pair,) = stale_pairs(SearchEngine(place), config, [])
    assert (pair.kind, pair.newer, pair.by) == ("version", "v3.10/limits.md", "path")


def test_code_names_and_list_numbers_are_no_figures(tmp_path: Path) -> None:
    def text(number: int) -> str:
        return (
            f"---\ntitle: T{number}\n---\n1{number}. Open the small panel below the lamp.\n\n"
            f"Replaced by procedure SOP-{number} here.\n\n```\nretries of the pump client = {number}\n```\n"
        )

    documents = {f"a/{number}.md": text(number) for number in range(2)}
    place = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    place.index()
    config = parse_config(json.dumps(CONFIG), "configs/words.json").config
    assert stale_pairs(SearchEngine(place), config, []) == []


def test_a_form_that_many_documents_fill_in_is_no_contradiction(tmp_path: Path) -> None:
    documents = {
        f"a/{number}.md": f"---\ntitle: T\n---\nThis batch was released by the quality unit on day {number}.\n"
        for number in range(9)
    }
    place = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    place.index()
    config = parse_config(json.dumps(CONFIG), "configs/words.json").config
    assert stale_pairs(SearchEngine(place), config, []) == []


def test_command_names_the_pairs_and_its_json_has_them_all(tmp_path: Path) -> None:
    place = workshop(tmp_path / "ws")
    (place.configs / "active.json").symlink_to("words.json")
    told = hive("stale", "--most", 1, "-w", place.root)
    assert told.code == 0
    assert "→ filter: status: not retired; 0 lose, 4 win" in told.out
    assert "4 pairs, by 10 queries" in told.out
    assert len(hive("stale", "--most", 1, "--json", "-w", place.root).json["pairs"]) == 4


@pytest.mark.parametrize("texts", [{}, {"now/lamp.md": ""}])
def test_where_no_document_has_text_there_is_no_pair(tmp_path: Path, texts: dict[str, str]) -> None:
    place = workshop(tmp_path / "ws", planted=0)
    for path in place.documents.rglob("*.md"):
        path.unlink()
    for name, text in texts.items():
        write_document(place, name, text)
    golden = {"collection": "kb", "queries": [{"id": "lamp", "query": "how often is the lamp serviced"}]}
    (place.root / "evals" / "golden.json").write_text(json.dumps(golden))
    (place.configs / "active.json").symlink_to("words.json")
    assert hive("stale", "--json", "-w", place.root).json["pairs"] == []
