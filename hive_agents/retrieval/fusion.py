"""Reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.lanes import ChunkNumbers, Lane


@dataclass(frozen=True)
class Fused:
    """A fused ranking, best first, ties by chunk number. A lane's rank is 0 where the chunk isn't in it."""

    chunks: ChunkNumbers
    scores: NDArray[np.float64]
    ranks: tuple[NDArray[np.intp], ...]

    def __len__(self) -> int:
        return len(self.chunks)


def rrf(lanes: Sequence[Lane], weights: Sequence[float], k: int) -> Fused:
    """score(d) = Σ_lanes weight / (k + rank_lane(d)); a lane that lacks d adds 0.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet" (2009), with weights.
    """
    chunks = np.unique(np.concatenate([lane.chunks for lane in lanes])).astype(np.intp)
    ranks = []
    for lane in lanes:
        rank = np.zeros(len(chunks), np.intp)
        rank[np.searchsorted(chunks, lane.chunks)] = np.arange(1, len(lane.chunks) + 1)
        ranks.append(rank)
    scores = rrf_scores(ranks, weights, k)
    order = np.lexsort((chunks, -scores))
    return Fused(chunks[order], scores[order], tuple(rank[order] for rank in ranks))


def rrf_scores(ranks: Sequence[NDArray[np.intp]], weights: Sequence[float], k: int) -> NDArray[np.float64]:
    """RRF scores of any shape of ranks; rank 0 means absent.

    >>> rrf_scores([np.array([1, 2]), np.array([1, 0])], [1, 1], 60).round(5).tolist()
    [0.03279, 0.01613]
    """
    total = np.zeros(np.shape(ranks[0]), np.float64)
    for rank, weight in zip(ranks, weights, strict=True):
        total += np.where(rank > 0, weight / (k + rank), 0.0)
    return total


def rank_step(rank: int, weights: Sequence[float], k: int) -> float:
    """The gap between two neighbours at `rank` - 1 and `rank` in every lane."""
    return sum(weight * (1 / (k + rank - 1) - 1 / (k + rank)) for weight in weights)
