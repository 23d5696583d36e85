"""Reciprocal rank fusion of lanes, and factors on its scores: arrays with a row for each of n queries.

A search has n = 1; the optimizer's rows are all golden queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

_ABSENT = 1 << 62
"""Sorts after every entry of a lane; its rank is 0."""


@dataclass(frozen=True)
class Fused:
    """Fused rankings, shape `(n, d)`, or one, `(d,)`: best first, ties by chunk number.

    `ranks` are those in the keyword and the vector lane, 0 where the chunk isn't in it.
    """

    chunks: IntArray
    scores: Floats
    ranks: tuple[NDArray[Any], NDArray[Any]]

    def __len__(self) -> int:
        return len(self.chunks)


@dataclass(frozen=True, eq=False)
class LanePool:
    """The union of both lanes, shape `(n, w)`: columns by ascending chunk number, -1 after the end.

    Rank 0 means absent. A chunk of both lanes has a second column, in which it is absent from both. `depth` is that of
    the deeper lane.
    """

    chunks: IntArray
    keyword: NDArray[Any]
    vector: NDArray[Any]
    depth: int


def joined(keyword: IntArray, vector: IntArray) -> LanePool:
    """Return the union of two lanes of chunk numbers, shape `(n, depth)` each, -1 after their ends."""
    depth = max(keyword.shape[1], vector.shape[1])
    small = np.min_scalar_type(depth)
    bits = 8 * small.itemsize
    # Chunk, lane and rank in one number: a sort brings the two entries of a chunk side by side.
    entries = np.concatenate([_entries(keyword, 0, bits), _entries(vector, 1, bits)], axis=1)
    entries.sort(axis=1)
    chunks, ranks = entries >> (bits + 1), entries.astype(small)  # the low bits
    chunks[entries == _ABSENT] = -1
    of_vector = ranks * (entries >> bits & 1).astype(small)
    of_keyword = ranks - of_vector
    again = chunks[:, 1:] == chunks[:, :-1]  # a chunk's entry of the vector lane follows that of the other
    moved = of_vector[:, 1:] * again
    of_vector[:, :-1] += moved
    of_vector[:, 1:] -= moved
    return LanePool(chunks, of_keyword, of_vector, depth)


def _entries(lane: IntArray, number: int, bits: int) -> IntArray:
    ranks = np.arange(1, lane.shape[1] + 1)
    entries: IntArray = np.where(lane >= 0, (lane << 1 | number) << bits | ranks, _ABSENT)
    return entries


def rrf(
    pool: LanePool, lanes: Sequence[NDArray[Any]], weights: Sequence[float], k: int, candidates: int
) -> tuple[Floats, IntArray]:
    """Return the fused score of each column, negative where no lane has it as a candidate, and each row's candidates.

    score(d) = Σ_lanes weight / (k + rank_lane(d)); a lane without d among its first `candidates` adds 0. `lanes` are
    those of the pool that are fused.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet" (2009), with weights.

    >>> pool = joined(np.array([[7, 3]]), np.array([[3, 9]]))
    >>> scores, available = rrf(pool, [pool.keyword, pool.vector], [1, 1], 60, 100)
    >>> pool.chunks.tolist(), scores.round(5).tolist(), available.tolist()
    ([[3, 3, 7, 9]], [[0.03252, -2.0, 0.01639, 0.01613]], [3])
    """
    places = np.arange(pool.depth + 1)
    counted = (places > 0) & (places <= candidates)
    scores, candidate = np.zeros(pool.chunks.shape), np.zeros(pool.chunks.shape, np.bool_)
    for lane, weight in zip(lanes, weights, strict=True):
        scores += np.where(counted, weight / (k + places), 0.0)[lane]
        candidate |= counted[lane]
    # A distinct number for each column: equal ones make a partition ten times as slow.
    return np.where(candidate, scores, -1.0 - np.arange(pool.chunks.shape[1])), candidate.sum(axis=1)


def rank_step(rank: Any, weights: Sequence[float], k: int) -> Any:
    """Return the difference of the scores of two documents at `rank` - 1 and `rank` in every lane; any shape."""
    return sum(weight * (1 / (k + rank - 1) - 1 / (k + rank)) for weight in weights)


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
