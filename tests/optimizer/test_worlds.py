"""The worlds that rules and methods are compared in: what their labels mean; in the null one nothing can be won."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.optimizer import null_world
from benchmarks.without_truth import tricks, untrue
from benchmarks.worlds import golden, null, of_releases, small
from hive_agents import Workspace
from hive_agents.evaluation import load_golden

RELEASED = {(release, page) for release in ("5.2", "4.2", "3.2") for page in ("topics/db.md", "ref/urls.md")}
ASKED = {"id": "q", "query": "how?", "tags": ["orm"], "relevant": ["topics/db.md"], "distractors": ["ref/urls.md"]}


def test_the_newest_page_answers_and_its_older_namesakes_mislead() -> None:
    labelled = of_releases(ASKED, 0, RELEASED)
    assert labelled["relevant"] == ["5.2/topics/db.md"]
    assert labelled["distractors"] == ["4.2/topics/db.md", "3.2/topics/db.md", "5.2/ref/urls.md"]


def test_a_page_that_a_release_lacks_is_no_label() -> None:
    labelled = of_releases(ASKED, 0, RELEASED - {("3.2", "topics/db.md")})
    assert labelled["distractors"] == ["4.2/topics/db.md", "5.2/ref/urls.md"]


def test_each_twelfth_query_wants_the_oldest_release() -> None:
    labelled = of_releases(ASKED, 11, RELEASED)
    assert (labelled["tags"], labelled["query"]) == (["orm", "older"], "how? (Django 3.2)")
    assert labelled["relevant"] == ["3.2/topics/db.md"]
    assert "5.2/topics/db.md" in labelled["distractors"]


def test_the_small_world_has_twenty_five_queries_and_no_splits(tmp_path: Path) -> None:
    small(tmp_path / "w", tmp_path)
    queries = golden(tmp_path / "w")["queries"]
    assert len(queries) == 25
    assert not any("split" in one for one in queries)
    assert len(load_golden(Workspace(tmp_path / "w"))) == 25


@pytest.mark.slow
def test_in_the_null_world_an_answer_and_a_distractor_are_drawn_for_each_query(tmp_path: Path) -> None:
    null(tmp_path / "w", tmp_path)
    for one in golden(tmp_path / "w")["queries"]:
        assert (len(one["relevant"]), len(one["distractors"])) == (1, 1)
        assert set(one["relevant"]).isdisjoint(one["distractors"])


@pytest.mark.slow
def test_what_is_chosen_by_the_rule_is_certified_in_a_null_world_as_seldom_as_promised() -> None:
    found = null_world(200)
    assert found["naive"] > 0.9
    assert found["certified"] <= found["bound"] < 0.06


@pytest.mark.slow
def test_silence_and_hiding_are_blocked_and_labels_without_truth_of_few_questions_pass_nothing(tmp_path: Path) -> None:
    """Of 40 questions sixteen are held out: under 20 prove nothing. `benchmarks/without_truth.py` has the long runs."""
    source = tmp_path / "w"
    null(source, tmp_path)
    found = tricks(source)
    assert {name: decision for name, (decision, _) in found.items()} == {"silent": "blocked", "hiding": "blocked"}
    assert any("can't be found by any question" in reason for reason in found["hiding"][1])
    for size in (8, 40):
        assert "passed" not in untrue(source, size, 2)
