"""The demo's part about the optimizer: its example is the run's own, chosen by a rule that it states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.cli.demo import Story
from hive_agents.ranking import build_index
from tests.graphs.optimizing import run
from tests.sample import copied_sample
from tests.topics import TOPICS, activate, in_wordings, make_topics, query, write_golden

MOST = TOPICS[2]


@pytest.fixture
def optimized(tmp_path: Path) -> tuple[Workspace, dict[str, Any]]:
    """Leaving out FAQs helps all; the third topic has a FAQ more, and so most to gain."""
    place = make_topics(tmp_path / "w")
    (place.documents / "faqs" / "more.md").write_text(f"---\ntitle: {MOST}\n---\n{MOST} {MOST} {MOST}\n", "utf-8")
    (place.configs / "careful.json").unlink()
    splits = ["train"] * 3 + ["validation"]
    queries = [query(topic, split=split) for topic, split in zip(TOPICS, splits, strict=False)]
    queries[2]["distractors"].append("faqs/more.md")
    write_golden(place, queries + in_wordings(TOPICS[4:], 4))
    activate(place, "naive")
    build_index(place)
    return place, run(place, deploy=False)


def test_the_query_that_rises_most_is_shown_before_and_after_with_the_rule_that_chose_it(
    optimized: tuple[Workspace, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    place, result = optimized
    shown = Story(place, silent=False).changed_most(result)
    assert shown is not None
    assert (shown["id"], shown["query"]) == (MOST, MOST)
    assert shown["rule"] == "of the 4 open queries, which it may learn from, the one whose nUDCG rises most"
    before, after = shown["before"], shown["after"]
    assert (before["config"], after["config"]) == ("naive", result["best"]["config"])
    assert (before["distractors"], after["distractors"]) == (2, 0)
    assert after["nudcg"] == 1.0
    told = " ".join(capsys.readouterr().out.split())
    assert shown["rule"] in told
    assert f'hive query "{MOST}" --config naive' in told
    assert "it is the best case, not the average" in told
    certificate = result["certificate"]
    assert "over the 24 queries of the holdout, which nobody tuned on: -0.369 -> 1.000" in told
    assert certificate["difference"] == pytest.approx(1.369, abs=1e-3)


def test_a_run_that_changed_nothing_has_no_query_to_show(
    optimized: tuple[Workspace, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    place, result = optimized
    assert Story(place, silent=False).changed_most(result | {"best": result["baseline"]}) is None
    assert "no query changes" in capsys.readouterr().out


@pytest.mark.slow
def test_the_whole_story_is_told_without_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = Story(copied_sample(tmp_path / "w"), silent=False).run()
    shown = capsys.readouterr().out
    assert "error[" not in shown
    assert f"v1-naive is active again (before: {told['optimize']['best']['config']})" in shown
    assert "major | 20 days" in " ".join(shown.split()), "dana reads it in a passage"
    assert told["blocked"]["decision"] == "blocked"
    assert not set(told["chat"]["guest"]["documents"]) & {"sops/deviation-closure.md"}
