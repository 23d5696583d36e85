"""The stages between which a gate stands: what it drops must leave no trace in what is returned."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.index.lanes import Lane
from hive_agents.ranking import RetrievalConfig, Search, SearchEngine, present
from hive_agents.ranking.cutoff import Lists
from hive_agents.ranking.fusion import Fused
from hive_agents.ranking.pipeline import RankingState
from hive_agents.ranking.stages import Cut, OneQuery, finish, retrieve
from tests.conftest import DOCUMENTS, config_json
from tests.rerankers import Longest

QUERY = "How do I rotate an API key?"


def parsed(**blocks: Any) -> RetrievalConfig:
    return RetrievalConfig.model_validate(config_json("a", blocks.pop("method", "hybrid"), **blocks))


def shown(engine: SearchEngine, search: Search, config: RetrievalConfig) -> Any:
    return present(engine.index("kb"), search, config).to_json()


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"method": "keyword", "retrieval": {"top_k": 2}},
        {"dynamic_k": {"enabled": True, "gap_threshold_factor": 3.0}},
        {"rerank": {"enabled": True, "candidates": 4, "floor": 0.05}},
        {"abstain": {"min_cosine": 0.99}, "rerank": {"enabled": True}},
        {"filters": {"category": "guides"}},
        {"retrieval": {"per_document": 1, "top_k": 3}, "boosts": {"status": {"retired": 3}}},
    ],
)
def test_the_stages_together_are_the_search(indexed: Workspace, blocks: dict[str, Any]) -> None:
    engine, config = SearchEngine(indexed, Longest()), parsed(**blocks)
    index = engine.index("kb")
    search = retrieve(index, QUERY, config)
    assert len(search.returned) == len(search.order)
    if config.rerank.enabled:
        search = engine.rerank(index, search, config)
    assert shown(engine, finish(search, config), config) == engine.search(QUERY, config).to_json()


def test_retrieve_is_restricted_within_the_configs_filters(indexed: Workspace) -> None:
    engine = indexed.engine()
    index = engine.index("kb")
    config = parsed(filters={"category": ["guides", "faqs"]})
    within = index.only(["guides/webhooks.md", "welcome.md", "no such.md"])
    found = retrieve(index, QUERY, config, within=within)
    assert set(index.documents_of(found.fused.chunks)) == {"guides/webhooks.md"}
    assert index.count(within) == 2
    assert len(retrieve(index, QUERY, parsed(), within=within).fused) == 4


def test_depth_replaces_the_candidates(indexed: Workspace) -> None:
    index = indexed.engine().index("kb")
    config = parsed(method="vector", retrieval={"candidates": 5, "top_k": 3})
    assert [len(retrieve(index, QUERY, config, depth=depth).fused) for depth in (None, 2, 8)] == [5, 2, 8]


@pytest.mark.parametrize("query", ["", "?!"])
def test_a_query_without_words_is_refused_by_the_stage_too(indexed: Workspace, query: str) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        retrieve(indexed.engine().index("kb"), query, parsed())


def test_a_reranker_reads_allowed_documents_alone_and_as_many_as_without_the_others(indexed: Workspace) -> None:
    reranker = Longest()
    engine, config = SearchEngine(indexed, reranker), parsed(rerank={"enabled": True, "candidates": 3})
    index = engine.index("kb")
    search = retrieve(index, QUERY, config)
    documents = index.documents_of(search.fused.chunks)
    denied = set(documents[:2])
    asked: list[list[str]] = []

    def allowed(doc_ids: Sequence[str]) -> set[str]:
        asked.append(list(doc_ids))
        return set(doc_ids) - denied

    reranked = engine.rerank(index, search, config, allowed=allowed)
    assert len(reranker.read) == 3
    readable = [p for p in range(len(documents)) if documents[p] not in denied]
    assert set(reranked.relevance) == set(readable[:3])
    assert reranked.order.tolist()[3:] == [p for p in range(len(documents)) if p not in reranked.relevance]
    assert len(asked) == 2
    assert all(len(batch) == len(set(batch)) <= 3 for batch in asked)
    nobody = engine.rerank(index, search, config, allowed=lambda doc_ids: [])
    assert (nobody.order.tolist(), nobody.relevance) == (search.order.tolist(), {})


def made(fused: Fused, documents: Any, order: Any, relevance: dict[int, float]) -> Search:
    """The search whose candidates stand in this order."""
    known = np.array([[relevance.get(position, -np.inf) for position in order.tolist()]]) if relevance else None
    available = np.array([len(order)])
    lists = Lists(order[None], fused.scores[order][None], available, documents[order][None], known)
    keyword, vector = fused.ranks
    whole = Fused(fused.chunks[None], fused.scores[None], (keyword[None], vector[None]))
    lane = Lane(fused.chunks, fused.scores.astype(np.float32))
    of = OneQuery(cast("Any", NoIndex()), "q", {"keyword": lane, "vector": lane}, lane.chunks)
    return Search(of, RankingState(available=available, fused=whole, lists=lists), Cut("none", len(order)))


class NoIndex:
    """An index of which nothing is asked but the name of its analyzer."""

    language = "english"


def random_search(rng: random.Random, n: int) -> Search:
    scores = np.sort(np.array([rng.choice([1 / 61, 1 / 62, 1 / 70, rng.random() / 30]) for _ in range(n)]))[::-1]
    fused = Fused(np.arange(n), scores, (np.arange(1, n + 1), np.arange(1, n + 1)))
    order = list(range(n))
    head = rng.randrange(n + 1)
    relevance = {position: rng.choice([0.1, 0.5, 0.9]) for position in range(head)}
    order[:head] = sorted(order[:head], key=lambda position: -relevance[position])
    documents = np.array([rng.randrange(max(n // 2, 1)) for _ in range(n)], np.int64)
    return made(fused, documents, np.array(order, np.intp), relevance)


def without(search: Search, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Search:
    """The search as if the dropped had never been candidates."""
    place = {position: number for number, position in enumerate(np.flatnonzero(kept).tolist())}
    keyword, vector = search.fused.ranks
    fused = Fused(search.fused.chunks[kept], search.fused.scores[kept], (keyword[kept], vector[kept]))
    order = np.array([place[p] for p in search.order.tolist() if p in place], np.intp)
    relevance = {place[p]: value for p, value in search.relevance.items() if p in place}
    documents = np.empty(len(kept), np.int64)
    documents[search.order] = search.state.lists.documents[0]
    return made(fused, documents[kept], order, relevance)


def test_what_a_gate_drops_was_never_a_candidate() -> None:
    rng = random.Random(5)
    for _ in range(400):
        search = random_search(rng, rng.randrange(0, 25))
        kept = np.array([rng.random() < 0.7 for _ in range(len(search.fused))], np.bool_)
        top_k = rng.randrange(1, 15)
        config = parsed(
            retrieval={"top_k": top_k, "per_document": rng.choice([None, 1, 2])},
            dynamic_k={
                "enabled": rng.random() < 0.7,
                "gap_threshold_factor": rng.choice([1.2, 3.0]),
                "min_results": rng.randrange(3),
                "max_results": rng.randrange(1, top_k + 1),
            },
            rerank={"enabled": rng.random() < 0.7, "floor": rng.choice([None, 0.4])},
        )
        gated, never = finish(search, config, kept=kept), finish(without(search, kept), config)
        assert gated.returned.tolist() == never.returned.tolist()
        assert gated.cut == never.cut
        assert finish(search, config).cut == finish(search, config, kept=np.ones(len(kept), np.bool_)).cut


def test_dropping_everything_leaves_an_empty_list(indexed: Workspace) -> None:
    engine, config = indexed.engine(), parsed(dynamic_k={"enabled": True})
    search = retrieve(engine.index("kb"), QUERY, config)
    gated = finish(search, config, kept=np.zeros(len(search.fused), np.bool_))
    assert (gated.returned.tolist(), gated.cut) == ([], Cut("exhausted", 0))
    assert shown(engine, gated, config)["hits"] == []


def test_an_abstention_stays_one(indexed: Workspace) -> None:
    engine, config = indexed.engine(), parsed(abstain={"min_cosine": 0.99}, rerank={"enabled": True})
    index = engine.index("kb")
    search = retrieve(index, QUERY, config)
    assert engine.rerank(index, search, config).cut == finish(search, config).cut == Cut("abstain", 0)
    assert len(search.fused) >= len(DOCUMENTS)
    assert search.returned.tolist() == []


def test_a_list_holds_at_most_so_many_chunks_of_a_document_its_best_ones(indexed: Workspace) -> None:
    index = indexed.engine().index("kb")
    everything = retrieve(index, "webhooks retries signature", parsed())
    documents = index.documents_of(everything.returned)
    assert max(documents.count(doc_id) for doc_id in documents) > 2
    for most in (1, 2):
        found = finish(everything, parsed(retrieval={"per_document": most}))
        kept = [p for p, doc_id in enumerate(documents) if documents[:p].count(doc_id) < most]
        assert found.order[: found.cut.at].tolist() == kept[:10]


def test_top_k_counts_documents_where_one_chunk_of_each_may_stand_in_the_list(indexed: Workspace) -> None:
    index = indexed.engine().index("kb")
    config = parsed(retrieval={"per_document": 1, "top_k": 3})
    found = finish(retrieve(index, "webhooks retries signature", config), config)
    assert len(set(index.documents_of(found.returned))) == len(found.returned) == 3
    assert found.cut == Cut("top_k", 3)


def test_the_chunks_of_a_document_are_counted_in_the_order_of_the_reranker_and_before_the_floor() -> None:
    fused = Fused(np.arange(4), np.array([0.4, 0.3, 0.2, 0.1]), (np.arange(1, 5), np.arange(1, 5)))
    documents, relevance = np.array([7, 7, 8, 9], np.int64), {0: 0.1, 1: 0.9, 2: 0.8, 3: 0.7}
    order = np.array([1, 2, 3, 0], np.intp)
    search = made(fused, documents, order, relevance)
    config = parsed(retrieval={"per_document": 1}, rerank={"enabled": True, "floor": 0.75})
    found = finish(search, config)
    assert (found.returned.tolist(), found.cut) == ([1, 2], Cut("floor", 2))


def test_what_is_just_as_relevant_as_the_floor_stays() -> None:
    fused = Fused(np.arange(3), np.array([0.3, 0.2, 0.1]), (np.arange(1, 4), np.arange(1, 4)))
    documents, relevance = np.array([7, 8, 9], np.int64), {0: 0.75, 1: 0.7499}
    search = made(fused, documents, np.arange(3), relevance)
    found = finish(search, parsed(rerank={"enabled": True, "floor": 0.75}))
    assert found.returned.tolist() == [0, 2], "what no reranker looked at has no relevance to be too little"
