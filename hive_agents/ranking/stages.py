"""The stages of a search, one by one, so that a caller can put a permission gate between them.

`retrieve` (lanes, RRF, boosts, abstention), `rerank`, `finish` (per_document, relevance floor, dynamic-k, top_k).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import require_short
from hive_agents.documents import terms, words
from hive_agents.index import BM25Params, ChunkNumbers, ChunkRow, Lane, LaneIndex, Mask
from hive_agents.models.embedding import Reranker
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.cutoff import Lists
from hive_agents.ranking.factors import Queries, multiplied
from hive_agents.ranking.fusion import (
    Floats,
    Fused,
    IntArray,
    LanePool,
    best_columns,
    joined,
    rrf,
)
from hive_agents.ranking.lift import name_shares
from hive_agents.ranking.silence import floor_of, is_answered

WORDED = 10
"""Chunks of the keyword lane that are checked for having every word of the query."""

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


def fused_scores(pool: LanePool, config: RetrievalConfig, candidates: int | None = None) -> tuple[Floats, IntArray]:
    """Return `rrf` of a pool by a config; `candidates` replaces its own."""
    retrieval = config.retrieval
    lanes = ([pool.keyword] if retrieval.keyword else []) + ([pool.vector] if retrieval.vector else [])
    return rrf(pool, lanes, retrieval.lane_weights, retrieval.rrf_k, candidates or retrieval.candidates)


def silent(of: Queries, nearest: Floats, config: RetrievalConfig) -> Mask:
    """Return which queries have no list since nothing is near; `nearest` are their best cosines, shape `(n,)`."""
    abstain, quiet = config.abstain, np.zeros(len(nearest), np.bool_)
    if abstain.min_cosine is not None:
        quiet = nearest < abstain.min_cosine
        if abstain.unless_all_words and config.retrieval.keyword:
            quiet &= ~of.worded(config, quiet)
    if abstain.enabled and not quiet.all():
        unanswered = ~of.answered(config)
        if unanswered.any():
            quiet |= unanswered & (nearest < of.floors)
    return quiet


@dataclass(frozen=True)
class OneQuery:
    """One query over an index: n = 1."""

    index: LaneIndex
    text: str
    first: ChunkNumbers
    """The first chunks of the keyword lane."""

    @property
    def language(self) -> str:
        return self.index.language

    @property
    def floors(self) -> Floats:
        return np.array([floor_of(self.index)])

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: IntArray) -> Floats:
        # Who asks for a draft wants it: a boost of a field of which the query names a value isn't applied.
        named = self.index.named(self.text, boosts)
        return self.index.factors({field: boost for field, boost in boosts.items() if field not in named}, chunks)

    def boilerplate_shares(self, chunks: IntArray) -> Floats:
        return self.index.boilerplate_shares(chunks)

    def name_shares(self, pool: LanePool, params: BM25Params) -> Floats:
        return name_shares(self.index, self.text, pool.chunks[0], params)[None]

    def answered(self, config: RetrievalConfig) -> Mask:
        return np.array([is_answered(self.index, self.text, self.first, config.bm25.params)])

    def worded(self, config: RetrievalConfig, rows: Mask) -> Mask:
        return rows & has_all_words(self.index, self.text, self.first.tolist()) if rows.any() else rows


def fuse(index: LaneIndex, query: str, lanes: dict[str, Lane], config: RetrievalConfig) -> Search:
    """Return the fused and boosted candidates of ranked lanes; a lane that only abstention needs is not fused."""
    none = Lane(np.empty(0, np.intp), np.empty(0, np.float32))
    keyword, vector = lanes.get("keyword", none), lanes.get("vector", none)
    if not config.retrieval.vector:
        lanes = {"keyword": keyword}
    pool = joined(*(lanes.get(name, none).chunks[None] for name in ("keyword", "vector")))
    of = OneQuery(index, query, keyword.chunks[: worded_depth(config)])
    scores, available = fused_scores(pool, config, pool.depth)  # its lanes end where they should
    scores = multiplied(scores, of, pool, config)
    order = best_columns(scores, scores.shape[1])[0, : available[0]]
    ranks = {"keyword": pool.keyword, "vector": pool.vector}
    fused = Fused(pool.chunks[0, order], scores[0, order], tuple(ranks[name][0, order] for name in lanes))
    documents, places = index.document_numbers(fused.chunks), np.arange(len(fused))
    if needs_nearness(config) and silent(of, vector.scores[:1].max(initial=-np.inf, keepdims=True), config)[0]:
        return Search(query, lanes, fused, documents, places[:0], {}, Cut("abstain", 0))
    return Search(query, lanes, fused, documents, places, {}, Cut("none", len(fused)))


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
    lists = _lists(search, search.order, scores)
    order = lists.order if lists.relevance is None else lists.reranked(lists.relevance).order
    return replace(search, order=order[0], relevance=scores)


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
    thin = _lists(search, order, search.relevance).at_most(config.retrieval.per_document)
    lists = thin.above(config.rerank)
    available, at = int(lists.available[0]), int(lists.lengths(config)[0])
    reason = _reason(at, available, available < thin.available[0], config)
    return replace(search, order=lists.order[0, :available], cut=Cut(reason, at))


def _lists(search: Search, order: IntArray, relevance: Mapping[int, float]) -> Lists:
    """Return positions of a search as lists with n = 1."""
    known = np.array([[relevance.get(position, -np.inf) for position in order.tolist()]]) if relevance else None
    scores, documents = search.fused.scores[order], search.documents[order]
    return Lists(order[None], scores[None], np.array([len(order)]), documents[None], known)


def _reason(at: int, available: int, floored: bool, config: RetrievalConfig) -> CutReason:
    """Return why a list ends at `at` of the candidates that are left."""
    top_k = config.retrieval.top_k
    if config.dynamic_k.enabled:
        limit = min(top_k, config.max_results)
        if at < min(limit, available):
            return "gap"
        if limit < top_k and available > limit:
            return "max_results"
    if available > top_k:
        return "top_k"
    return "floor" if floored and available < top_k else "exhausted" if available < top_k else "none"
