"""The cut-off of dynamic-k, and the count of chunks of the same document."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hive_agents.ranking.fusion import rank_step


def dynamic_k(
    scores: Sequence[float],
    factor: float,
    min_results: int,
    max_results: int,
    *,
    weights: Sequence[float] = (1.0, 1.0),
    rrf_k: int = 60,
) -> int:
    """Return the length of the list to return from the fused `scores` (best first).

    With g_i = score_{i-1} - score_i, the list ends before the first rank i > `min_results` where g_i is over
    `factor` times the mean of the gaps before it. The first gap never ends the list. The mean counts as at least the
    gap of one rank step in every lane, so that a gap after a tie at the top isn't taken for a cliff.

    >>> dynamic_k([.0328, .0318, .0307, .0295, .0281, .0266, .0198], 3.0, 1, 10)
    6
    >>> tie = [1/61 + 1/62, 1/62 + 1/61, 2/63, 2/64]
    >>> dynamic_k(tie, 3.0, 1, 10)
    4
    """
    limit = min(len(scores), max_results)
    total = 0.0
    for rank in range(2, limit + 1):
        gap = scores[rank - 2] - scores[rank - 1]
        if rank > 2 and rank > min_results:
            mean = max(total / (rank - 2), rank_step(rank, weights, rrf_k))
            if gap > factor * mean:
                return rank - 1
        total += gap
    return limit


def occurrences(documents: NDArray[np.int64]) -> NDArray[np.intp]:
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
