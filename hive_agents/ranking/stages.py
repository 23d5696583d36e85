"""The stages of a search, one by one, so that a caller can put a permission gate between them.

`retrieve` (lanes, RRF, boosts, abstention), `rerank`, `finish` (per_document, relevance floor, dynamic-k, top_k).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import require_short
from hive_agents.documents import terms, words
from hive_agents.index import ChunkFactors, ChunkNumbers, ChunkRow, Lane, LaneIndex, Mask
from hive_agents.models.embedding import Reranker
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.cutoff import dynamic_k, occurrences
from hive_agents.ranking.fusion import Fused, boosted, by_boilerplate, rrf
from hive_agents.ranking.lift import lift_weight, lifts
from hive_agents.ranking.silence import floor_of, is_answered

WORDED = 10
"""Chunks of the keyword lane that are checked for having every word of the query."""

Boosts = dict[str, dict[str, float]]
CutReason = Literal["none", "top_k", "gap", "max_results", "floor", "exhausted", "abstain"]


@dataclass(frozen=True)
class Cut:
    """The reason why the list ends, and its number of hits."""

    reason: CutReason
    at: int


@dataclass(frozen=True)
class Search:
    """A ranking in progress: all fused candidates, and those that are returned."""

    query: str
    lanes: dict[str, Lane]
    fused: Fused
    documents: NDArray[np.int64]  # the document's number, by position in `fused`
    order: NDArray[np.intp]  # positions in `fused`, best first, after the stages so far
    relevance: dict[int, float]  # by position in `fused`
    cut: Cut

    @property
    def returned(self) -> ChunkNumbers:
        return self.fused.chunks[self.order[: self.cut.at]]


def retrieve(
    index: LaneIndex, query: str, config: RetrievalConfig, *, within: Mask | None = None, depth: int | None = None
) -> Search:
    """Return the fused candidates of one query, all of them: nothing is reranked or cut.

    `within` (shape of the index's masks) is and-ed with the config's filters; `depth` replaces
    `retrieval.candidates`. Where the config abstains, `order` is empty, also after the later stages.

    Raises: HIVE-409 for a query without words, HIVE-401 without a model, 206 to 208 for filters.
    """
    return retrieve_many(index, [query], config, within=within, depth=depth)[0]


def retrieve_many(
    index: LaneIndex,
    queries: Sequence[str],
    config: RetrievalConfig,
    *,
    within: Mask | None = None,
    depth: int | None = None,
) -> list[Search]:
    """Return `retrieve` of each query; the vector lane is computed as one batch."""
    if not queries:
        return []
    for query in queries:
        require_words(query)
    mask = admitted(index, config, within)
    deep = depth or config.retrieval.candidates
    by_query: list[dict[str, Lane]] = [{} for _ in queries]
    if config.retrieval.keyword:
        for lanes, query in zip(by_query, queries, strict=True):
            lanes["keyword"] = index.keyword(query, deep, config.bm25.params, mask)
    if needs_vectors(config):
        vector = index.vector(queries, deep if config.retrieval.vector else 1, mask)
        for lanes, lane in zip(by_query, vector, strict=True):
            lanes["vector"] = lane
    return [fuse(index, query, lanes, config) for query, lanes in zip(queries, by_query, strict=True)]


def needs_vectors(config: RetrievalConfig) -> bool:
    """Return whether a search by this config embeds its query."""
    return config.retrieval.vector or needs_nearness(config)


def require_words(query: str) -> None:
    """Raise HIVE-409 for a query without words, HIVE-105 for one that is too long."""
    require_short(query)
    if not words(query):
        raise HiveError.of("HIVE-409", "the query has no words", fix="ask with at least one letter or digit")


def admitted(index: LaneIndex, config: RetrievalConfig, within: Mask | None) -> Mask | None:
    """Return the mask of the config's filters and `within`; None means all chunks."""
    mask = index.select(config.conditions, checked=True)
    return within if mask is None else mask if within is None else mask & within


def fuse(index: LaneIndex, query: str, lanes: dict[str, Lane], config: RetrievalConfig) -> Search:
    """Return the fused and boosted candidates of ranked lanes; a lane that only abstention needs is not fused."""
    abstains = _abstains(index, query, lanes, config)
    if not config.retrieval.vector:
        lanes = {"keyword": lanes["keyword"]}
    fused = rrf(list(lanes.values()), config.retrieval.lane_weights, config.retrieval.rrf_k)
    factors = list(multipliers(index, config, applied_boosts(index, query, config), fused.chunks))
    if lift_weight(config, index.language):
        factors.append(lifts(index, query, fused.chunks, config))
    fused = boosted(fused, factors)
    documents = index.document_numbers(fused.chunks)
    order: NDArray[np.intp] = np.arange(len(fused))
    if abstains:
        return Search(query, lanes, fused, documents, order[:0], {}, Cut("abstain", 0))
    return Search(query, lanes, fused, documents, order, {}, Cut("none", len(fused)))


def multipliers(
    of: ChunkFactors, config: RetrievalConfig, boosts: Boosts, chunks: NDArray[Any]
) -> Iterator[NDArray[np.float64]]:
    """Yield the factors of the chunks' fused scores, in the shape of `chunks`."""
    if boosts:
        yield of.factors(boosts, chunks)
    if config.boilerplate.weight < 1:
        yield by_boilerplate(of.boilerplate_shares(chunks), config.boilerplate.weight)


def applied_boosts(index: LaneIndex, query: str, config: RetrievalConfig) -> Boosts:
    """Return the boosts without those of a field of which the query names a value: who asks for a draft wants it."""
    named = index.named(query, config.boosts) if config.boosts else ()
    return {field: boost for field, boost in config.boosts.items() if field not in named}


def _abstains(index: LaneIndex, query: str, lanes: dict[str, Lane], config: RetrievalConfig) -> bool:
    """Return whether no result is near enough."""
    if not needs_nearness(config):
        return False
    nearest = float(lanes["vector"].scores[0]) if len(lanes["vector"].scores) else -np.inf
    first = lanes["keyword"].chunks[: worded_depth(config)] if config.retrieval.keyword else np.empty(0, np.intp)
    floor = config.abstain.min_cosine
    if floor is not None and nearest < floor:
        worded = config.abstain.unless_all_words and has_all_words(index, query, first.tolist())
        if not worded:
            return True
    answered = not config.abstain.enabled or is_answered(index, query, first, config.bm25.params)
    return not answered and nearest < floor_of(index)


def needs_nearness(config: RetrievalConfig) -> bool:
    """Return whether a list depends on how near its nearest chunk is."""
    return config.abstain.enabled or config.abstain.min_cosine is not None


def worded_depth(config: RetrievalConfig) -> int:
    """Return how many chunks of the keyword lane are checked for having every word of the query."""
    return min(WORDED, config.retrieval.candidates)


def has_all_words(index: LaneIndex, query: str, chunks: Sequence[int]) -> bool:
    """Return whether one of the chunks has every term of the query: in its title, heading or text."""
    wanted = frozenset(terms(query, index.language))
    return any(wanted <= terms_of(row, index.language) for row in index.rows(chunks))


def terms_of(row: ChunkRow, language: str) -> frozenset[str]:
    """Return the terms of a chunk's title, heading and text."""
    return frozenset(terms(f"{row.title}\n{row.heading}\n{row.text}", language))


def rerank(
    index: LaneIndex,
    search: Search,
    config: RetrievalConfig,
    reranker: Reranker,
    *,
    allowed: Callable[[Sequence[str]], Collection[str]] | None = None,
) -> Search:
    """Return the same candidates with the first `rerank.candidates` in order of relevance, the others behind them.

    `allowed` gets doc_ids and returns those whose text may be sent to the reranker; it is called at most once for each
    `rerank.candidates` candidates. The others are skipped: they stay behind, without relevance.
    """
    if search.cut.reason == "abstain":
        return search
    positions = search.order.tolist()
    head = _readable(index, search, positions, config.rerank.candidates, allowed)
    texts = reranked_texts(index, search.fused.chunks[head].tolist())
    scores = dict(zip(head, reranker.relevance(search.query, texts) if texts else [], strict=True))
    best = sorted(head, key=lambda position: (-scores[position], position))
    order = np.array([*best, *(position for position in positions if position not in scores)], np.intp)
    return replace(search, order=order, relevance=scores)


def reranked_texts(index: LaneIndex, chunks: Sequence[int]) -> list[str]:
    """Return what a reranker reads of each chunk."""
    return [row.text if row.text.strip() else row.title for row in index.rows(chunks)]


def _readable(
    index: LaneIndex,
    search: Search,
    positions: Sequence[int],
    wanted: int,
    allowed: Callable[[Sequence[str]], Collection[str]] | None,
) -> list[int]:
    if allowed is None:
        return list(positions[:wanted])
    selected: list[int] = []
    for start in range(0, len(positions), wanted):
        part = positions[start : start + wanted]
        documents = index.documents_of(search.fused.chunks[part])
        readable = allowed(list(dict.fromkeys(documents)))
        selected += [position for position, doc_id in zip(part, documents, strict=True) if doc_id in readable]
        if len(selected) >= wanted:
            break
    return selected[:wanted]


def finish(search: Search, config: RetrievalConfig, *, kept: NDArray[np.bool_] | None = None) -> Search:
    """Return the list that is returned: per_document, relevance floor, dynamic-k, top_k.

    `kept` (shape `(len(search.fused),)`, by position in `search.fused`) is True for what a gate let pass: floor and cut
    are those of a search without the other candidates, at the same fused scores.
    """
    if search.cut.reason == "abstain":
        return search
    order = search.order if kept is None else search.order[kept[search.order]]
    if config.retrieval.per_document is not None:
        order = order[occurrences(search.documents[order]) < config.retrieval.per_document]
    candidates = len(order)
    floor = config.rerank.floor if config.rerank.enabled else None
    if floor is not None:
        order = np.array([p for p in order.tolist() if search.relevance.get(p, floor) >= floor], np.intp)
    cut = _cut(search.fused.scores[np.sort(order)], len(order) < candidates, config)
    return replace(search, order=order, cut=cut)


def _cut(scores: NDArray[np.float64], floored: bool, config: RetrievalConfig) -> Cut:
    """Return the cut; `scores` are the fused ones of the remaining candidates, best first."""
    top_k, available = config.retrieval.top_k, len(scores)
    reason: CutReason
    if config.dynamic_k.enabled:
        limit = min(top_k, config.max_results)
        at = dynamic_k(
            scores[:limit].tolist(),
            config.dynamic_k.gap_threshold_factor,
            config.dynamic_k.min_results,
            limit,
            weights=config.retrieval.lane_weights,
            rrf_k=config.retrieval.rrf_k,
        )
        if at < min(limit, available):
            return Cut("gap", at)
        if limit < top_k and available > limit:
            return Cut("max_results", limit)
    if available > top_k:
        return Cut("top_k", top_k)
    reason = "floor" if floored and available < top_k else "exhausted" if available < top_k else "none"
    return Cut(reason, available)
