"""Exact cosine top-k over unit vectors in a memory-mapped matrix.

A fast float32 product, whose last bits depend on how it was batched, only chooses candidates, with a margin for its
rounding. One fixed kernel then scores these: lists and scores are the same for a query alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.lanes import Mask

Scored = tuple[NDArray[np.intp], NDArray[np.float32]]

_SAMPLE = 16
"""Every 16th score gives the bound that the rest is compared with: partitioning all takes 14 times as long."""

_FEW_ROWS = 1024
"""So few allowed rows are scored directly, without visiting the matrix."""

_BATCH_BYTES = 1 << 26
_KERNEL_ROWS = 4096


class VectorIndex:
    """Rows of a float32 matrix `(n, dim)` of unit vectors by cosine; read-only, safe to share between threads."""

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        if matrix.ndim != 2 or matrix.dtype != np.float32:
            raise ValueError(f"expected a float32 matrix, got {matrix.dtype} of shape {matrix.shape}")
        # The plain view of a memory map: np.memmap's own class costs time on every slice.
        self._matrix = np.ascontiguousarray(matrix).view(np.ndarray)

    @classmethod
    def open(cls, path: Path) -> VectorIndex:
        """The `.npy` file, mapped and not read."""
        return cls(np.load(path, mmap_mode="r", allow_pickle=False))

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def dimensions(self) -> int:
        return int(self._matrix.shape[1])

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> Scored:
        """The `k` best rows, fewer if fewer are allowed: cosine down, row number up. `mask` is True where allowed."""
        return self.top_many(self._checked(query, 1)[None], k, mask=mask)[0]

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[Scored]:
        """`top` of each row of `queries`, bit by bit, from one matrix product."""
        queries = self._checked(queries, 2)
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        if mask is not None and (mask.shape != (len(self),) or mask.dtype != np.bool_):
            raise ValueError(f"expected a mask of {len(self)} booleans, got {mask.dtype} of shape {mask.shape}")
        few = self._few(k, mask)
        if few is not None:
            return [_best(few, self.scores(query, few), k) for query in queries]
        step = max(1, _BATCH_BYTES // (4 * len(self)))
        return [
            self._select(query, approximate, k, mask)
            for start in range(0, len(queries), step)
            for query, approximate in self._approximate(queries[start : start + step])
        ]

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp] | Sequence[int]) -> NDArray[np.float32]:
        """Cosine of each of `rows`, the very numbers that `top` reports."""
        rows = np.asarray(rows, np.intp)
        wide = self._checked(query, 1).astype(np.float64)
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _KERNEL_ROWS):
            part = slice(start, start + _KERNEL_ROWS)
            # A product of two float32 is exact in float64, and a row's sum has the same order however many rows
            # there are; a BLAS call promises neither.
            scores[part] = (self._matrix[rows[part]] * wide).sum(axis=1)
        return scores

    def _checked(self, queries: NDArray[np.float32], ndim: int) -> NDArray[np.float32]:
        if queries.ndim != ndim or queries.shape[-1] != self.dimensions:
            raise ValueError(f"the index has {self.dimensions} dimensions, the query has shape {queries.shape}")
        if not np.isfinite(queries).all():
            raise ValueError("a query vector holds a value that isn't finite")
        return queries.astype(np.float32, copy=False)

    def _few(self, k: int, mask: Mask | None) -> NDArray[np.intp] | None:
        """All allowed rows where there is nothing to choose, or too little to be worth a pass over the matrix."""
        allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        if allowed > max(k, _FEW_ROWS):
            return None
        return np.arange(len(self)) if mask is None else mask.nonzero()[0]

    def _approximate(self, queries: NDArray[np.float32]) -> Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        products = _row_products(self._matrix, queries[0])[None] if len(queries) == 1 else queries @ self._matrix.T
        return list(zip(queries, products, strict=True))

    def _select(
        self, query: NDArray[np.float32], approximate: NDArray[np.float32], k: int, mask: Mask | None
    ) -> Scored:
        margin = self._margin(query)
        sample = approximate[::_SAMPLE] if mask is None else approximate[::_SAMPLE][mask[::_SAMPLE]]
        if len(sample) >= k:
            chosen = approximate >= _kth_best(sample, k) - margin
            if mask is not None:
                chosen &= mask
            rows = chosen.nonzero()[0]
        else:
            rows = np.arange(len(self)) if mask is None else mask.nonzero()[0]
        if len(rows) > k:
            values = approximate[rows]
            rows = rows[values >= _kth_best(values, k) - margin]
        return _best(rows, self.scores(query, rows), k)

    def _margin(self, query: NDArray[np.float32]) -> np.float32:
        """Twice what a float32 dot product of any order can be off, and the rounding of the exact score.

        A row of the true top k scores at least the k-th best exact score, which is at least the k-th best
        approximate one minus one error; its own approximate score may be one error lower still.
        """
        unit = float(np.finfo(np.float32).eps)  # twice the unit roundoff: room for rows that are only nearly unit
        return np.float32((self.dimensions + 4) * unit * float(np.linalg.norm(query.astype(np.float64))))


def _row_products(matrix: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    # At the memory's speed on one core; a BLAS matrix-vector product is at half of it.
    if hasattr(np, "vecdot"):
        return np.asarray(np.vecdot(matrix, query))
    return np.asarray(np.einsum("ij,j->i", matrix, query))


def _kth_best(values: NDArray[np.float32], k: int) -> np.float32:
    place = len(values) - k
    return np.float32(np.partition(values, place)[place])


def _best(rows: NDArray[np.intp], scores: NDArray[np.float32], k: int) -> Scored:
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]
