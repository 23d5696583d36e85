"""Vectors in 8-bit integers, for a pass over a quarter of the bytes whose error is bounded.

A row is x = s c + e, with integers c from -127 to 127; its scale s and the length of e are stored with it. A query is
q = t (128 h + l) + f, with integers h and l from -64 to 64. The pass computes t s (128 h + l) · c = (q - f) · (x - e),
whose sums of integers are exact. By Cauchy and Schwarz it differs from q · x = (q - f) · (x - e) + q · e + f · (x - e)
by at most

    |q| |e| + |f| (|x| + |e|) = (|q| + |f|) |e| + |f| |x|

The rest is rounding: a few operations in float32 on numbers that aren't above |q| |x| by much.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hive_agents.models.embedding import byte_products
from hive_agents.workspace import cores

_PRODUCTS = 1 << 16
"""Of a pass, at once: fewer rows with more queries, so that the products stay in a processor's cache."""

_LARGEST = 64
"""Sums of two products of a byte and a larger number don't fit into the 16 bits that some processors add them in."""

_ZERO, _SIDE = 128, 127
_WRITTEN = 4096
"""Rows that are coded at once."""
_ROUNDING = 8 * float(np.finfo(np.float32).eps)


class Codes:
    """The codes of a matrix `(n, dim)` of unit vectors, as `coded` stored them; read-only, safe to share."""

    def __init__(self, stored: NDArray[np.uint8], dimensions: int) -> None:
        n, rest = divmod(len(stored), dimensions + 8)
        if stored.dtype != np.uint8 or stored.ndim != 1 or rest:
            raise ValueError(f"expected codes of {dimensions} dimensions, got {stored.dtype} of shape {stored.shape}")
        stored = stored.view(np.ndarray)  # np.memmap's own class costs time on every slice
        self._scales, self.errors = stored[: 8 * n].view(np.float32).reshape(2, n)
        self._rows = stored[8 * n :].reshape(n, dimensions)

    def __len__(self) -> int:
        return len(self._rows)

    def cosines(self, queries: CodedQueries, rows: NDArray[np.integer] | None = None) -> NDArray[np.float32]:
        """Return approximate cosines of each query and some rows, all by default.

        They are off by no more than the query's `share` of the row's error, and its `rest`.
        """
        n, m = len(self) if rows is None else len(rows), len(queries.share)
        found = np.empty((m, n), np.float32)
        step = _PRODUCTS // m + 1

        def fill(start: int) -> None:
            part = slice(start, start + step)
            chosen = part if rows is None else rows[part]
            (products,) = byte_products().run(
                None, {"rows": self._rows[chosen], "columns": queries.columns, "scales": queries.scales}
            )
            high = products[:, :m]
            high += products[:, m:]
            high *= self._scales[chosen, None]
            found[:, part] = high.T

        starts = range(0, n, step)
        with ThreadPoolExecutor(cores()) as pool:
            for _ in pool.map(fill, starts) if len(starts) > 1 else map(fill, starts):
                pass
        return found


@dataclass(frozen=True)
class CodedQueries:
    """`columns` are h of each query, then l, shape `(dim, 2 n)`, with their `scales`."""

    columns: NDArray[np.int8]
    scales: NDArray[np.float32]
    share: NDArray[np.float32]
    """The part of a row's error that a cosine may be off by: |q| + |f|."""
    rest: NDArray[np.float32]
    """What it may be off by besides."""

    @classmethod
    def of(cls, queries: NDArray[np.float32]) -> CodedQueries:
        steps = np.abs(queries).max(axis=1) / np.float32(_LARGEST * (_ZERO + 1))
        steps[steps == 0] = 1  # with its codes, all zero, the whole query is f
        exact = queries.astype(np.float64)
        most = _LARGEST * (_ZERO + 1)
        whole = np.rint(exact / steps[:, None]).clip(-most, most)
        high = np.rint(whole / _ZERO)
        lost = np.linalg.norm(exact - whole * steps[:, None].astype(np.float64), axis=1)
        length = np.linalg.norm(exact, axis=1)
        columns = np.concatenate([high, whole - _ZERO * high]).T.astype(np.int8)
        scales = np.concatenate([_ZERO * steps, steps])
        rest = (lost + _ROUNDING * length).astype(np.float32)
        return cls(np.ascontiguousarray(columns), scales, (length + lost).astype(np.float32), rest)


def coded(matrix: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the codes of unit vectors as one array of bytes: scales, errors, and the rows."""
    n, dimensions = matrix.shape
    stored = np.empty(n * (dimensions + 8), np.uint8)
    scales, errors = stored[: 8 * n].view(np.float32).reshape(2, n)
    codes = stored[8 * n :].reshape(n, dimensions)
    for start in range(0, n, _WRITTEN):
        part = slice(start, start + _WRITTEN)
        rows = matrix[part].astype(np.float64)
        step = (np.abs(rows).max(axis=1) / _SIDE).astype(np.float32)
        step[step == 0] = 1
        whole = np.rint(rows / step[:, None]).clip(-_SIDE, _SIDE)
        scales[part] = step
        codes[part] = whole + _ZERO
        lost = np.linalg.norm(rows - whole * step[:, None].astype(np.float64), axis=1)
        errors[part] = np.nextafter(lost.astype(np.float32), np.float32(np.inf))
    return stored
