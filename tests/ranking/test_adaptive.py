"""Both branches of a filtered search give what an exhaustive filter search gives; the count picks the branch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.documents import load_collection
from hive_agents.index.filters import Condition
from hive_agents.index.index import SqliteIndex
from hive_agents.index.vectors import Mask
from hive_agents.ranking import RetrievalConfig, SearchEngine, build_index
from hive_agents.ranking.adaptive import adaptive
from hive_agents.ranking.stages import Search, retrieve
from tests.conftest import config_json, make_workspace

WORDS = "assay balance beaker buffer column dilute filter flask heater lamp mixer pump rotor sample valve".split()
QUERIES = ["rotor valve", "buffer", "dilute sample flask", "unheard"]
INSIDE = {"status": Condition(include=("effective",))}


class Counting(SqliteIndex):
    counts = 0
    rankings = 0

    def count(self, mask: Mask) -> int:
        self.counts += 1
        return super().count(mask)

    def keyword(self, *arguments: Any, **names: Any) -> Any:
        self.rankings += 1
        return super().keyword(*arguments, **names)


def corpus(root: Path, inside: int, outside: int) -> Counting:
    """`inside` documents with status effective, and more than one chunk now and then."""
    rng = random.Random(inside)
    documents = {}
    for number in range(inside + outside):
        status = "effective" if number < inside else "draft"
        body = " ".join(rng.choices(WORDS, k=rng.randrange(2, 8)))
        if number % 7 == 0:
            body += f"\n\n## {rng.choice(WORDS)}\n\n{rng.choice(WORDS)}"
        documents[f"{number % 13}/d{number}.md"] = f"---\ntitle: d\nstatus: {status}\n---\n{body}\n"
    workspace = make_workspace(root, embedding=False, documents=documents)
    build_index(workspace)
    return Counting(workspace, load_collection(workspace))


def parsed(method: str = "keyword", **blocks: Any) -> RetrievalConfig:
    return RetrievalConfig.model_validate(config_json("a", method, **blocks))


def same(one: Search, other: Search) -> bool:
    lanes = all(
        lane.chunks.tolist() == other.of.lanes[name].chunks.tolist()
        and lane.scores.tobytes() == other.of.lanes[name].scores.tobytes()
        for name, lane in one.of.lanes.items()
    )
    alike = one.fused.chunks.tolist() == other.fused.chunks.tolist() and one.cut == other.cut
    return lanes and alike and one.fused.scores.tobytes() == other.fused.scores.tobytes()


def check(index: Counting, inside: int, threshold: int) -> None:
    engine = SearchEngine(index._workspace)
    universe = index.select(INSIDE)
    assert universe is not None
    for config in (parsed(), parsed(retrieval={"top_k": 3, "candidates": 5}, filters={"category": ["1", "2", "3"]})):
        for query in QUERIES:
            expected, before = retrieve(index, query, config, within=universe), index.counts
            found = adaptive(engine, index, query, config, universe, threshold=threshold)
            assert found.branch == ("filter_first" if inside <= threshold else "rank_then_filter")
            assert (found.count, index.counts - before) == (inside, 1)
            assert same(found.search, expected)


@pytest.mark.parametrize("inside", [1, 19, 20, 21, 60])
def test_the_count_of_documents_picks_the_branch(tmp_path: Path, inside: int) -> None:
    check(corpus(tmp_path / "ws", inside, 120), inside, threshold=20)


@pytest.mark.slow
@pytest.mark.parametrize(("inside", "outside"), [(10, 3000), (999, 3000), (1000, 3000), (1001, 3000), (50_000, 5_000)])
def test_the_branch_turns_at_a_thousand_documents(tmp_path: Path, inside: int, outside: int) -> None:
    check(corpus(tmp_path / "ws", inside, outside), inside, threshold=1000)


def test_lanes_are_deepened_until_enough_is_inside(tmp_path: Path) -> None:
    """One document in fifty is inside: the first depth can't be enough, the last one sees the end of the lane."""
    index = corpus(tmp_path / "ws", 8, 400)
    engine, universe = SearchEngine(index._workspace), index.select(INSIDE)
    assert universe is not None
    config = parsed(retrieval={"top_k": 4, "candidates": 4})
    found = adaptive(engine, index, "rotor valve", config, universe, threshold=0, overfetch=1)
    assert index.rankings > 3
    assert same(found.search, retrieve(index, "rotor valve", config, within=universe))
    deeper = adaptive(engine, index, "rotor valve", config, universe, threshold=0, depth=40, count=found.count)
    assert index.counts == 1
    assert same(deeper.search, retrieve(index, "rotor valve", config, within=universe, depth=40))


def test_an_empty_universe_has_no_results(tmp_path: Path) -> None:
    index = corpus(tmp_path / "ws", 3, 5)
    nothing = np.zeros(index.n_chunks, np.bool_)
    for threshold in (0, -1):
        found = adaptive(SearchEngine(index._workspace), index, "rotor", parsed(), nothing, threshold=threshold)
        assert (found.count, found.search.returned.tolist()) == (0, [])


@pytest.mark.parametrize("threshold", [0, 1000])
def test_a_query_without_words_is_refused_on_both_branches(tmp_path: Path, threshold: int) -> None:
    index = corpus(tmp_path / "ws", 3, 5)
    with pytest.raises(HiveError, match="HIVE-409"):
        adaptive(SearchEngine(index._workspace), index, "?", parsed(), index.only(["0/d0.md"]), threshold=threshold)


@pytest.mark.parametrize(
    ("method", "blocks"),
    [
        ("hybrid", {}),
        ("hybrid", {"retrieval": {"candidates": 2, "top_k": 2}}),
        ("vector", {"retrieval": {"candidates": 1, "top_k": 1}}),
        ("keyword", {"abstain": {"min_cosine": 0.5}}),
        ("hybrid", {"abstain": {"min_cosine": 0.05}, "retrieval": {"candidates": 1, "top_k": 1}}),
    ],
)
def test_hybrid_and_abstention_agree_too(indexed: Workspace, method: str, blocks: dict[str, Any]) -> None:
    """Ranks are counted again after the filter, so that even fused scores are the same bits; also inside a scope."""
    engine, config = indexed.engine(), parsed(method, **blocks)
    whole = engine.index("kb")
    visible = np.array([doc_id != "faqs/lost-key.md" for doc_id in whole.doc_ids()])
    for index in (whole, whole.within(visible)):
        universe = index.select({"category": Condition(include=("guides", "reference"))})
        assert universe is not None
        for query in ("How do I rotate an API key?", "too many requests"):
            found = adaptive(engine, index, query, config, universe, threshold=0, overfetch=1)
            assert found.branch == "rank_then_filter"
            assert same(found.search, retrieve(index, query, config, within=universe))
