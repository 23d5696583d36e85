"""Each edit that is told is carried out by other means, and must do what was said of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import evaluate, held_out, load_golden
from hive_agents.optimizer import document_ways
from hive_agents.optimizer.space import apply, parsed
from hive_agents.optimizer.why import Costs, DocumentQuestion, Way, config_ways
from hive_agents.optimizer.why_document import with_words
from hive_agents.ranking import RetrievalConfig, SearchEngine
from tests.conftest import config_json
from tests.topics import TOPICS, in_wordings, indexed_engine, make_topics, query, write_golden

GUIDE, FAQ = "guides/autoclave.md", "faqs/autoclave.md"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_topics(tmp_path / "topics")
    write_golden(workspace, [query(topic, split="holdout" if topic in TOPICS[7:] else None) for topic in TOPICS])
    return workspace


def config(**blocks: Any) -> RetrievalConfig:
    return parsed(config_json("c", "keyword", **blocks))


def asked(
    workspace: Workspace, doc_id: str = GUIDE, text: str = "autoclave", **blocks: Any
) -> tuple[DocumentQuestion, Costs]:
    question = DocumentQuestion(indexed_engine(workspace), text, doc_id, config(**blocks))
    return question, Costs(load_golden(workspace), question.engine, question.config, beside=question.query)


def first(workspace: Workspace, edited: RetrievalConfig, text: str = "autoclave") -> str | None:
    hits = SearchEngine(workspace).search(text, edited).hits
    return hits[0].doc_id if hits else None


def edited_by(way: Way, base: RetrievalConfig) -> RetrievalConfig:
    """The config of a way, made from what the way says and from nothing else."""
    changes = [(change["path"], change["b"]) for change in way.changes]
    return parsed(apply(base, changes))


def test_standing_says_who_is_first_instead(place: Workspace) -> None:
    question, _ = asked(place)
    standing = question.standing()
    assert (standing.rank, standing.first) == (2, FAQ)
    hidden, _ = asked(place, filters={"category": "faqs"})
    assert (hidden.standing().rank, hidden.standing().first) == (None, FAQ)


def test_every_edit_of_the_config_puts_the_document_first(place: Workspace) -> None:
    question, costs = asked(place)
    ways = config_ways(question, costs)
    assert {way.changes[0]["path"].split(".")[0] for way in ways} >= {"filters", "boosts"}
    for way in ways:
        assert first(place, edited_by(way, question.config)) == GUIDE, way.told


def test_costs_are_what_the_evaluation_measures_on_open_queries(place: Workspace) -> None:
    question, costs = asked(place)
    golden = load_golden(place)
    others = golden.only(topic for topic in TOPICS[1:7])
    before = evaluate(place, question.config, golden=others).scores()
    for way in config_ways(question, costs):
        assert way.cost is not None
        after = evaluate(place, edited_by(way, question.config), golden=others).scores()
        deltas = [b - a for a, b in zip(before, after, strict=True)]
        assert way.cost.n == 6
        assert way.cost.lose == sum(delta < -1e-9 for delta in deltas)
        assert way.cost.win == sum(delta > 1e-9 for delta in deltas)
        assert way.cost.gained - way.cost.lost == pytest.approx(sum(deltas))
        assert way.cost.difference == pytest.approx(sum(deltas) / 6)


def test_costs_are_not_measured_with_what_the_gate_holds_out(place: Workspace) -> None:
    """Where the golden set names no split, too: an edit that was chosen by these questions would prove nothing."""
    unnamed = [{key: value for key, value in one.items() if key != "split"} for one in in_wordings(TOPICS, 5)]
    held = held_out(write_golden(place, unnamed))
    _, costs = asked(place)
    assert held is not None
    assert not {query.id for query in costs.golden} & {query.id for query in held}


def test_a_number_is_no_further_from_the_present_one_than_it_must_be(place: Workspace) -> None:
    question, costs = asked(place)
    boosts = [way for way in config_ways(question, costs) if way.changes[0]["path"].startswith("boosts.")]
    assert boosts
    for way in boosts:
        (change,) = way.changes
        ((value, factor),) = change["b"].items()
        nearer = factor - 0.01 if factor > 1 else factor + 0.01
        less = parsed(apply(question.config, [(change["path"], {value: round(nearer, 2)})]))
        assert first(place, less) == FAQ, way.told


def test_two_settings_are_tried_where_one_is_not_enough(place: Workspace) -> None:
    question, costs = asked(place, text="panel screw", filters={"category": "faqs", "status": "draft"})
    ways = config_ways(question, costs)
    assert ways
    assert {len(way.changes) for way in ways} == {2}
    for way in ways:
        assert first(place, edited_by(way, question.config), question.query) == GUIDE


def test_words_are_added_where_they_are_said_to_be_and_do_it(place: Workspace, tmp_path: Path) -> None:
    question, costs = asked(place, text="autoclave calibration")
    before = (place.documents / GUIDE).read_bytes()
    ways = [way for way in document_ways(question, costs) if way.kind == "words"]
    assert (place.documents / GUIDE).read_bytes() == before
    assert {way.changes[0]["path"] for way in ways} <= {"title", "text"}
    assert ways
    for number, way in enumerate(ways):
        (change,) = way.changes
        copy = Workspace(shutil.copytree(place.root, tmp_path / str(number)))
        text = with_words(before.decode(), change["path"], change["words"])
        assert text is not None
        (copy.documents / GUIDE).write_text(text)
        copy.index()
        assert first(copy, question.config, question.query) == GUIDE
        golden = load_golden(copy)
        others = golden.only(topic for topic in TOPICS[:7])
        deltas = [
            b - a
            for a, b in zip(
                evaluate(place, question.config, golden=others).scores(),
                evaluate(copy, question.config, golden=others).scores(),
                strict=True,
            )
        ]
        assert way.cost is not None
        assert way.cost.difference == pytest.approx(sum(deltas) / 7)


def test_where_no_word_of_the_query_helps_no_words_are_proposed(place: Workspace) -> None:
    question, costs = asked(place)
    assert document_ways(question, costs) == []


def test_metadata_is_edited_where_a_filter_reads_it(place: Workspace) -> None:
    question, costs = asked(place, doc_id=FAQ, filters={"status": "effective"})
    assert question.standing().rank is None
    ways = document_ways(question, costs)
    assert [(way.kind, way.changes) for way in ways if way.kind == "metadata"] == [
        ("metadata", [{"path": "status", "a": "draft", "b": "effective"}])
    ]


def test_without_labels_there_are_ways_and_no_costs(place: Workspace) -> None:
    question, _ = asked(place)
    assert {way.cost for way in config_ways(question, None)} == {None}


def test_unknown_document_is_told_with_a_guess(place: Workspace) -> None:
    with pytest.raises(HiveError, match="did you mean") as caught:
        asked(place, doc_id="guides/autoclav.md")
    assert caught.value.exit_code == 2
    assert asked(place, doc_id=f"documents/{GUIDE}#0")[0].doc_id == GUIDE


def test_nothing_of_the_workspace_is_written(place: Workspace) -> None:
    question, costs = asked(place)
    kept = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file() and ".hive" not in path.parts}
    document_ways(question, costs)
    assert {path: path.read_bytes() for path in kept} == kept
    assert json.dumps([way.to_json() for way in config_ways(question, costs)])
