"""The two lanes of every golden query, for any filter and any BM25 parameters, without a search for each.

Each lane is ranked once, deeply and without a filter; a filter drops chunks from that ranking. Only where too few
chunks of a query remain does the index rank it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.access import Principal
from hive_agents.documents import terms
from hive_agents.evaluation import GoldenSet, Scopes
from hive_agents.index import (
    BM25Params,
    BoostKey,
    Condition,
    Mask,
    ScopedIndex,
    SqliteIndex,
    WordBatch,
    boost_key,
    padded,
)
from hive_agents.models.embedding import Recent
from hive_agents.optimizer.budget import SearchBudget
from hive_agents.optimizer.relevance_table import RelevanceTable
from hive_agents.ranking import (
    Floats,
    IntArray,
    RetrievalConfig,
    SearchEngine,
    fusion,
    name_shares,
    pipeline,
    silence,
    stages,
)

MAX_DEPTH = 200
"""Lanes are cached this deep; a config that asks for more candidates is measured by the engine."""

_DEEP = 2000
"""The depth to which lanes are ranked before filters: enough remain even where nine in ten chunks are dropped."""

_LANES = 256

_CHUNKS = 10_000
"""The most chunks whose terms are cached."""

FilterKey = tuple[tuple[str, Condition], ...]


@dataclass
class _Group:
    """The queries of one principal, the index that the principal sees, and its chunks' numbers in the whole index.

    The whole index has `n_chunks` chunks.
    """

    index: SqliteIndex | ScopedIndex
    whole: NDArray[np.intp]
    n_chunks: int
    rows: list[int]
    texts: list[str]
    masks: dict[FilterKey, Mask | None] = field(default_factory=dict)
    factors: Recent[BoostKey, Floats] = field(default_factory=lambda: Recent(_LANES))
    named: dict[str, frozenset[int]] = field(default_factory=dict)

    def keyword(self, params: BM25Params, depth: int) -> IntArray:
        return _renumbered(self._batch.top(params, depth), self.whole)

    def keyword_under(self, key: FilterKey, params: BM25Params, rows: Sequence[int]) -> IntArray:
        """Return the lane of some queries under a filter, to `MAX_DEPTH`."""
        return _renumbered(self._batch.top(params, MAX_DEPTH, only=rows, mask=self.mask(key)), self.whole)

    def vector_under(self, key: FilterKey, rows: Sequence[int]) -> _Ranked:
        """As `keyword_under`, by cosine."""
        return _cosines(self, [self.texts[row] for row in rows], MAX_DEPTH, self.mask(key))

    @cached_property
    def _batch(self) -> WordBatch:
        return self.index.keyword_batch(self.texts)

    def mask(self, key: FilterKey) -> Mask | None:
        """Return the chunks that pass, in the numbers of `index`."""
        if key not in self.masks:
            self.masks[key] = self.index.select(dict(key), checked=True)
        return self.masks[key]

    def passing(self, key: FilterKey) -> Mask:
        """Return the chunks that pass, in the numbers of the whole index."""
        passing, mask = np.zeros(self.n_chunks, np.bool_), self.mask(key)
        passing[self.whole if mask is None else self.whole[mask]] = True
        return passing

    def name_shares(self, row: int, chunks: IntArray, params: BM25Params) -> Floats:
        """Return the names' shares of chunks, by number in the whole index, for one query; 0 behind the last."""
        shares, there = np.zeros(len(chunks)), chunks >= 0
        numbers = np.searchsorted(self.whole, chunks[there])
        shares[there] = name_shares(self.index, self.texts[row], numbers, params.matching)  # nothing is read anew
        return shares

    def answered(self, row: int, first: IntArray, params: BM25Params) -> bool:
        """Return `is_answered` of one query; `first` are numbers in the whole index, -1 behind the last."""
        numbers = np.searchsorted(self.whole, first[first >= 0])
        return silence.is_answered(self.index, self.texts[row], numbers, params.matching)

    def naming(self, name: str) -> frozenset[int]:
        """Return the places of the queries that name a value of a field."""
        if name not in self.named:
            places = enumerate(self.texts)
            self.named[name] = frozenset(place for place, text in places if self.index.named(text, (name,)))
        return self.named[name]

    @cached_property
    def boilerplate_shares(self) -> Floats:
        """Each chunk's share of boilerplate, by number in the whole index; 0 for hidden chunks."""
        shares = np.zeros(self.n_chunks)
        shares[self.whole] = self.index.boilerplate_shares(np.arange(len(self.whole)))
        return shares

    def factors_of(self, boosts: Mapping[str, Mapping[str, float]]) -> Floats:
        """Return each chunk's factor, by number in the whole index; 1 for hidden chunks."""

        def computed() -> Floats:
            factors = np.ones(self.n_chunks)
            factors[self.whole] = self.index.factors(boosts, np.arange(len(self.whole)))
            return factors

        return self.factors.get(boost_key(boosts), computed)


@dataclass(frozen=True)
class _Ranked:
    """The vector lane of some queries, -1 after the end; `scores` are cosines."""

    chunks: IntArray
    scores: Floats


class CachedLanes:
    """The `Queries` of one golden set over one index, with their rankings; rows are in the golden set's order.

    Not for several threads.
    """

    def __init__(
        self,
        engine: SearchEngine,
        golden: GoldenSet,
        reader: Principal | None,
        shares: int,
        budget: SearchBudget | None,
    ) -> None:
        """`shares` is the number of pools whose names' shares are kept; requests of a reranker ask `budget` first."""
        self.index = engine.index(golden.collection)
        self._n, self._budget = len(golden), budget
        self._relevance = RelevanceTable(engine, self.index, golden.texts)
        self._groups = _groups(self.index, golden, Scopes(engine.workspace, reader))
        places = {row: (group, place) for group in self._groups for place, row in enumerate(group.rows)}
        self._places = [places[row] for row in range(self._n)]
        self._deep_keyword: Recent[tuple[BM25Params, int], list[IntArray]] = Recent(_LANES)
        self._deep_vector: list[_Ranked] | None = None
        self._keyword: Recent[tuple[FilterKey, BM25Params], IntArray] = Recent(_LANES)
        self._vector: Recent[FilterKey, tuple[IntArray, Floats]] = Recent(_LANES)
        self._lifts: Recent[fusion.LanePool, Floats] = Recent(shares)
        self._answered: Recent[tuple[FilterKey, BM25Params, int], Mask] = Recent(_LANES)
        self._chunk_terms: Recent[int, frozenset[str]] = Recent(_CHUNKS)
        self._query_terms = [frozenset(terms(text, self.index.language)) for text in golden.texts]

    @property
    def vectors(self) -> bool:
        return self.index.embedding_model is not None

    def keyword(self, key: FilterKey, params: BM25Params) -> IntArray:
        """Return the chunks of the keyword lane, shape `(n, MAX_DEPTH)`, -1 after the end."""
        return self._keyword.get((key, params), lambda: self._ranked_keyword(key, params))

    def vector(self, key: FilterKey) -> tuple[IntArray, Floats]:
        """Return the chunks of the vector lane, and each query's best cosine, -inf for an empty lane."""
        return self._vector.get(key, lambda: self._ranked_vector(key))

    def nearest(self, config: RetrievalConfig) -> Floats:
        return self.vector(filter_key(config))[1]

    def relevance(self, chunks: IntArray, inside: Mask, config: RetrievalConfig) -> tuple[Floats, Floats]:
        first = inside & (np.arange(chunks.shape[1]) < config.rerank.candidates)
        return self._relevance.of(chunks, first, self._budget)

    def factors(self, boosts: Mapping[str, Mapping[str, float]], chunks: IntArray) -> Floats:
        """Return the boosts' factor of each chunk in the scope of its row's query, in the shape of `chunks`.

        A query that names a value of a field has none of its boost.
        """
        factors = np.ones(chunks.shape)
        if len(self._groups) == 1 and not any(map(self._groups[0].naming, boosts)):  # its rows are all rows, in order
            np.take(self._groups[0].factors_of(boosts), chunks, out=factors, mode="wrap")
            return factors
        for group in self._groups:
            for name, boost in boosts.items():
                naming = group.naming(name)
                rows = [row for place, row in enumerate(group.rows) if place not in naming]
                factors[rows] *= np.take(group.factors_of({name: boost}), chunks[rows])
        return factors

    def boilerplate_shares(self, chunks: IntArray) -> Floats:
        shares = np.zeros(chunks.shape)
        for group in self._groups:
            shares[group.rows] = np.take(group.boilerplate_shares, chunks[group.rows])
        return shares

    def name_shares(self, pool: fusion.LanePool, params: BM25Params) -> Floats:
        def computed() -> Floats:
            rows = zip(self._places, pool.chunks, strict=True)
            return np.array([group.name_shares(place, chunks, params) for (group, place), chunks in rows])

        return self._lifts.get(pool, computed)

    def answered(self, config: RetrievalConfig) -> Mask:
        params, lane = config.bm25.params, self._first_by_words(config)

        def computed() -> Mask:
            rows = zip(self._places, lane, strict=True)
            return np.array([group.answered(place, first, params) for (group, place), first in rows])

        return self._answered.get((filter_key(config), params, lane.shape[1]), computed)

    def worded(self, config: RetrievalConfig, rows: Mask) -> Mask:
        lane, worded = self._first_by_words(config), np.zeros(self._n, np.bool_)
        for row in rows.nonzero()[0].tolist():
            chunks = (chunk for chunk in lane[row].tolist() if chunk >= 0)
            worded[row] = any(self._query_terms[row] <= self._terms_of(chunk) for chunk in chunks)
        return worded

    def _first_by_words(self, config: RetrievalConfig) -> IntArray:
        depth = pipeline.worded_depth(config) if config.retrieval.keyword else 0
        return self.keyword(filter_key(config), config.bm25.params)[:, :depth]

    def _terms_of(self, chunk: int) -> frozenset[str]:
        return self._chunk_terms.get(chunk, lambda: stages.terms_of(self.index.rows([chunk])[0], self.index.language))

    @cached_property
    def floors(self) -> Floats:
        floors = np.empty(self._n)
        for group in self._groups:
            floors[group.rows] = silence.floor_of(group.index)
        return floors

    def _ranked_keyword(self, key: FilterKey, params: BM25Params) -> IntArray:
        lanes = np.full((self._n, MAX_DEPTH), -1, np.int64)
        depth = _DEEP if key else MAX_DEPTH
        deep = self._deep_keyword.get((params, depth), lambda: [one.keyword(params, depth) for one in self._groups])
        for group, chunks in zip(self._groups, deep, strict=True):
            passes = self._passing(group, key, chunks)
            lanes[group.rows] = _first(chunks, passes)
            if short := _short(chunks, passes):
                under = group.keyword_under(key, params, short)
                lanes[[group.rows[row] for row in short]] = _first(under, under >= 0)
        return lanes

    def _ranked_vector(self, key: FilterKey) -> tuple[IntArray, Floats]:
        lanes, best = np.full((self._n, MAX_DEPTH), -1, np.int64), np.full(self._n, -np.inf)
        if self._deep_vector is None:
            self.index.learn([text for group in self._groups for text in group.texts])
            ranked = (_cosines(group, group.texts, _DEEP, None) for group in self._groups)
            self._deep_vector = list(ranked) if self.vectors else []
        for group, deep in zip(self._groups, self._deep_vector, strict=False):
            passes = self._passing(group, key, deep.chunks)
            lanes[group.rows] = _first(deep.chunks, passes)
            best[group.rows] = np.where(passes, deep.scores, -np.inf).max(axis=1)
            if short := _short(deep.chunks, passes):
                under, rows = group.vector_under(key, short), [group.rows[row] for row in short]
                lanes[rows], best[rows] = _first(under.chunks, under.chunks >= 0), under.scores[:, 0]
        return lanes, best

    def _passing(self, group: _Group, key: FilterKey, chunks: IntArray) -> Mask:
        passes: Mask = chunks >= 0
        return passes & group.passing(key)[chunks] if key else passes


def filter_key(config: RetrievalConfig) -> FilterKey:
    return tuple(sorted(config.conditions.items()))


def _first(chunks: IntArray, passes: Mask) -> IntArray:
    """Return the first `MAX_DEPTH` numbers of each row that pass, -1 after them."""
    counts = np.count_nonzero(passes, axis=1)
    if counts.max(initial=0) > MAX_DEPTH:
        passes = passes & (passes.cumsum(axis=1, dtype=np.int32) <= MAX_DEPTH)
    lanes = np.full((len(chunks), MAX_DEPTH), -1, np.int64)
    lanes[np.arange(MAX_DEPTH) < counts[:, None]] = chunks[passes]
    return lanes


def _short(chunks: IntArray, passes: Mask) -> list[int]:
    """Return the rows with fewer than `MAX_DEPTH` passing chunks whose deep ranking was cut off."""
    if chunks.shape[1] < _DEEP:
        return []
    short: list[int] = ((passes.sum(axis=1) < MAX_DEPTH) & (chunks[:, -1] >= 0)).nonzero()[0].tolist()
    return short


def _groups(index: SqliteIndex, golden: GoldenSet, scopes: Scopes) -> list[_Group]:
    rows: dict[str | None, list[int]] = {}
    for row, query in enumerate(golden):
        rows.setdefault(query.principal, []).append(row)
    groups = []
    for principal, numbers in rows.items():
        scoped = scopes.of(index, principal)
        whole = scoped.whole_numbers if isinstance(scoped, ScopedIndex) else np.arange(index.n_chunks)
        texts = [golden.texts[row] for row in numbers]
        groups.append(_Group(scoped, whole, index.n_chunks, numbers, texts))
    return groups


def _cosines(group: _Group, texts: Sequence[str], depth: int, mask: Mask | None) -> _Ranked:
    lanes = group.index.vector(texts, depth, mask)
    chunks = padded([lane.chunks.astype(np.int64) for lane in lanes])
    scores = np.full(chunks.shape, -np.inf)
    for row, lane in enumerate(lanes):
        scores[row, : len(lane.scores)] = lane.scores
    return _Ranked(_renumbered(chunks, group.whole), scores)


def _renumbered(chunks: IntArray, numbers: Sequence[int] | NDArray[np.intp]) -> IntArray:
    if not len(numbers):
        return np.full(chunks.shape, -1, np.int64)
    whole: IntArray = np.where(chunks >= 0, np.asarray(numbers)[chunks], -1)
    return whole
