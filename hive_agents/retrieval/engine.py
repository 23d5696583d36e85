"""The door of retrieval: a query and a config give a ranking.

Stages, in this order: lanes, RRF, rerank, relevance floor, dynamic-k, top_k.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hive_agents import formats
from hive_agents.errors import HiveError
from hive_agents.retrieval.analysis import words
from hive_agents.retrieval.bm25 import BM25Params
from hive_agents.retrieval.collection import load_collection
from hive_agents.retrieval.config import RetrievalConfig, find_config
from hive_agents.retrieval.cutoff import dynamic_k
from hive_agents.retrieval.deployed import active_config
from hive_agents.retrieval.distraction import disagreement
from hive_agents.retrieval.excerpts import excerpt
from hive_agents.retrieval.fusion import Fused, lane_weights, rrf
from hive_agents.retrieval.generation import State
from hive_agents.retrieval.index import SqliteIndex, StaleIndex
from hive_agents.retrieval.lanes import ChunkNumbers, Lane, LaneIndex, Mask
from hive_agents.retrieval.providers import open_reranker
from hive_agents.retrieval.ranking import Cut, CutReason, Hit, Ranking
from hive_agents.retrieval.rerank import Reranker
from hive_agents.workspace import Workspace

T = TypeVar("T")
ConfigLike = str | Mapping[str, Any] | RetrievalConfig | None


@dataclass(frozen=True)
class Search:
    """A ranking before it is shown: all fused candidates, and which of them are returned."""

    query: str
    lanes: dict[str, Lane]
    fused: Fused
    order: NDArray[np.intp]  # positions in `fused`, after rerank and floor, best first
    relevance: dict[int, float]  # by position in `fused`
    cut: Cut

    @property
    def returned(self) -> ChunkNumbers:
        return self.fused.chunks[self.order[: self.cut.at]]


class SearchEngine:
    """Searches a workspace's index; cheap to open, safe to share between threads."""

    def __init__(self, workspace: Workspace, reranker: Reranker | None = None, *, state: State = "live") -> None:
        self.workspace = workspace
        self.reranker = reranker
        self._state = state
        self._indexes: dict[str, SqliteIndex] = {}
        self._lock = threading.Lock()

    @cached_property
    def _configured_reranker(self) -> Reranker | None:
        return open_reranker(self.workspace.settings.models)

    def search(self, query: str, config: ConfigLike = None) -> Ranking:
        """The ranking of one query. `config` is a name, a dict or a `RetrievalConfig`; None means the active one.

        Raises: HIVE-409 for a query without words, HIVE-401 without a model, 206 to 208 for filters,
        HIVE-406 before the first `index()`.
        """
        return self.search_many([query], config)[0]

    def search_many(self, queries: Sequence[str], config: ConfigLike = None) -> list[Ranking]:
        """One ranking a query, in order; the vector lane is computed as one batch."""
        chosen = self.resolve(config)

        def show(index: SqliteIndex) -> list[Ranking]:
            return [_show(index, search, chosen) for search in self.run_on(index, queries, chosen)]

        return self.with_index(chosen.collection, show)

    def run(self, queries: Sequence[str], config: RetrievalConfig) -> list[Search]:
        """As `search_many`, without the look-ups that only a reader needs."""
        return self.with_index(config.collection, lambda index: self.run_on(index, queries, config))

    def index(self, collection: str) -> SqliteIndex:
        """The index of a collection as it stands now; it stays open until it is replaced."""
        with self._lock:
            index = self._indexes.get(collection)
            if index is None or not index.is_live():
                index = SqliteIndex(self.workspace, load_collection(self.workspace, collection), self._state)
                self._indexes[collection] = index
            return index

    def resolve(self, config: ConfigLike) -> RetrievalConfig:
        if isinstance(config, RetrievalConfig):
            return config
        if config is None or config == "active":
            return active_config(self.workspace).stored.config
        if isinstance(config, str):
            return find_config(self.workspace, config).config
        return formats.load_value(RetrievalConfig, dict(config), "config")

    def with_index(self, collection: str, work: Callable[[SqliteIndex], T]) -> T:
        """What `work` makes of one state of the index; done again where the index is replaced meanwhile."""
        for _ in range(5):
            with suppress(StaleIndex):
                return work(self.index(collection))
        raise HiveError.of(
            "HIVE-402", "the index keeps changing under the search", fix="try again when indexing is done"
        )

    def run_on(self, index: SqliteIndex, queries: Sequence[str], config: RetrievalConfig) -> list[Search]:
        """As `run`, on an index that `with_index` gave."""
        if not queries:
            return []
        for query in queries:
            if not words(query):
                raise HiveError.of("HIVE-409", "the query has no words", fix="ask with at least one letter or digit")
        mask = index.select(config.conditions)
        depth = config.retrieval.candidates
        params = BM25Params(config.bm25.k1, config.bm25.b, config.bm25.title_boost)
        by_query: list[dict[str, Lane]] = [{} for _ in queries]
        if config.retrieval.keyword:
            for lanes, query in zip(by_query, queries, strict=True):
                lanes["keyword"] = index.keyword(query, depth, params, mask)
        min_cosine = config.abstain.min_cosine
        if config.retrieval.vector or min_cosine is not None:
            vector = index.vector(queries, depth if config.retrieval.vector else 1, mask)
            for lanes, lane in zip(by_query, vector, strict=True):
                lanes["vector"] = lane
        return [self._rank(index, query, lanes, config) for query, lanes in zip(queries, by_query, strict=True)]

    def _rank(self, index: LaneIndex, query: str, lanes: dict[str, Lane], config: RetrievalConfig) -> Search:
        min_cosine = config.abstain.min_cosine
        best_cosine = lanes["vector"].scores[:1].tolist() if min_cosine is not None else []
        if not config.retrieval.vector:
            lanes = {"keyword": lanes["keyword"]}
        weights = lane_weights(config.retrieval.keyword, config.retrieval.vector, config.retrieval.weights.model_dump())
        fused = rrf(list(lanes.values()), weights, config.retrieval.rrf_k)
        order: NDArray[np.intp] = np.arange(len(fused))
        relevance: dict[int, float] = {}
        if min_cosine is not None and not (best_cosine and best_cosine[0] >= min_cosine):
            return Search(query, lanes, fused, order[:0], {}, Cut("abstain", 0))
        if config.rerank.enabled:
            order, relevance = self._rerank(index, query, fused, config)
        kept = len(order)
        if config.rerank.enabled and config.rerank.floor is not None:
            floor = config.rerank.floor
            order = np.array([p for p in order.tolist() if relevance.get(p, floor) >= floor], np.intp)
        floored = len(order) < kept
        cut = _cut(fused.scores[np.sort(order)], floored, weights, config)
        return Search(query, lanes, fused, order, relevance, cut)

    def _rerank(
        self, index: LaneIndex, query: str, fused: Fused, config: RetrievalConfig
    ) -> tuple[NDArray[np.intp], dict[int, float]]:
        reranker = self.reranker or self._configured_reranker
        if reranker is None:
            raise HiveError.of(
                "HIVE-214",
                "the config reranks, and no reranker is configured",
                path="rerank.enabled",
                fix="set models.reranker in hive.toml, or disable rerank",
            )
        head = min(len(fused), config.rerank.candidates)
        texts = [row.text if row.text.strip() else row.title for row in index.rows(fused.chunks[:head].tolist())]
        scores = reranker.relevance(query, texts) if texts else []
        best = sorted(range(head), key=lambda position: (-scores[position], position))
        return np.array([*best, *range(head, len(fused))], np.intp), dict(enumerate(scores))


def _cut(scores: NDArray[np.float64], floored: bool, weights: Sequence[float], config: RetrievalConfig) -> Cut:
    """How many of the candidates to return; `scores` are the fused ones of what is left, best first."""
    top_k, available = config.retrieval.top_k, len(scores)
    reason: CutReason
    if config.dynamic_k.enabled:
        limit = min(top_k, config.max_results)
        at = dynamic_k(
            scores[:limit].tolist(),
            config.dynamic_k.gap_threshold_factor,
            config.dynamic_k.min_results,
            limit,
            weights=weights,
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


def _show(index: SqliteIndex, search: Search, config: RetrievalConfig) -> Ranking:
    chunks = search.returned.tolist()
    rows = index.rows(chunks)
    positions = search.order[: search.cut.at].tolist()
    scores = {
        name: dict(zip(lane.chunks.tolist(), lane.scores.tolist(), strict=True)) for name, lane in search.lanes.items()
    }
    ranks = dict(zip(search.lanes, search.fused.ranks, strict=True))
    detection = config.distraction_detection
    hits = []
    for rank, (position, chunk, row) in enumerate(zip(positions, chunks, rows, strict=True), start=1):
        keyword, vector = (
            int(ranks[name][position]) or None if name in ranks else None for name in ("keyword", "vector")
        )
        apart = disagreement(keyword, vector, config.retrieval.candidates) if len(ranks) == 2 else None
        hits.append(
            Hit(
                rank=rank,
                doc_id=row.doc_id,
                chunk_id=row.chunk_id,
                title=row.title,
                heading=row.heading,
                excerpt=excerpt(row.text, search.query, language=index.language) or row.title,
                score=float(search.fused.scores[position]),
                bm25_rank=keyword,
                vector_rank=vector,
                bm25_score=scores.get("keyword", {}).get(chunk),
                vector_score=scores.get("vector", {}).get(chunk),
                disagreement=apart,
                flagged=detection.enabled and apart is not None and apart > detection.disagreement_threshold,
                relevance=search.relevance.get(position),
                metadata=row.metadata,
            )
        )
    return Ranking(search.query, config.name, hits, search.cut)


__all__ = ["ConfigLike", "Mask", "Search", "SearchEngine"]
