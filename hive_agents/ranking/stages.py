"""The stages of a search, one by one, so that a caller can put a permission gate between them.

`retrieve` (lanes and the steps up to abstention), `rerank`, `finish`: the steps are those of `ranking.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import require_short
from hive_agents.documents import terms, words
from hive_agents.index import BM25Params, ChunkNumbers, ChunkRow, Lane, LaneIndex, Mask
from hive_agents.models.embedding import Reranker
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.fusion import Floats, Fused, IntArray, LanePool, joined
from hive_agents.ranking.lift import name_shares
from hive_agents.ranking.pipeline import FINISH, RETRIEVE, RankingState, needs_vectors, run, worded_depth
from hive_agents.ranking.silence import floor_of, is_answered

CutReason = Literal["none", "top_k", "gap", "max_results", "floor", "exhausted", "abstain"]


@dataclass(frozen=True)
class Cut:
    """The reason why the list ends, and its number of hits."""

    reason: CutReason
    at: int


_NO_LANE = Lane(np.empty(0, np.intp), np.empty(0, np.float32))


@dataclass(frozen=True)
class Search:
    """A ranking in progress of one query: all fused candidates, and those that are returned."""

    of: OneQuery
    state: RankingState
    cut: Cut

    @cached_property
    def fused(self) -> Fused:
        keyword, vector = self.state.fused.ranks
        return Fused(self.state.fused.chunks[0], self.state.fused.scores[0], (keyword[0], vector[0]))

    @property
    def order(self) -> NDArray[np.intp]:
        """The positions in `fused`, best first, after the steps so far; none where the search abstains."""
        return self.state.lists.order[0, : 0 if self.cut.reason == "abstain" else self.state.lists.available[0]]

    @cached_property
    def relevance(self) -> dict[int, float]:
        """The reranker's scores, by position in `fused`."""
        lists = self.state.lists
        if lists.relevance is None:
            return {}
        pairs = zip(lists.order[0].tolist(), lists.relevance[0].tolist(), strict=True)
        return {position: relevance for position, relevance in pairs if relevance != -np.inf}

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


def require_words(query: str) -> None:
    """Raise HIVE-409 for a query without words, HIVE-105 for one that is too long."""
    require_short(query)
    if not words(query):
        raise HiveError.of("HIVE-409", "the query has no words", fix="ask with at least one letter or digit")


def admitted(index: LaneIndex, config: RetrievalConfig, within: Mask | None) -> Mask | None:
    """Return the mask of the config's filters and `within`; None means all chunks."""
    mask = index.select(config.conditions, checked=True)
    return within if mask is None else mask if within is None else mask & within


@dataclass(frozen=True)
class OneQuery:
    """One query over an index, with its lanes: n = 1."""

    index: LaneIndex
    text: str
    lanes: Mapping[str, Lane]
    """Those that are fused, no deeper than they should be."""
    first: ChunkNumbers
    """The first chunks of the keyword lane."""
    cosine: float = -np.inf
    """The best one."""
    reranker: Reranker | None = None
    allowed: Callable[[Sequence[str]], Collection[str]] | None = None

    @property
    def floors(self) -> Floats:
        return np.array([floor_of(self.index)])

    def nearest(self, _: RetrievalConfig) -> Floats:
        return np.array([self.cosine])

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: IntArray) -> Floats:
        # Who asks for a draft wants it: a boost of a field of which the query names a value isn't applied.
        named = self.index.named(self.text, boosts)
        return self.index.factors({field: boost for field, boost in boosts.items() if field not in named}, chunks)

    def boilerplate_shares(self, chunks: IntArray) -> Floats:
        return self.index.boilerplate_shares(chunks)

    def name_shares(self, pool: LanePool, params: BM25Params) -> Floats:
        return name_shares(self.index, self.text, pool.chunks[0], params)[None]

    def answered(self, config: RetrievalConfig) -> Mask:
        return np.array([is_answered(self.index, self.text, self.first[: worded_depth(config)], config.bm25.params)])

    def worded(self, config: RetrievalConfig, rows: Mask) -> Mask:
        wanted, rows_read = (
            frozenset(terms(self.text, self.index.language)),
            self.first[: worded_depth(config)].tolist(),
        )
        return rows & (
            rows.any() and any(wanted <= terms_of(row, self.index.language) for row in self.index.rows(rows_read))
        )

    def relevance(self, chunks: IntArray, inside: Mask, config: RetrievalConfig) -> tuple[Floats, None]:
        relevance = np.full(chunks.shape, -np.inf)
        head = self._readable(chunks[0, inside[0]], config.rerank.candidates)
        if head and self.reranker is not None:
            relevance[0, head] = self.reranker.relevance(
                self.text, reranked_texts(self.index, chunks[0, head].tolist())
            )
        return relevance, None

    def _readable(self, chunks: ChunkNumbers, wanted: int) -> list[int]:
        """Return the places of the first chunks that the reranker may read."""
        if self.allowed is None:
            return list(range(len(chunks)))[:wanted]
        selected: list[int] = []
        for start in range(0, len(chunks), wanted):
            documents = self.index.documents_of(chunks[start : start + wanted])
            readable = self.allowed(list(dict.fromkeys(documents)))
            selected += [place for place, doc_id in enumerate(documents, start) if doc_id in readable]
            if len(selected) >= wanted:
                break
        return selected[:wanted]


def fuse(index: LaneIndex, query: str, lanes: Mapping[str, Lane], config: RetrievalConfig) -> Search:
    """Return the fused candidates of ranked lanes; a lane that only abstention needs is not fused."""
    keyword, vector = lanes.get("keyword", _NO_LANE), lanes.get("vector", _NO_LANE)
    used = lanes if config.retrieval.vector else {"keyword": keyword}
    of = OneQuery(index, query, used, keyword.chunks, vector.scores[:1].max(initial=-np.inf))
    pool = joined(*(used.get(name, _NO_LANE).chunks[None] for name in ("keyword", "vector")))
    state = run(RankingState(pool, pool.depth), of, config, RETRIEVE)
    abstains = state.quiet is not None and state.quiet[0]
    return Search(of, state, Cut("abstain", 0) if abstains else Cut("none", int(state.available[0])))


def terms_of(row: ChunkRow, language: str) -> frozenset[str]:
    """Return the terms of a chunk's title, heading and text."""
    return frozenset(terms(f"{row.title}\n{row.heading}\n{row.text}", language))


def reranked_texts(index: LaneIndex, chunks: Sequence[int]) -> list[str]:
    """Return what a reranker reads of each chunk."""
    return [row.text if row.text.strip() else row.title for row in index.rows(chunks)]


def finish(search: Search, config: RetrievalConfig, *, kept: NDArray[np.bool_] | None = None) -> Search:
    """Return the list that is returned: per_document, relevance floor, dynamic-k, top_k.

    `kept` (shape `(len(search.fused),)`, by position in `search.fused`) is True for what a gate let pass: floor and cut
    are those of a search without the other candidates, at the same fused scores.
    """
    if search.cut.reason == "abstain":
        return search
    state = search.state
    if kept is not None:
        state = state._replace(lists=state.lists.only(kept[state.lists.order]))
    state = run(state, search.of, config, FINISH)
    at, available = int(state.lengths[0]), int(state.lists.available[0])
    floored = state.floored is not None and bool(state.floored[0])
    return replace(search, state=state, cut=Cut(_reason(at, available, floored, config), at))


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
