"""Evaluate a config without searching: fuse, cut and score rankings that were computed once.

A lane's ranking depends on filters and, for BM25, on its parameters; everything behind it (weights, rrf_k,
candidates, boosts, per_document, dynamic-k, top_k, abstention) is arithmetic over ranks, done here for all queries
at once; a reranker is asked once for each query and chunk. The result equals the engine's bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from hive_agents.evaluation import GoldenSet
from hive_agents.evaluation.metrics import discount, ideal_dcg
from hive_agents.optimizer.budget import SearchBudget
from hive_agents.optimizer.cached_lanes import MAX_DEPTH, CachedLanes, FilterKey, Floats, IntArray
from hive_agents.optimizer.fused_lists import (
    FusedLists,
    FusedScores,
    LanePool,
    best_columns,
    dynamic_k_of_each,
    fused_scores,
    joined,
)
from hive_agents.optimizer.relevance_table import RelevanceTable
from hive_agents.retrieval import (
    BM25Params,
    Recent,
    RetrievalConfig,
    SearchEngine,
    boost_key,
    has_all_words,
    multipliers,
    worded_depth,
)

_POOLS, _PLAIN, _FUSED, _SCORES = 256, 64, 256, 1024
"""How many are remembered: two sweeps' worth. Forgetting one that the next sweep needs costs more than all else."""
_CELLS = 16_000_000
"""With many queries fewer pools are remembered: no more than have so many cells."""

_PREFIX, _THINNED_PREFIX = 16, 48
"""So many places of a fused list are kept in order: enough for every list that is scored, mostly; more where chunks
of a document are dropped."""

_PoolKey = tuple[FilterKey, BM25Params, int, int]


@dataclass(frozen=True)
class Scores:
    """Per query, shape `(n,)`, in the golden set's order."""

    nudcg: Floats
    distractors: Floats
    results: IntArray
    rerank_seconds: Floats
    """What reranking took when it was paid for, 0 where nothing is reranked."""


@dataclass(frozen=True)
class Ranked:
    """The first results of every query, shape `(n, depth)`; what lies behind `returned` is not part of the list."""

    documents: IntArray
    labels: NDArray[np.int8]
    keyword: IntArray
    vector: IntArray
    returned: IntArray


class LaneCache:
    """Cached lanes of one golden set over one index. Not safe to share between threads.

    Every config measured is one evaluation of `budget`.
    """

    def __init__(
        self,
        engine: SearchEngine,
        golden: GoldenSet,
        *,
        budget: SearchBudget | None = None,
        lanes: CachedLanes | None = None,
    ) -> None:
        """`lanes` are those of a golden set that begins with the queries of this one."""
        self.golden = golden
        self.budget = budget
        self.lanes = lanes or CachedLanes(engine, golden)
        self._index = self.lanes.index
        self._relevance = RelevanceTable(engine, self._index, golden.texts)
        self._doc_numbers = {doc_id: number for number, doc_id in enumerate(self.doc_ids)}
        most = max(8, _CELLS // (2 * MAX_DEPTH * max(1, len(golden))))
        self._pools: Recent[_PoolKey, LanePool] = Recent(min(_POOLS, most))
        self._plain: Recent[tuple[_PoolKey, object], FusedScores] = Recent(min(_PLAIN, most))
        self._fused: Recent[tuple[object, ...], FusedLists] = Recent(_FUSED)
        self._scores: Recent[tuple[object, ...], Scores] = Recent(_SCORES)
        self._all_words: Recent[tuple[int, tuple[int, ...]], bool] = Recent(_SCORES * max(1, len(golden)))

    def evaluate(self, config: RetrievalConfig) -> Scores:
        """Return the scores of each query. Raises: `SearchBudgetExhausted`."""
        if self.budget is not None:
            self.budget.spend()
        if not len(self.golden):
            return Scores(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0))
        retrieval, dynamic = config.retrieval, config.dynamic_k
        abstain = (config.abstain.min_cosine, config.abstain.unless_all_words)
        cut = (retrieval.top_k, retrieval.per_document, *abstain)
        cliff = (dynamic.gap_threshold_factor, dynamic.min_results, config.max_results) if dynamic.enabled else ()
        key = (self._used(config), _fusion(config), _weighing(config), _reranking(config), *cut, *cliff)
        return self._scores.get(key, lambda: self._scored(config))

    def _scored(self, config: RetrievalConfig) -> Scores:
        k = self.golden.k
        fused, returned = self._cut(config, self._used(config), max(config.retrieval.top_k, k))
        counted = self._within(fused, returned)
        # Summed in order of rank, as the metric adds up.
        gained = (counted * self._discounts[: counted.shape[1]]).cumsum(axis=1)[:, -1]
        scores = self._normalized(gained, returned)
        seconds = np.zeros(len(scores)) if fused.rerank_seconds is None else fused.rerank_seconds
        return Scores(scores, (counted < 0).sum(axis=1).astype(np.float64), np.minimum(returned, k), seconds)

    def relevant_returned(self, config: RetrievalConfig) -> int:
        """Return how many relevant documents stand within k, over all queries. Costs no budget."""
        fused, returned = self._cut(config, self._used(config), max(config.retrieval.top_k, self.golden.k))
        return int((self._within(fused, returned) > 0).sum())

    def _within(self, fused: FusedLists, returned: IntArray) -> NDArray[np.int8]:
        """Return the labels of each list's places within k, 0 behind the list's end and for a document's further
        places."""
        inside = np.arange(fused.counted.shape[1])[None, :] < returned[:, None]
        return np.where(inside, fused.counted, np.int8(0))

    def by_length(self, config: RetrievalConfig) -> Floats:
        """Return each query's nUDCG for a list of 0, 1, … k results, shape `(n, k + 1)`, whatever the config's cut.

        A list can't be longer than there are candidates. Costs no budget: it is one ranking, not a config.
        """
        k = self.golden.k
        fused, _ = self._cut(config, self._used(config), k)
        counted = fused.counted
        gained, scores = np.zeros(len(counted)), np.empty((len(counted), k + 1))
        scores[:, 0] = self._normalized(gained, np.zeros(len(counted), np.int64))
        for length in range(1, k + 1):
            if length <= counted.shape[1]:
                gained = gained + np.where(length <= fused.available, counted[:, length - 1], 0) * discount(length)
            scores[:, length] = self._normalized(gained, np.minimum(fused.available, length))
        return scores

    def returned(self, config: RetrievalConfig) -> IntArray:
        """Return the length of each query's list, which may be more than k. Costs no budget."""
        return self._cut(config, self._used(config), max(config.retrieval.top_k, self.golden.k))[1]

    def _normalized(self, gained: Floats, returned: IntArray) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._ideal > 0, gained / self._ideal, np.where(returned > 0, gained, 1.0))

    def _used(self, config: RetrievalConfig) -> _PoolKey:
        """Return the pool of the lanes that the config uses."""
        retrieval = config.retrieval
        depths = (retrieval.candidates if used else 0 for used in (retrieval.keyword, retrieval.vector))
        return self._key(config, *depths)

    def distractors_returned(self, config: RetrievalConfig) -> list[str]:
        """Return the doc_id of every distractor within k, once for each query that gets it."""
        names = self.doc_ids
        found: list[str] = []
        ranked = self.rank(config)
        for documents, labels, returned in zip(ranked.documents, ranked.labels, ranked.returned.tolist(), strict=True):
            upto = min(returned, self.golden.k)
            found += [names[number] for number in dict.fromkeys(documents[:upto][labels[:upto] < 0].tolist())]
        return found

    def rank(self, config: RetrievalConfig, depth: int | None = None) -> Ranked:
        """Return every query's fused ranking, cut as the config says; `depth` columns or more where there are as many.

        The ranks of a lane that the config doesn't use are those that it would have.
        """
        pool_key = self._key(config, MAX_DEPTH, MAX_DEPTH)
        fused, returned = self._cut(config, pool_key, max(config.retrieval.top_k, self.golden.k, depth or 0))
        pool = self._pool(pool_key)
        return Ranked(
            fused.documents,
            fused.labels,
            np.take_along_axis(pool.keyword, fused.order, axis=1).astype(np.int64),
            np.take_along_axis(pool.vector, fused.order, axis=1).astype(np.int64),
            returned,
        )

    @cached_property
    def _discounts(self) -> Floats:
        return np.array([discount(rank) for rank in range(1, self.golden.k + 1)])

    @cached_property
    def _ideal(self) -> Floats:
        return np.array([ideal_dcg(len(query.relevant), self.golden.k) for query in self.golden])

    @cached_property
    def doc_ids(self) -> list[str]:
        """The doc_id of each document number."""
        return self._index.doc_ids()

    def number_of(self, doc_id: str) -> int:
        """Return the document number that `Ranked.documents` uses; -2 for a document that isn't indexed."""
        return self._doc_numbers.get(doc_id, -2)

    @property
    def best_cosines(self) -> Floats:
        """The best cosine of each query over all documents."""
        best: Floats = self.lanes.vector(())[1][: len(self.golden)]
        return best

    def _cut(self, config: RetrievalConfig, pool_key: _PoolKey, wanted: int) -> tuple[FusedLists, IntArray]:
        """Return the fused lists, `wanted` columns or more where there are as many, and how many of each are
        returned."""
        if config.retrieval.candidates > MAX_DEPTH:
            raise ValueError(f"candidates over {MAX_DEPTH} are not cached")
        retrieval = config.retrieval
        width = max(_PREFIX if retrieval.per_document is None else _THINNED_PREFIX, wanted)
        key = (pool_key, _fusion(config), _weighing(config), _reranking(config), width, retrieval.per_document)
        fused = self._fused.get(key, lambda: self._fuse(config, pool_key, width, wanted))
        available = fused.available
        returned = np.minimum(available, retrieval.top_k)
        if config.dynamic_k.enabled:
            returned = dynamic_k_of_each(fused, config)
        if config.abstain.min_cosine is not None:
            near = self._pool(pool_key).best_cosine >= config.abstain.min_cosine
            if config.abstain.unless_all_words and retrieval.keyword:
                near |= self._worded(config, ~near)
            returned = np.where(near, returned, 0)
        return fused, returned

    def _worded(self, config: RetrievalConfig, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the queries that are `asked` about have a chunk with every word of theirs."""
        filters, params, *_ = self._key(config, 0, 0)
        lane, found = self.lanes.keyword(filters, params)[:, : worded_depth(config)], np.zeros(len(asked), np.bool_)
        for row in asked.nonzero()[0].tolist():
            chunks = tuple(chunk for chunk in lane[row].tolist() if chunk >= 0)
            query = self.golden.texts[row]
            found[row] = self._all_words.get((row, chunks), partial(has_all_words, self._index, query, chunks))
        return found

    def _fuse(self, config: RetrievalConfig, pool_key: _PoolKey, width: int, wanted: int) -> FusedLists:
        most, reranks = config.retrieval.per_document, config.rerank.enabled
        width = max(width, config.rerank.candidates) if reranks else width
        while True:
            fused = self._ordered(config, pool_key, width)
            shown = self._reranked(fused, pool_key, config.rerank.candidates) if reranks else fused
            shown = shown if most is None else shown.at_most(most)
            if reranks and config.rerank.floor is not None:
                shown = shown.above(config.rerank.floor)
            if not ((shown.available < wanted) & (fused.available > width)).any():
                return shown
            width *= 4  # more may stand behind the prefix

    def _reranked(self, fused: FusedLists, pool_key: _PoolKey, candidates: int) -> FusedLists:
        chunks = np.take_along_axis(self._pool(pool_key).chunks, fused.order, axis=1)
        wanted = np.arange(chunks.shape[1])[None, :] < np.minimum(fused.available, candidates)[:, None]
        return fused.reranked(*self._relevance.of(chunks, wanted, self.budget))

    def _ordered(self, config: RetrievalConfig, pool_key: _PoolKey, width: int) -> FusedLists:
        pool = self._pool(pool_key)
        plain = self._plain.get((pool_key, _fusion(config)), lambda: fused_scores(pool, config))
        scores, available = plain.scores, plain.available
        for factors in multipliers(self.lanes, config, pool.chunks):
            scores = np.where(scores >= 0, scores * factors, scores)
        order = best_columns(scores, width)
        places = order + np.arange(0, scores.size, scores.shape[1])[:, None]
        documents = self._index.document_numbers(pool.chunks.take(places))
        return FusedLists(order, scores.take(places), available, documents, self._labels(documents), self.golden.k)

    def _labels(self, documents: IntArray) -> NDArray[np.int8]:
        columns, labels = self._judged
        found: NDArray[np.int8] = labels[np.arange(len(documents))[:, None], columns[documents]]
        return found

    @cached_property
    def _judged(self) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        """Each document's column in the table of labels, and that table, a row a query; column 0 is for no label.

        What stands in no document's place, -1, has the last column, which is for no label either.
        """
        known = [
            [(self._doc_numbers[doc_id], label) for doc_id, label in query.qrels.items() if doc_id in self._doc_numbers]
            for query in self.golden
        ]
        judged = sorted({number for labels in known for number, _ in labels})
        columns = np.zeros(len(self._doc_numbers) + 1, np.int32)
        columns[judged] = np.arange(1, len(judged) + 1)
        table = np.zeros((len(known), len(judged) + 1), np.int8)
        for row, labels in enumerate(known):
            for number, label in labels:
                table[row, columns[number]] = label
        return columns, table

    def _key(self, config: RetrievalConfig, keyword: int, vector: int) -> _PoolKey:
        key: FilterKey = tuple(sorted(config.conditions.items()))
        return key, config.bm25.params, keyword, vector

    def _pool(self, key: _PoolKey) -> LanePool:
        return self._pools.get(key, lambda: self._join(key))

    def _join(self, key: _PoolKey) -> LanePool:
        filters, params, keyword_depth, vector_depth = key
        n = len(self.golden)
        keyword = self.lanes.keyword(filters, params)[:n, :keyword_depth]
        vector, best = self.lanes.vector(filters)
        return joined(keyword, vector[:n, :vector_depth], best[:n])


def _fusion(config: RetrievalConfig) -> tuple[object, ...]:
    """Return what decides the fused scores of a pool, as a key."""
    retrieval, weights = config.retrieval, config.retrieval.weights
    return retrieval.method, retrieval.candidates, retrieval.rrf_k, weights.keyword, weights.vector


def _weighing(config: RetrievalConfig) -> tuple[object, ...]:
    """Return what the fused scores are multiplied by, as a key."""
    return boost_key(config.boosts), config.boilerplate.weight


def _reranking(config: RetrievalConfig) -> tuple[int, float | None] | None:
    return (config.rerank.candidates, config.rerank.floor) if config.rerank.enabled else None
