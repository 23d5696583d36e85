"""Fused lists as arrays, one row per query: two lanes are joined, scored, ordered, thinned and cut.

Nothing is cached or looked up here. The operations and their order are the engine's, so that results are bit-identical.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.optimizer.cached_lanes import MAX_DEPTH, Floats, IntArray
from hive_agents.ranking import RetrievalConfig, occurrences, rank_step, rrf_scores

_RANK_BITS = 8
_ABSENT = 1 << 62
"""Sorts after every entry of a lane; its rank is 0."""


@dataclass(frozen=True)
class LanePool:
    """The union of both lanes, one row per query, columns by ascending chunk number, -1 after the end.

    Rank 0 means absent. A chunk of both lanes has a second column, in which it is absent from both.
    """

    chunks: IntArray
    keyword: NDArray[np.uint8]
    vector: NDArray[np.uint8]
    best_cosine: Floats


@dataclass(frozen=True)
class FusedScores:
    """The fused scores of a pool's columns before boosts, negative for non-candidates, and each row's candidates."""

    scores: Floats
    available: IntArray


@dataclass(frozen=True)
class FusedLists:
    """The best columns of a pool in result order, shape `(n, depth)`.

    `scores` are the fused ones, which decide the order where nothing is reranked; `relevance` is -inf for chunks that
    weren't reranked. `available` counts all candidates of each query, shape `(n,)`; columns after them are undefined.
    """

    order: IntArray
    scores: Floats
    available: IntArray
    documents: IntArray
    labels: NDArray[np.int8]
    k: int
    relevance: Floats | None = None
    rerank_seconds: Floats | None = None

    @cached_property
    def counted(self) -> NDArray[np.int8]:
        """The labels of the first k places, 0 where a document is repeated."""
        counted, documents = self.labels[:, : self.k].copy(), self.documents[:, : self.k]
        rows, columns = counted.nonzero()  # few places are judged
        higher = np.arange(documents.shape[1]) < columns[:, None]
        again = ((documents[rows] == documents[rows, columns][:, None]) & higher).any(axis=1)
        counted[rows[again], columns[again]] = 0
        return counted

    @property
    def descending(self) -> Floats:
        """The fused scores of the available candidates, best first, whatever their order in the list."""
        if self.relevance is None:
            return self.scores
        best: Floats = -np.sort(-np.where(self._inside, self.scores, -1.0), axis=1)
        return best

    @property
    def _inside(self) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = np.arange(self.order.shape[1])[None, :] < self.available[:, None]
        return inside

    def reranked(self, relevance: Floats, seconds: Floats) -> FusedLists:
        """Return the lists by relevance; chunks without one follow in their present order."""
        columns = np.argsort(-relevance, axis=1, kind="stable")
        return self._reordered(columns, self.available, relevance, seconds)

    def above(self, floor: float) -> FusedLists:
        """Return the lists without chunks of a relevance below `floor`, which move after the others."""
        assert self.relevance is not None
        return self._only(self._inside & ((self.relevance >= floor) | np.isneginf(self.relevance)))

    def at_most(self, per_document: int) -> FusedLists:
        """Return the lists with at most `per_document` chunks of a document; dropped ones move after the others."""
        # Places after the candidates must not count as occurrences: each gets a document number of its own.
        documents = np.where(self._inside, self.documents, -1 - np.arange(self.order.shape[1])[None, :])
        return self._only(self._inside & (occurrences(documents) < per_document))

    def _only(self, mask: NDArray[np.bool_]) -> FusedLists:
        columns = np.argsort(~mask, axis=1, kind="stable")
        return self._reordered(columns, mask.sum(axis=1), self.relevance, self.rerank_seconds)

    def _reordered(
        self, columns: IntArray, available: IntArray, relevance: Floats | None, seconds: Floats | None
    ) -> FusedLists:
        rows = np.arange(len(columns))[:, None]
        return FusedLists(
            self.order[rows, columns],
            self.scores[rows, columns],
            available,
            self.documents[rows, columns],
            self.labels[rows, columns],
            self.k,
            None if relevance is None else relevance[rows, columns],
            seconds,
        )


def joined(keyword: IntArray, vector: IntArray, best_cosine: Floats) -> LanePool:
    """Return the union of two lanes of chunk numbers, -1 after their ends, with the rank of each chunk in both."""
    # Chunk, lane and rank in one number: a sort brings the two entries of a chunk side by side.
    entries = np.concatenate([_entries(keyword, 0), _entries(vector, 1)], axis=1)
    if not entries.shape[1]:
        entries = np.full((len(entries), 1), _ABSENT)
    entries.sort(axis=1)
    chunks, ranks = entries >> (_RANK_BITS + 1), entries.astype(np.uint8)  # the low bits
    chunks[entries == _ABSENT] = -1
    of_vector = ranks * (entries >> _RANK_BITS & 1).astype(np.uint8)
    of_keyword = ranks - of_vector
    again = chunks[:, 1:] == chunks[:, :-1]  # a chunk's entry of the vector lane follows that of the other
    moved = of_vector[:, 1:] * again
    of_vector[:, :-1] += moved
    of_vector[:, 1:] -= moved
    return LanePool(chunks, of_keyword, of_vector, best_cosine)


def _entries(lane: IntArray, number: int) -> IntArray:
    ranks = np.arange(1, lane.shape[1] + 1)
    entries: IntArray = np.where(lane >= 0, (lane << 1 | number) << _RANK_BITS | ranks, _ABSENT)
    return entries


def fused_scores(pool: LanePool, config: RetrievalConfig) -> FusedScores:
    """Return the scores by reciprocal rank fusion, before they are multiplied."""
    retrieval = config.retrieval
    lanes = ([pool.keyword] if retrieval.keyword else []) + ([pool.vector] if retrieval.vector else [])
    depth = np.arange(MAX_DEPTH + 1)
    counted = np.where(depth <= retrieval.candidates, depth, 0)  # the rank of each place among the candidates
    scores, candidate = np.zeros(lanes[0].shape), np.zeros(lanes[0].shape, np.bool_)
    for lane, weight in zip(lanes, retrieval.lane_weights, strict=True):
        scores += rrf_scores([counted], [weight], retrieval.rrf_k)[lane]
        candidate |= (counted > 0)[lane]
    # A distinct number for each column: equal ones make a partition ten times as slow.
    return FusedScores(np.where(candidate, scores, -1.0 - np.arange(pool.chunks.shape[1])), candidate.sum(axis=1))


def best_columns(keys: Floats, width: int) -> IntArray:
    """Return the columns of the `width` highest keys of each row, best first, ties by column."""
    if keys.shape[1] <= width:
        return np.argsort(-keys, axis=1, kind="stable")
    place = keys.shape[1] - width
    enough = keys >= np.partition(keys, place, axis=1)[:, place : place + 1]
    places = np.flatnonzero(enough)
    if len(places) == width * len(keys):  # no ties at the end of any row
        values = keys.take(places).reshape(len(keys), width)
        best = places.reshape(len(keys), width) - np.arange(0, keys.size, keys.shape[1])[:, None]
    else:
        rows, columns = np.divmod(places, keys.shape[1])
        counts = np.bincount(rows, minlength=len(keys))
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        best = np.full((len(keys), int(counts.max(initial=width))), 0, np.int64)
        values = np.full(best.shape, -np.inf)
        best[rows, places], values[rows, places] = columns, keys[rows, columns]
    order = np.argsort(-values, axis=1, kind="stable")[:, :width]
    return np.take_along_axis(best, order, axis=1)


def dynamic_k_of_each(fused: FusedLists, config: RetrievalConfig) -> IntArray:
    """Return the length of each list by `retrieval.cutoff.dynamic_k`, with the same operations in the same order."""
    settings, weights = config.dynamic_k, config.retrieval.lane_weights
    top, available = fused.descending, fused.available
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
