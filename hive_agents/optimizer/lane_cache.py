"""Evaluate a config without searching: fuse, cut and score rankings that were computed once.

A lane's ranking depends on filters and, for BM25, on its parameters; everything behind it (weights,
rrf_k, candidates, dynamic-k, top_k, abstention) is arithmetic over ranks, done here for all queries at
once. The result equals the engine's bit for bit.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.evaluation.golden import GoldenSet
from hive_agents.evaluation.metrics.discounts import discount, ideal_dcg
from hive_agents.evaluation.scopes import Scopes
from hive_agents.optimizer.budget import Budget
from hive_agents.retrieval import RetrievalConfig, ScopedIndex, SearchEngine
from hive_agents.retrieval.bm25 import BM25Params
from hive_agents.retrieval.filters import Condition
from hive_agents.retrieval.fusion import lane_weights, rank_step, rrf_scores
from hive_agents.retrieval.lanes import LaneIndex

MAX_DEPTH = 200
"""Lanes are cached this deep; a config that asks for more candidates is measured by the engine."""

_POOLS = 64
_LANES = 256

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FilterKey = tuple[tuple[str, Condition], ...]

_NOTHING = np.empty(0, np.intp)


@dataclass(frozen=True)
class Scores:
    """Per query, shape `(n,)`, in the golden set's order."""

    nudcg: Floats
    distractors: Floats
    results: Ints


@dataclass(frozen=True)
class _Pool:
    """The union of both lanes, a row a query, columns by ascending chunk number; rank 0 means absent."""

    chunks: Ints
    documents: Ints
    labels: NDArray[np.int8]
    keyword: Ints
    vector: Ints
    best_cosine: Floats


@dataclass(frozen=True)
class Ranked:
    """The first results of every query, shape `(n, depth)`; what lies behind `returned` is not part of the list."""

    documents: Ints
    labels: NDArray[np.int8]
    keyword: Ints
    vector: Ints
    returned: Ints


class LaneCache:
    """Cached lanes of one golden set over one index. Not safe to share between threads.

    Every config measured is one evaluation of `budget`.
    """

    def __init__(self, engine: SearchEngine, golden: GoldenSet, *, budget: Budget | None = None) -> None:
        self.golden = golden
        self.budget = budget
        self._index = engine.index(golden.collection)
        self._scopes = self._rows_by_scope(Scopes(engine.workspace))
        self._vectors = self._index.embedding_model is not None
        self._doc_numbers = {doc_id: number for number, doc_id in enumerate(self._index.doc_ids())}
        self._keyword_lanes: OrderedDict[tuple[FilterKey, BM25Params], Ints] = OrderedDict()
        self._vector_lanes: OrderedDict[FilterKey, tuple[Ints, Floats]] = OrderedDict()
        self._pools: OrderedDict[tuple[FilterKey, BM25Params], _Pool] = OrderedDict()

    def evaluate(self, config: RetrievalConfig) -> Scores:
        """Per-query scores. Raises: `BudgetExhausted`."""
        if self.budget is not None:
            self.budget.spend()
        if not len(self.golden):
            return Scores(np.empty(0), np.empty(0), np.empty(0, np.int64))
        ranked = self.rank(config)
        k = self.golden.k
        labels, documents = ranked.labels[:, :k], ranked.documents[:, :k]
        inside = np.arange(labels.shape[1])[None, :] < ranked.returned[:, None]
        counted = np.where(inside & ~_repeats(documents), labels, 0)
        gained = np.zeros(len(labels))
        for column in range(labels.shape[1]):  # in order of rank, as the metric adds up
            gained += counted[:, column] * discount(column + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = np.where(self._ideal > 0, gained / self._ideal, np.where(ranked.returned > 0, gained, 1.0))
        return Scores(scores, (counted < 0).sum(axis=1).astype(np.float64), np.minimum(ranked.returned, k))

    def distractors_returned(self, config: RetrievalConfig) -> list[str]:
        """The doc_id of every distractor within k, once for each query that gets it."""
        names = self._index.doc_ids()
        found: list[str] = []
        ranked = self.rank(config)
        for documents, labels, returned in zip(ranked.documents, ranked.labels, ranked.returned.tolist(), strict=True):
            upto = min(returned, self.golden.k)
            found += [names[number] for number in dict.fromkeys(documents[:upto][labels[:upto] < 0].tolist())]
        return found

    def rank(self, config: RetrievalConfig, depth: int | None = None) -> Ranked:
        """Every query's fused ranking, cut as the config says; `depth` columns or more where there are as many."""
        if config.retrieval.candidates > MAX_DEPTH:
            raise ValueError(f"candidates over {MAX_DEPTH} are not cached")
        pool = self._pool(config)
        retrieval = config.retrieval
        weights = lane_weights(retrieval.keyword, retrieval.vector, retrieval.weights.model_dump())
        lanes = ([pool.keyword] if retrieval.keyword else []) + ([pool.vector] if retrieval.vector else [])
        ranks = [np.where(lane <= retrieval.candidates, lane, 0) for lane in lanes]
        scores = rrf_scores(ranks, weights, retrieval.rrf_k)
        candidate = np.logical_or.reduce([rank > 0 for rank in ranks])
        # Absent chunks go behind everything; a stable sort leaves ties by chunk number.
        keys = np.where(candidate, -scores, np.inf)
        wanted = max(retrieval.top_k, self.golden.k, depth or 0)
        order = np.argsort(keys, axis=1, kind="stable")[:, :wanted]
        available = candidate.sum(axis=1)
        top = np.take_along_axis(scores, order, axis=1)
        returned = np.minimum(available, retrieval.top_k)
        if config.dynamic_k.enabled:
            returned = _dynamic_k(top, available, weights, config)
        if config.abstain.min_cosine is not None:
            returned = np.where(pool.best_cosine >= config.abstain.min_cosine, returned, 0)
        return Ranked(
            np.take_along_axis(pool.documents, order, axis=1),
            np.take_along_axis(pool.labels, order, axis=1),
            np.take_along_axis(pool.keyword, order, axis=1),
            np.take_along_axis(pool.vector, order, axis=1),
            returned,
        )

    @cached_property
    def _ideal(self) -> Floats:
        return np.array([ideal_dcg(len(query.relevant), self.golden.k) for query in self.golden])

    def number_of(self, doc_id: str) -> int:
        """The document number that `Ranked.documents` uses; -2 for a document that isn't indexed."""
        return self._doc_numbers.get(doc_id, -2)

    @property
    def best_cosines(self) -> Floats:
        """The best cosine of each query over all documents."""
        return self._vector_lane(())[1]

    def _pool(self, config: RetrievalConfig) -> _Pool:
        key: FilterKey = tuple(sorted(config.conditions.items()))
        params = BM25Params(config.bm25.k1, config.bm25.b, config.bm25.title_boost)
        pool = self._pools.get((key, params))
        if pool is None:
            pool = self._pools[(key, params)] = self._join(key, params)
            if len(self._pools) > _POOLS:
                self._pools.popitem(last=False)
        self._pools.move_to_end((key, params))
        return pool

    def _join(self, key: FilterKey, params: BM25Params) -> _Pool:
        keyword = self._keyword_lane(key, params)
        vector, best = self._vector_lane(key)
        n = len(self.golden)
        both = np.sort(np.concatenate([keyword, vector], axis=1), axis=1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = -1
        both = np.sort(np.where(both < 0, np.iinfo(np.int64).max, both), axis=1)
        present = both != np.iinfo(np.int64).max
        width = int(present.sum(axis=1).max(initial=1))
        chunks = np.where(present, both, -1)[:, :width]
        ranks = []
        for lane in (keyword, vector):
            rank = np.zeros((n, width), np.int64)
            for row in range(n):
                mine = lane[row][lane[row] >= 0]
                valid = chunks[row][: int(present[row].sum())]
                rank[row, np.searchsorted(valid, mine)] = np.arange(1, len(mine) + 1)
            ranks.append(rank)
        documents = np.where(chunks >= 0, self._index.document_numbers(np.maximum(chunks, 0)), -1)
        labels = np.zeros((n, width), np.int8)
        for row, query in enumerate(self.golden):
            for doc_id, label in query.qrels.items():
                if label:
                    labels[row, documents[row] == self._doc_numbers.get(doc_id, -2)] = label
        return _Pool(chunks, documents, labels, ranks[0], ranks[1], best)

    def _rows_by_scope(self, scopes: Scopes) -> list[tuple[LaneIndex, NDArray[np.intp], list[int]]]:
        """Each index that queries are measured on, the numbers of its chunks in the whole one, and their rows."""
        rows: dict[str | None, list[int]] = {}
        for row, query in enumerate(self.golden):
            rows.setdefault(query.principal, []).append(row)
        found = [(scopes.of(self._index, principal), own) for principal, own in rows.items()]
        whole = np.arange(self._index.n_chunks)
        return [(index, index.whole_numbers if isinstance(index, ScopedIndex) else whole, own) for index, own in found]

    def _keyword_lane(self, key: FilterKey, params: BM25Params) -> Ints:
        lane = self._keyword_lanes.get((key, params))
        if lane is None:
            found = [_NOTHING] * len(self.golden)
            for index, numbers, rows in self._scopes:
                mask = index.select(dict(key), checked=True)
                for row in rows:
                    found[row] = numbers[index.keyword(self.golden.texts[row], MAX_DEPTH, params, mask).chunks]
            lane = self._keyword_lanes[(key, params)] = _padded(found)
            if len(self._keyword_lanes) > _LANES:
                self._keyword_lanes.popitem(last=False)
        return lane

    def _vector_lane(self, key: FilterKey) -> tuple[Ints, Floats]:
        found, best = [_NOTHING] * len(self.golden), np.full(len(self.golden), -np.inf)
        if not self._vectors or not len(self.golden):
            return _padded(found), best
        lane = self._vector_lanes.get(key)
        if lane is None:
            for index, numbers, rows in self._scopes:
                mask = index.select(dict(key), checked=True)
                lanes = index.vector([self.golden.texts[row] for row in rows], MAX_DEPTH, mask)
                for row, one in zip(rows, lanes, strict=True):
                    found[row] = numbers[one.chunks]
                    best[row] = one.scores[0] if len(one.scores) else -np.inf
            lane = self._vector_lanes[key] = (_padded(found), best)
            if len(self._vector_lanes) > _LANES:
                self._vector_lanes.popitem(last=False)
        return lane


def _padded(lanes: list[NDArray[np.intp]]) -> Ints:
    width = max((len(lane) for lane in lanes), default=0)
    padded = np.full((len(lanes), max(width, 1)), -1, np.int64)
    for row, lane in enumerate(lanes):
        padded[row, : len(lane)] = lane
    return padded


def _repeats(documents: Ints) -> NDArray[np.bool_]:
    """True where the same document stands further left."""
    again = np.zeros(documents.shape, np.bool_)
    for column in range(1, documents.shape[1]):
        again[:, column] = (documents[:, :column] == documents[:, column : column + 1]).any(axis=1)
    return again


def _dynamic_k(top: Floats, available: Ints, weights: list[float], config: RetrievalConfig) -> Ints:
    """`cutoff.dynamic_k` for every row, with the same operations in the same order."""
    settings = config.dynamic_k
    limit = min(config.retrieval.top_k, config.max_results)
    upto = np.minimum(available, limit)
    returned = upto.copy()
    open_rows = np.ones(len(top), np.bool_)
    total = np.zeros(len(top))
    for rank in range(2, min(limit, top.shape[1]) + 1):
        gap = top[:, rank - 2] - top[:, rank - 1]
        if rank > 2 and rank > settings.min_results:
            mean = np.maximum(total / (rank - 2), rank_step(rank, weights, config.retrieval.rrf_k))
            stops = open_rows & (rank <= upto) & (gap > settings.gap_threshold_factor * mean)
            returned[stops] = rank - 1
            open_rows &= ~stops
        total = total + np.where(rank <= upto, gap, 0.0)
    return returned
