"""What becomes of fused rankings: reranked, thinned and cut, with a row for each of n queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.fusion import Floats, IntArray, rank_step


@dataclass(frozen=True, eq=False)
class Lists:
    """Rankings in progress, best first, shape `(n, depth)`; `order` has the places of a fused ranking.

    `scores` are the fused ones. `relevance` is -inf for chunks that weren't reranked, `seconds` what that took a row.
    `available` counts all candidates of each row, shape `(n,)`; columns after them are undefined.
    """

    order: IntArray
    scores: Floats
    available: IntArray
    documents: IntArray
    relevance: Floats | None = None
    seconds: Floats | None = None

    @property
    def inside(self) -> NDArray[np.bool_]:
        """The places with a candidate."""
        inside: NDArray[np.bool_] = np.arange(self.order.shape[1])[None, :] < self.available[:, None]
        return inside

    @property
    def descending(self) -> Floats:
        """The fused scores of the available candidates, best first, whatever their order in the list."""
        if self.relevance is None:
            return self.scores
        best: Floats = -np.sort(-np.where(self.inside, self.scores, -1.0), axis=1)
        return best

    def reranked(self, relevance: Floats, seconds: Floats | None = None) -> Lists:
        """Return the lists by relevance; chunks without one follow in their present order."""
        columns = np.argsort(-relevance, axis=1, kind="stable")
        return replace(self, relevance=relevance, seconds=seconds)._reordered(columns, self.available)

    def at_most(self, per_document: int) -> Lists:
        """Return the lists with so many chunks of a document at most; dropped ones move after the others."""
        # Places after the candidates must not count as occurrences: each gets a document number of its own.
        documents = np.where(self.inside, self.documents, -1 - np.arange(self.order.shape[1])[None, :])
        return self.only(occurrences(documents) < per_document)

    def above(self, floor: float) -> Lists:
        """Return the lists without chunks of a relevance below the floor, which move after the others."""
        known = self.relevance
        return self if known is None else self.only((known >= floor) | np.isneginf(known))

    def lengths(self, config: RetrievalConfig) -> IntArray:
        """Return the length of each list, by dynamic-k and `top_k`; shape `(n,)`."""
        retrieval, dynamic = config.retrieval, config.dynamic_k
        if not dynamic.enabled:
            return np.minimum(self.available, retrieval.top_k)
        limit = min(retrieval.top_k, config.max_results)
        return dynamic_k(
            self.descending,
            np.minimum(self.available, limit),
            dynamic.gap_threshold_factor,
            dynamic.min_results,
            weights=retrieval.lane_weights,
            rrf_k=retrieval.rrf_k,
        )

    def only(self, mask: NDArray[np.bool_]) -> Lists:
        """Return the lists with these of their places; the others move after them."""
        left = self.inside & mask
        return self._reordered(np.argsort(~left, axis=1, kind="stable"), left.sum(axis=1))

    def _reordered(self, columns: IntArray, available: IntArray) -> Lists:
        rows = np.arange(len(columns))[:, None]
        return Lists(
            self.order[rows, columns],
            self.scores[rows, columns],
            available,
            self.documents[rows, columns],
            None if self.relevance is None else self.relevance[rows, columns],
            self.seconds,
        )


def dynamic_k(
    scores: Floats,
    upto: IntArray,
    factor: float,
    min_results: int,
    *,
    weights: Sequence[float] = (1.0, 1.0),
    rrf_k: int = 60,
) -> IntArray:
    """Return the length of each list, of `upto` places at most; `scores`, shape `(n, depth)`, are best first.

    With g_i = score_{i-1} - score_i, the list ends before the first rank i > `min_results` where g_i is over
    `factor` times the mean of the gaps before it. The first gap never ends the list. The mean counts as at least the
    gap of one rank step in every lane, so that a gap after a tie at the top isn't taken for a cliff.

    >>> published = [.0328, .0318, .0307, .0295, .0281, .0266, .0198]
    >>> tie = [1/61 + 1/62, 1/62 + 1/61, 2/63, 2/64, 0, 0, 0]
    >>> dynamic_k(np.array([published, tie]), np.array([7, 4]), 3.0, 1).tolist()
    [6, 4]
    """
    most = min(int(upto.max(initial=0)), scores.shape[1])
    if most < 3:
        return upto
    gaps = scores[:, : most - 1] - scores[:, 1:most]
    ranks = np.arange(3, most + 1)
    means = np.maximum(gaps.cumsum(axis=1)[:, :-1] / (ranks - 2), rank_step(ranks, weights, rrf_k))
    stops = (gaps[:, 1:] > factor * means) & (ranks <= upto[:, None]) & (ranks > min_results)
    return np.where(stops.any(axis=1), stops.argmax(axis=1) + 2, upto)


def occurrences(documents: IntArray) -> NDArray[np.intp]:
    """Return for each place the number of earlier places with the same document, along the last axis; any shape.

    >>> occurrences(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    places = np.broadcast_to(np.arange(documents.shape[-1]), documents.shape)
    order = np.argsort(documents, axis=-1, kind="stable")
    grouped = np.take_along_axis(documents, order, axis=-1)
    first = np.ones(documents.shape, np.bool_)
    first[..., 1:] = grouped[..., 1:] != grouped[..., :-1]
    within = places - np.maximum.accumulate(np.where(first, places, 0), axis=-1)
    counts = np.empty(documents.shape, np.intp)
    np.put_along_axis(counts, order, within, axis=-1)
    return counts
