"""A versioned documentation whose old pages win: the diagnosis says so, and the proposer acts on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.optimizer.diagnosis import Diagnosis, diagnose
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.proposal import HeuristicProposer, Situation
from hive_agents.ranking import RetrievalConfig
from tests.conftest import config_json, make_workspace
from tests.topics import declare

PAGES = ("backup", "restore", "upgrade", "monitor", "tuning", "failure")


@pytest.fixture
def versioned(tmp_path: Path) -> Workspace:
    """Each page in two versions; the old one repeats its word, so that it wins by keywords. One is long."""
    documents = {}
    for page in PAGES:
        for version, text in (
            ("v3.5", f"How to {page}: {page} with the old tool."),
            ("v3.6", f"How to {page} a cluster."),
        ):
            documents[f"{version}/{page}.md"] = (
                f"---\nstatus: {version}\nversion: {version[1:]}\n---\n# Operation\n\n{text}\n"
            )
    parts = "".join(f"## Step {n}\n\nThe monitor shows figure {n}.\n\n" for n in range(4))
    documents["v3.6/long.md"] = f"---\nstatus: v3.6\n---\n# Watching\n\n{parts}"
    workspace = make_workspace(tmp_path, embedding=False, documents=documents)
    queries = [
        {"id": page, "query": f"how to {page}", "relevant": [f"v3.6/{page}.md"], "distractors": [f"v3.5/{page}.md"]}
        for page in PAGES
    ]
    path = workspace.root / "evals" / "golden.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"collection": "kb", "queries": queries}), encoding="utf-8")
    workspace.index()
    return workspace


def diagnosed(workspace: Workspace, config: RetrievalConfig) -> tuple[LaneCache, Diagnosis]:
    engine = workspace.engine()
    cache = LaneCache(engine, load_golden(workspace))
    return cache, diagnose(cache, engine.index("kb"), config)


def keyword(**blocks: object) -> RetrievalConfig:
    return RetrievalConfig.model_validate(config_json("a", "keyword", **blocks))


def test_older_pages_of_the_same_name_are_named_with_the_boost_that_helps(versioned: Workspace) -> None:
    cache, found = diagnosed(versioned, keyword())
    loss = found.loss("other_version")
    assert loss is not None
    assert sorted(loss.queries) == sorted(PAGES)
    best = found.preferences[0]
    assert (best.field, best.boost) == ("category", {"v3.6": 2.0})
    boosted = cache.evaluate(keyword(boosts={"category": {"v3.6": 2.0}}))
    assert best.nudcg == boosted.nudcg.mean()
    assert loss.points == pytest.approx(best.nudcg - found.nudcg)
    assert "other pages of the same name win: prefer category: v3.6 × 2" in found.summary


def test_a_document_that_holds_several_places_is_named(versioned: Workspace) -> None:
    _, found = diagnosed(versioned, keyword())
    loss = found.loss("repeats")
    assert loss is not None
    assert loss.queries == ("monitor",)
    assert "the same document holds up to 4 of 10 places (1 queries)" in found.summary
    _, thinned = diagnosed(versioned, keyword(retrieval={"per_document": 1}))
    assert thinned.loss("repeats") is None
    assert "places" not in thinned.summary


def test_where_no_other_version_wins_nothing_is_preferred(versioned: Workspace) -> None:
    _, found = diagnosed(versioned, keyword(filters={"category": "v3.6"}))
    assert found.loss("other_version") is None
    assert found.preferences == ()


def test_the_proposer_prefers_the_version_and_thins_the_list(versioned: Workspace) -> None:
    config = keyword()
    declare(versioned, category={"ranks": True})
    cache, found = diagnosed(versioned, config)
    index = versioned.engine().index("kb")
    situation = Situation(config, found, cache, index, frozenset(), iteration=1)
    values = [edit.values for edit in HeuristicProposer().propose(situation).edits]
    assert (("boosts.category", {"v3.6": 2.0}),) in values
    causes = {edit.cause for edit in HeuristicProposer().propose(situation).edits}
    assert "repeats" in causes
