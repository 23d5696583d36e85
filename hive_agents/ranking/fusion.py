"""Reciprocal rank fusion, and factors on its scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.index import ChunkNumbers, Lane


@dataclass(frozen=True)
class Fused:
    """A fused ranking, best first, ties by chunk number. A lane's rank is 0 where the chunk isn't in it."""

    chunks: ChunkNumbers
    scores: NDArray[np.float64]
    ranks: tuple[NDArray[np.intp], ...]

    def __len__(self) -> int:
        return len(self.chunks)


def rrf(lanes: Sequence[Lane], weights: Sequence[float], k: int) -> Fused:
    """Return the fused ranking: score(d) = Σ_lanes weight / (k + rank_lane(d)); a lane without d adds 0.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet" (2009), with weights.
    """
    every = np.sort(np.concatenate([lane.chunks for lane in lanes]))
    chunks = every[np.diff(every, prepend=-1) > 0].astype(np.intp)  # np.unique would import numpy's masked arrays
    ranks = []
    for lane in lanes:
        rank = np.zeros(len(chunks), np.intp)
        rank[np.searchsorted(chunks, lane.chunks)] = np.arange(1, len(lane.chunks) + 1)
        ranks.append(rank)
    scores = rrf_scores(ranks, weights, k)
    order = np.lexsort((chunks, -scores))
    return Fused(chunks[order], scores[order], tuple(rank[order] for rank in ranks))


def rrf_scores(ranks: Sequence[NDArray[np.intp]], weights: Sequence[float], k: int) -> NDArray[np.float64]:
    """Return the RRF scores of ranks of any shape; rank 0 means absent.

    >>> rrf_scores([np.array([1, 2]), np.array([1, 0])], [1, 1], 60).round(5).tolist()
    [0.03279, 0.01613]
    """
    total = np.zeros(np.shape(ranks[0]), np.float64)
    for rank, weight in zip(ranks, weights, strict=True):
        total += np.where(rank > 0, weight / (k + rank), 0.0)
    return total


def rank_step(rank: int, weights: Sequence[float], k: int) -> float:
    """Return the difference of the scores of two documents at `rank` - 1 and `rank` in every lane."""
    return sum(weight * (1 / (k + rank - 1) - 1 / (k + rank)) for weight in weights)


def by_boilerplate(shares: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return the factor of each share of boilerplate: 1 for the share 0, `weight` for the share 1.

    >>> by_boilerplate(np.array([0.0, 0.5, 1.0]), 0.5).tolist()
    [1.0, 0.75, 0.5]
    """
    return 1.0 - (1.0 - weight) * shares


def boosted(fused: Fused, multipliers: Iterable[NDArray[np.float64]]) -> Fused:
    """Return the ranking with each score multiplied by its factors, sorted again, ties by chunk number."""
    scores = fused.scores
    for factors in multipliers:
        scores = scores * factors
    if scores is fused.scores:
        return fused
    order: NDArray[Any] = np.lexsort((fused.chunks, -scores))
    return Fused(fused.chunks[order], scores[order], tuple(rank[order] for rank in fused.ranks))
