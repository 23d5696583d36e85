"""Evaluation of configs without searches: rankings that were computed once are fused, cut and scored.

A lane's ranking depends on filters and, for BM25, on its parameters; all later steps (weights, rrf_k, candidates,
boosts, per_document, dynamic-k, top_k, abstention) are arithmetic over ranks, done here for all queries at once; a
reranker scores each query and chunk once. The result equals the engine's bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.access import Principal
from hive_agents.documents import terms
from hive_agents.evaluation import WITHIN, GoldenSet
from hive_agents.evaluation.metrics import discount, ideal_dcg
from hive_agents.index import BM25Params, boost_key
from hive_agents.models.embedding import Recent
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
from hive_agents.ranking import RetrievalConfig, SearchEngine, lift_weight, multipliers, terms_of, worded_depth

_POOLS, _PLAIN, _FUSED, _SCORES = 256, 64, 256, 1024
"""Sizes of the caches, two sweeps' worth: computing what the last sweep had costs more than everything else."""
_CELLS = 16_000_000
"""The most cells of all cached pools; with many queries fewer pools are cached."""

_CHUNKS = 10_000
"""The most chunks whose terms are cached."""

_PREFIX, _THINNED_PREFIX = 16, 48
"""How many places of a fused list are ordered, mostly enough for scoring; more where chunks are dropped."""

_PoolKey = tuple[FilterKey, BM25Params, int, int]


@dataclass(frozen=True)
class Scores:
    """Per query, shape `(n,)`, in the golden set's order."""

    nudcg: Floats
    distractors: Floats
    results: IntArray
    answered: Floats
    """1 where a relevant document is in the list, nan where none exists; so are `recall`, the share of them among the
    first ten, and `first`, 1 where the list begins with one."""
    recall: Floats
    first: Floats
    rerank_seconds: Floats
    """The time that reranking took when it was computed, 0 where nothing is reranked."""


@dataclass(frozen=True)
class Ranked:
    """The first results of every query, shape `(n, depth)`; only the first `returned` of a row are part of the list."""

    documents: IntArray
    labels: NDArray[np.int8]
    keyword: IntArray
    vector: IntArray
    returned: IntArray


class LaneCache:
    """Cached lanes of one golden set over one index. Not safe to share between threads.

    Every measured config costs one evaluation of `budget`.
    """

    def __init__(
        self,
        engine: SearchEngine,
        golden: GoldenSet,
        *,
        budget: SearchBudget | None = None,
        lanes: CachedLanes | None = None,
        reader: Principal | None = None,
    ) -> None:
        """`lanes` may be those of a golden set that begins with these queries. With a `reader` only what they may view
        is searched."""
        self.golden = golden
        self.budget = budget
        self.lanes = lanes or CachedLanes(engine, golden, reader)
        self._index = self.lanes.index
        self._relevance = RelevanceTable(engine, self._index, golden.texts)
        self._doc_numbers = {doc_id: number for number, doc_id in enumerate(self.doc_ids)}
        most = max(8, _CELLS // (2 * MAX_DEPTH * max(1, len(golden))))
        self._pools: Recent[_PoolKey, LanePool] = Recent(min(_POOLS, most))
        self._plain: Recent[tuple[_PoolKey, object], FusedScores] = Recent(min(_PLAIN, most))
        self._fused: Recent[tuple[object, ...], FusedLists] = Recent(_FUSED)
        self._scores: Recent[tuple[object, ...], Scores] = Recent(_SCORES)
        self._lifts: Recent[_PoolKey, Floats] = Recent(min(_PLAIN, most))
        self._worded: Recent[tuple[FilterKey, BM25Params, int], NDArray[np.bool_]] = Recent(_FUSED)
        self._chunk_terms: Recent[int, frozenset[str]] = Recent(_CHUNKS)

    def evaluate(self, config: RetrievalConfig) -> Scores:
        """Return the scores of each query. Raises: `SearchBudgetExhausted`."""
        if self.budget is not None:
            self.budget.spend()
        if not len(self.golden):
            none = np.empty(0)
            return Scores(none, none, np.empty(0, np.int64), none, none, none, none)
        retrieval, dynamic = config.retrieval, config.dynamic_k
        abstain = (config.abstain.enabled, config.abstain.min_cosine, config.abstain.unless_all_words)
        cut = (retrieval.top_k, retrieval.per_document, *abstain)
        cliff = (dynamic.gap_threshold_factor, dynamic.min_results, config.max_results) if dynamic.enabled else ()
        key = (self._used_pool(config), _fusion(config), self._weighing(config), _reranking(config), *cut, *cliff)
        return self._scores.get(key, lambda: self._scored(config))

    def _scored(self, config: RetrievalConfig) -> Scores:
        k = self.golden.k
        fused, returned = self._cut(config, self._used_pool(config), max(config.retrieval.top_k, k))
        counted = self._within(fused, returned)
        # Summed in order of rank, as the metric does.
        gained = (counted * self._discounts[: counted.shape[1]]).cumsum(axis=1)[:, -1]
        scores = self._normalized(gained, returned)
        seconds = np.zeros(len(scores)) if fused.rerank_seconds is None else fused.rerank_seconds
        found = counted > 0
        with np.errstate(invalid="ignore"):
            answered, recall = found.any(axis=1) / self._answerable, found[:, :WITHIN].sum(axis=1) / self._relevant
        first = found[:, :1].any(axis=1) / self._answerable
        distractors = (counted < 0).sum(axis=1).astype(np.float64)
        return Scores(scores, distractors, np.minimum(returned, k), answered, recall, first, seconds)

    def relevant_returned(self, config: RetrievalConfig) -> int:
        """Return the number of relevant documents within k over all queries. Costs no budget."""
        fused, returned = self._cut(config, self._used_pool(config), max(config.retrieval.top_k, self.golden.k))
        return int((self._within(fused, returned) > 0).sum())

    def _within(self, fused: FusedLists, returned: IntArray) -> NDArray[np.int8]:
        """Return the labels of each list's first k places, 0 for repeated documents and after the list's end."""
        inside = np.arange(fused.counted.shape[1])[None, :] < returned[:, None]
        return np.where(inside, fused.counted, np.int8(0))

    def _normalized(self, gained: Floats, returned: IntArray) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._ideal > 0, gained / self._ideal, np.where(returned > 0, gained, 1.0))

    def _used_pool(self, config: RetrievalConfig) -> _PoolKey:
        """Return the key of the pool of the lanes that the config uses."""
        retrieval = config.retrieval
        depths = (retrieval.candidates if used else 0 for used in (retrieval.keyword, retrieval.vector))
        return self._key(config, *depths)

    def distractors_returned(self, config: RetrievalConfig) -> list[str]:
        """Return the doc_id of every distractor within k, once for each query that gets it."""
        names = self.doc_ids
        distractors: list[str] = []
        ranked = self.rank(config)
        for documents, labels, returned in zip(ranked.documents, ranked.labels, ranked.returned.tolist(), strict=True):
            upto = min(returned, self.golden.k)
            distractors += [names[number] for number in dict.fromkeys(documents[:upto][labels[:upto] < 0].tolist())]
        return distractors

    def rank(self, config: RetrievalConfig, depth: int | None = None) -> Ranked:
        """Return every query's fused ranking with the config's cut, of `depth` columns or more where there are as many.

        Ranks in a lane that the config doesn't use are included.
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
    def _relevant(self) -> Floats:
        """The number of relevant documents of each query, nan without any."""
        return np.array([len(query.relevant) or np.nan for query in self.golden])

    @cached_property
    def _answerable(self) -> Floats:
        return self._relevant / self._relevant

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

    def _cut(self, config: RetrievalConfig, pool_key: _PoolKey, wanted: int) -> tuple[FusedLists, IntArray]:
        """Return the fused lists, of `wanted` columns or more where there are as many, and each list's length."""
        if config.retrieval.candidates > MAX_DEPTH:
            raise ValueError(f"candidates over {MAX_DEPTH} are not cached")
        retrieval = config.retrieval
        width = max(_PREFIX if retrieval.per_document is None else _THINNED_PREFIX, wanted)
        key = (pool_key, _fusion(config), self._weighing(config), _reranking(config), width, retrieval.per_document)
        fused = self._fused.get(key, lambda: self._fuse(config, pool_key, width, wanted))
        available = fused.available
        returned = np.minimum(available, retrieval.top_k)
        if config.dynamic_k.enabled:
            returned = dynamic_k_of_each(fused, config)
        if config.abstain.min_cosine is not None:
            near = self._pool(pool_key).best_cosine >= config.abstain.min_cosine
            if config.abstain.unless_all_words and retrieval.keyword:
                near |= self._with_all_words(config, ~near)
            returned = np.where(near, returned, 0)
        if config.abstain.enabled:
            answered = self._answered(config)
            if not answered.all():
                near = self._pool(pool_key).best_cosine >= self.lanes.floors[: len(answered)]
                returned = np.where(answered | near, returned, 0)
        return fused, returned

    def _answered(self, config: RetrievalConfig) -> NDArray[np.bool_]:
        """Return which queries have a list whatever the cosines."""
        filters, params, *_ = self._key(config, 0, 0)
        depth = worded_depth(config) if config.retrieval.keyword else 0

        def computed() -> NDArray[np.bool_]:
            return self.lanes.answered(self.lanes.keyword(filters, params)[: len(self.golden), :depth], params)

        return self._worded.get((filters, params, depth), computed)

    def _with_all_words(self, config: RetrievalConfig, queries: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the queries in a mask have a chunk with all of their words."""
        filters, params, *_ = self._key(config, 0, 0)
        lane, worded = self.lanes.keyword(filters, params)[:, : worded_depth(config)], np.zeros(len(queries), np.bool_)
        for row in queries.nonzero()[0].tolist():
            chunks = (chunk for chunk in lane[row].tolist() if chunk >= 0)
            worded[row] = any(self._query_terms[row] <= self._terms_of(chunk) for chunk in chunks)
        return worded

    def _terms_of(self, chunk: int) -> frozenset[str]:
        def read() -> frozenset[str]:
            (row,) = self._index.rows([chunk])
            return terms_of(row, self._index.language)

        return self._chunk_terms.get(chunk, read)

    @cached_property
    def _query_terms(self) -> list[frozenset[str]]:
        return [frozenset(terms(text, self._index.language)) for text in self.golden.texts]

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
            width *= 4  # more may follow the prefix

    def _reranked(self, fused: FusedLists, pool_key: _PoolKey, candidates: int) -> FusedLists:
        chunks = np.take_along_axis(self._pool(pool_key).chunks, fused.order, axis=1)
        wanted = np.arange(chunks.shape[1])[None, :] < np.minimum(fused.available, candidates)[:, None]
        return fused.reranked(*self._relevance.of(chunks, wanted, self.budget))

    def _ordered(self, config: RetrievalConfig, pool_key: _PoolKey, width: int) -> FusedLists:
        pool = self._pool(pool_key)
        plain = self._plain.get((pool_key, _fusion(config)), lambda: fused_scores(pool, config))
        scores, available = plain.scores, plain.available
        for factors in multipliers(self.lanes, config, config.boosts, pool.chunks):
            scores = np.where(scores >= 0, scores * factors, scores)
        if weight := lift_weight(config, self._index.language):
            shares = self._lifts.get(pool_key, lambda: self.lanes.name_shares(pool.chunks, config.bm25.params))
            scores = np.where(scores >= 0, scores * (1.0 + weight * shares), scores)
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
        """The column of each document in a table of labels, and that table, one row per query; column 0 is unlabelled.

        The last entry, at index -1, is for places without a document, and unlabelled, too.
        """
        judgements = [
            [(self._doc_numbers[doc_id], label) for doc_id, label in query.qrels.items() if doc_id in self._doc_numbers]
            for query in self.golden
        ]
        judged = sorted({number for labels in judgements for number, _ in labels})
        columns = np.zeros(len(self._doc_numbers) + 1, np.int32)
        columns[judged] = np.arange(1, len(judged) + 1)
        table = np.zeros((len(judgements), len(judged) + 1), np.int8)
        for row, labels in enumerate(judgements):
            for number, label in labels:
                table[row, columns[number]] = label
        return columns, table

    def _key(self, config: RetrievalConfig, keyword: int, vector: int) -> _PoolKey:
        key: FilterKey = tuple(sorted(config.conditions.items()))
        return key, config.bm25.params, keyword, vector

    def _weighing(self, config: RetrievalConfig) -> tuple[object, ...]:
        """Return the settings that multiply the fused scores, as a key."""
        return boost_key(config.boosts), config.boilerplate.weight, lift_weight(config, self._index.language)

    def _pool(self, key: _PoolKey) -> LanePool:
        return self._pools.get(key, lambda: self._join(key))

    def _join(self, key: _PoolKey) -> LanePool:
        filters, params, keyword_depth, vector_depth = key
        n = len(self.golden)
        keyword = self.lanes.keyword(filters, params)[:n, :keyword_depth]
        vector, best = self.lanes.vector(filters)
        return joined(keyword, vector[:n, :vector_depth], best[:n])


def _fusion(config: RetrievalConfig) -> tuple[object, ...]:
    """Return the settings that decide the fused scores of a pool, as a key."""
    retrieval, weights = config.retrieval, config.retrieval.weights
    return retrieval.method, retrieval.candidates, retrieval.rrf_k, weights.keyword, weights.vector


def _reranking(config: RetrievalConfig) -> tuple[int, float | None] | None:
    return (config.rerank.candidates, config.rerank.floor) if config.rerank.enabled else None
