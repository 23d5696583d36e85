"""Evaluation of configs without searches: rankings that were computed once are fused, cut and scored.

A lane's ranking depends on filters and, for BM25, on its parameters; all later steps are those of `ranking.pipeline`,
taken here for all queries at once; a reranker scores each query and chunk once. The result equals the engine's bit for
bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.access import Principal
from hive_agents.evaluation import GoldenSet, readers
from hive_agents.evaluation.metrics import discount, ideal_dcg
from hive_agents.index import BM25Params
from hive_agents.models.embedding import Recent
from hive_agents.optimizer.budget import SearchBudget
from hive_agents.optimizer.cached_lanes import MAX_DEPTH, CachedLanes, FilterKey, filter_key
from hive_agents.ranking import Floats, IntArray, Lists, RetrievalConfig, SearchEngine, fusion, pipeline

_POOLS, _PLAIN, _LISTS, _SCORES = 256, 64, 256, 1024
"""Sizes of the caches, two sweeps' worth: computing what the last sweep had costs more than everything else."""
_CELLS = 16_000_000
"""The most cells of all cached pools; with many queries fewer pools are cached."""

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
class _Judged:
    """Lists with the labels of their documents; `counted` are those of the first k places, 0 for repeated documents."""

    lists: Lists
    labels: NDArray[np.int8]
    counted: NDArray[np.int8]


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
        reader: Principal | None = None,
    ) -> None:
        """With a `reader` only what they may view is searched."""
        self.golden, self.budget = golden, budget
        most = max(8, _CELLS // (2 * MAX_DEPTH * max(1, len(golden))))
        self.lanes = CachedLanes(engine, golden, reader, min(_PLAIN, most), budget)
        self._doc_numbers = {doc_id: number for number, doc_id in enumerate(self.doc_ids)}
        self._pools: Recent[_PoolKey, fusion.LanePool] = Recent(min(_POOLS, most))
        sizes = {"fusion": min(_PLAIN, most), "order": _LISTS, "per_document": _LISTS}
        self._kept = {step: Recent[object, pipeline.RankingState](size) for step, size in sizes.items()}
        self._judged: Recent[Lists, _Judged] = Recent(_LISTS)
        self._scores: Recent[tuple[object, ...], Scores] = Recent(_SCORES)

    def evaluate(self, config: RetrievalConfig) -> Scores:
        """Return the scores of each query. Raises: `SearchBudgetExhausted`."""
        if self.budget is not None:
            self.budget.spend()
        if not len(self.golden):
            none = np.empty(0)
            return Scores(none, none, np.empty(0, np.int64), none, none, none, none)
        key = self._used_pool(config), pipeline.settings(config, self.lanes.index.language)
        return self._scores.get(key, lambda: self._scored(config))

    def _scored(self, config: RetrievalConfig) -> Scores:
        k = self.golden.k
        _, judged, returned = self._ranked(config, self._used_pool(config), k)
        counted, seconds = _within(judged, returned), judged.lists.seconds
        # Summed in order of rank, as the metric does.
        gained = (counted * self._discounts[: counted.shape[1]]).cumsum(axis=1)[:, -1]
        scores = self._normalized(gained, returned)
        seconds = np.zeros(len(scores)) if seconds is None else seconds
        found = counted > 0
        with np.errstate(invalid="ignore"):
            answered, recall = (
                found.any(axis=1) / self._answerable,
                found[:, : readers.WITHIN].sum(axis=1) / self._relevant,
            )
        first = found[:, :1].any(axis=1) / self._answerable
        distractors = (counted < 0).sum(axis=1).astype(np.float64)
        return Scores(scores, distractors, np.minimum(returned, k), answered, recall, first, seconds)

    def relevant_returned(self, config: RetrievalConfig) -> int:
        """Return the number of relevant documents within k over all queries. Costs no budget."""
        _, judged, returned = self._ranked(config, self._used_pool(config), self.golden.k)
        return int((_within(judged, returned) > 0).sum())

    def _normalized(self, gained: Floats, returned: IntArray) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._ideal > 0, gained / self._ideal, np.where(returned > 0, gained, 1.0))

    def _used_pool(self, config: RetrievalConfig) -> _PoolKey:
        """Return the key of the pool of the lanes that the config uses."""
        retrieval = config.retrieval
        keyword, vector = (retrieval.candidates if used else 0 for used in (retrieval.keyword, retrieval.vector))
        return filter_key(config), config.bm25.params, keyword, vector

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
        pool_key = filter_key(config), config.bm25.params, MAX_DEPTH, MAX_DEPTH
        fused, judged, returned = self._ranked(config, pool_key, max(self.golden.k, depth or 0))
        keyword, vector = (
            np.take_along_axis(lane, judged.lists.order, axis=1).astype(np.int64) for lane in fused.ranks
        )
        return Ranked(judged.lists.documents, judged.labels, keyword, vector, returned)

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
        return self.lanes.index.doc_ids()

    def number_of(self, doc_id: str) -> int:
        """Return the document number that `Ranked.documents` uses; -2 for a document that isn't indexed."""
        return self._doc_numbers.get(doc_id, -2)

    def _ranked(
        self, config: RetrievalConfig, pool_key: _PoolKey, wanted: int
    ) -> tuple[fusion.Fused, _Judged, IntArray]:
        """Return fused rankings, their lists, right in their first `wanted` places, and the length of each."""
        if config.retrieval.candidates > MAX_DEPTH:
            raise ValueError(f"candidates over {MAX_DEPTH} are not cached")
        pooled = pipeline.RankingState(self._pool(pool_key), config.retrieval.candidates)
        wanted, steps = max(wanted, config.retrieval.top_k), pipeline.STEPS
        state = pipeline.run(pooled, self.lanes, config, steps, wanted=wanted, kept=self._kept, pool=pool_key)
        return state.fused, self._judged.get(state.lists, lambda: self._judge(state.lists)), state.lengths

    def _judge(self, lists: Lists) -> _Judged:
        k, (columns_of, table) = self.golden.k, self._judgements
        labels = table[np.arange(len(lists.documents))[:, None], columns_of[lists.documents]]
        counted, documents = labels[:, :k].copy(), lists.documents[:, :k]
        rows, columns = counted.nonzero()  # few places are judged
        higher = np.arange(documents.shape[1]) < columns[:, None]
        again = ((documents[rows] == documents[rows, columns][:, None]) & higher).any(axis=1)
        counted[rows[again], columns[again]] = 0
        return _Judged(lists, labels, counted)

    @cached_property
    def _judgements(self) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
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

    def _pool(self, key: _PoolKey) -> fusion.LanePool:
        filters, params, *depths = key

        def join() -> fusion.LanePool:
            lanes = self.lanes.keyword(filters, params), self.lanes.vector(filters)[0]
            return fusion.joined(*(lane[:, :depth] for lane, depth in zip(lanes, depths, strict=True)))

        return self._pools.get(key, join)


def _within(judged: _Judged, returned: IntArray) -> NDArray[np.int8]:
    """Return the labels of each list's first k places, 0 for repeated documents and after the list's end."""
    inside = np.arange(judged.counted.shape[1])[None, :] < returned[:, None]
    return np.where(inside, judged.counted, np.int8(0))
