"""Exact cosine search over memory-mapped vectors, stored with their checksum in `.hive/vectors`."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, guarded, opened, read_bytes
from hive_agents.index.segments import Numbering, SegmentPart
from hive_agents.workspace import Workspace

Mask = NDArray[np.bool_]
Scored = tuple[NDArray[np.intp], NDArray[np.float32]]

_SAMPLE = 16
"""Every 16th score gives a lower bound of the k-th best; partitioning all scores takes 14 times as long."""

_FEW_ROWS, _RARE = 1024, 50
"""Up to this many allowed rows, or one in `_RARE`, are scored directly, without a pass over the matrix."""
_LEAST, _EXACT = 128, 8
"""Up to this many always are; above, an exact cosine takes as long as `_EXACT` rows of a pass over the matrix."""

_BATCH_BYTES = 1 << 26
_KERNEL_ROWS = 4096


class VectorIndex:
    """Cosine search over a float32 matrix `(n, dim)` of unit vectors; read-only, safe to share between threads."""

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        self._parts = [_plain(matrix)]
        self._numbers: list[NDArray[np.int32]] = []
        """The number of each part's rows, -1 for one that isn't in the index; empty for a single whole matrix."""
        self._where = Numbering([])

    @classmethod
    def of(cls, parts: Sequence[tuple[NDArray[np.float32], NDArray[np.int32]]]) -> VectorIndex:
        """Return the index over some matrices; of each row its number in the index, ascending, or -1."""
        index = cls(parts[0][0])
        numbers = [numbers for _, numbers in parts]
        if len(parts) > 1 or not (numbers[0] >= 0).all():
            index._parts = [_plain(matrix) for matrix, _ in parts]
            index._numbers, index._where = numbers, Numbering(numbers)
        return index

    def __len__(self) -> int:
        return len(self._where) if self._numbers else len(self._parts[0])

    @property
    def dimensions(self) -> int:
        return int(self._parts[0].shape[1])

    def row(self, number: int) -> NDArray[np.float32]:
        """Return one vector, shape `(dim,)`."""
        vector: NDArray[np.float32] = self.rows(np.array([number]))[0]
        return vector

    def rows(self, numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return vectors, shape `(len(numbers), dim)`."""
        if not self._numbers:
            return self._parts[0][numbers]
        rows = np.empty((len(numbers), self.dimensions), np.float32)
        for position, places, local in self._where.located(numbers):
            rows[places] = self._parts[position][local]
        return rows

    def top(self, query: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> Scored:
        """Return the `k` best rows, fewer if fewer are allowed: cosine down, row number up.

        `mask` is True for allowed rows.
        """
        return self.top_many(self._checked(query, 1)[None], k, mask=mask)[0]

    def top_many(self, queries: NDArray[np.float32], k: int, *, mask: Mask | None = None) -> list[Scored]:
        """Return `top` of each row of `queries`, equal to the bit, from one matrix product."""
        queries = self._checked(queries, 2)
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        require_mask(mask, len(self))
        few = self._few(k, mask, len(queries))
        if few is not None:
            return [best(few, self.scores(query, few), k) for query in queries]
        step = max(1, _BATCH_BYTES // (4 * len(self)))
        return [
            self._select(query, approximate, k, mask)
            for start in range(0, len(queries), step)
            for query, approximate in self._approximate(queries[start : start + step])
        ]

    def scores(self, query: NDArray[np.float32], rows: NDArray[np.intp] | Sequence[int]) -> NDArray[np.float32]:
        """Return the cosine of each of `rows`, equal to the scores of `top`."""
        rows = np.asarray(rows, np.intp)
        query = self._checked(query, 1)
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _KERNEL_ROWS):
            part = slice(start, start + _KERNEL_ROWS)
            scores[part] = cosines(self.rows(rows[part]), query)
        return scores

    def _checked(self, queries: NDArray[np.float32], ndim: int) -> NDArray[np.float32]:
        return checked_queries(queries, ndim, self.dimensions)

    def _few(self, k: int, mask: Mask | None, n_queries: int) -> NDArray[np.intp] | None:
        """Return all allowed rows if there are at most `k`, or too few for a pass over the matrix; else None."""
        allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        # A pass serves all queries, and is faster than exact scores where a good part of the rows is allowed.
        passes = allowed > max(_LEAST, len(self) // _EXACT)
        if allowed > k and (passes or not are_few(allowed, len(self) if n_queries == 1 else 0)):
            return None
        return np.arange(len(self)) if mask is None else mask.nonzero()[0]

    def _approximate(self, queries: NDArray[np.float32]) -> Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        products = [
            _row_products(matrix, queries[0])[None] if len(queries) == 1 else queries @ matrix.T
            for matrix in self._parts
        ]
        if not self._numbers:
            return list(zip(queries, products[0], strict=True))
        whole = np.empty((len(queries), len(self)), np.float32)
        for numbers, part in zip(self._numbers, products, strict=True):
            live = numbers >= 0
            whole[:, numbers[live]] = part[:, live]
        return list(zip(queries, whole, strict=True))

    def _select(
        self, query: NDArray[np.float32], approximate: NDArray[np.float32], k: int, mask: Mask | None
    ) -> Scored:
        margin = doubt(query)
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
        return best(rows, self.scores(query, rows), k)


def _plain(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    if matrix.ndim != 2 or matrix.dtype != np.float32:
        raise ValueError(f"expected a float32 matrix, got {matrix.dtype} of shape {matrix.shape}")
    # The plain view of a memory map: np.memmap's own class costs time on every slice.
    return np.ascontiguousarray(matrix).view(np.ndarray)


def checked_queries(queries: NDArray[np.float32], ndim: int, dimensions: int) -> NDArray[np.float32]:
    """Return the queries in float32. Raises: ValueError for another shape or values that aren't finite."""
    if queries.ndim != ndim or queries.shape[-1] != dimensions:
        raise ValueError(f"the index has {dimensions} dimensions, the query has shape {queries.shape}")
    if not np.isfinite(queries).all():
        raise ValueError("a query vector holds a value that isn't finite")
    return queries.astype(np.float32, copy=False)


def require_mask(mask: Mask | None, rows: int) -> None:
    """Raise ValueError for a mask that doesn't have one boolean for each row."""
    if mask is not None and (mask.shape != (rows,) or mask.dtype != np.bool_):
        raise ValueError(f"expected a mask of {rows} booleans, got {mask.dtype} of shape {mask.shape}")


def are_few(allowed: int, rows: int) -> bool:
    """Return whether the allowed rows are few enough to be scored one by one."""
    return allowed <= max(_FEW_ROWS, rows // _RARE)


def cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the exact cosine of each row of `vectors`, the same to the bit wherever it is computed."""
    # A product of two float32 is exact in float64, and a row's sum has the same order however many rows there are; a
    # BLAS call promises neither.
    scores: NDArray[np.float32] = (vectors * query.astype(np.float64)).sum(axis=1).astype(np.float32)
    return scores


def doubt(query: NDArray[np.float32]) -> np.float32:
    """Return twice the error bound of a float32 dot product, in any order, and of the rounding of the exact score.

    A row of the true top k scores at least the k-th best exact score, which is at least the k-th best
    approximate one minus one error; its own approximate score may be one error lower still.
    """
    unit = float(np.finfo(np.float32).eps)  # twice the unit roundoff: room for rows that are only nearly unit
    return np.float32((query.shape[0] + 4) * unit * float(np.linalg.norm(query.astype(np.float64))))


def best(rows: NDArray[np.intp], scores: NDArray[np.float32], k: int) -> Scored:
    """Return the `k` best of these rows: score down, row number up."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _row_products(matrix: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    # Limited by memory bandwidth on one core; a BLAS matrix-vector product takes twice as long.
    if hasattr(np, "vecdot"):
        return np.asarray(np.vecdot(matrix, query))
    return np.asarray(np.einsum("ij,j->i", matrix, query))


def _kth_best(values: NDArray[np.float32], k: int) -> np.float32:
    place = len(values) - k
    return np.float32(np.partition(values, place)[place])


def vectors_path(workspace: Workspace, segment: int) -> Path:
    return workspace.state_folder("vectors") / f"{segment}.npy"


def save_vectors(workspace: Workspace, segment: int, vectors: NDArray[np.float32]) -> None:
    data = io.BytesIO()
    np.save(data, vectors)
    path = vectors_path(workspace, segment)
    # The record first: vectors without a record would be accepted unchecked, a record without vectors is an error.
    digest = hashlib.sha256(data.getbuffer()).hexdigest()
    _record(path, digest, None)
    atomic_write(path, data.getvalue(), mode=0o600)
    _record(path, digest, _stamp(path))


def open_vectors(workspace: Workspace, parts: Sequence[SegmentPart], *, again: bool = False) -> VectorIndex:
    """Return the vectors of a generation; `again` verifies checksums even if the stamps of files are unchanged.

    Raises: OSError, ValueError or EOFError for a file that is missing, damaged or not the one that was written.
    """
    opened_parts = []
    for part in parts:
        matrix = segment_vectors(workspace, part.segment, again=again)
        if len(matrix) != len(part.chunks):
            raise ValueError(f"{part.segment}.npy has {len(matrix)} rows for {len(part.chunks)} chunks")
        opened_parts.append((matrix, part.chunks))
    return VectorIndex.of(opened_parts)


def segment_vectors(workspace: Workspace, segment: int, *, again: bool = False) -> NDArray[np.float32]:
    """Return the memory-mapped vectors of a segment. Raises: as `open_vectors`."""
    path = vectors_path(workspace, segment)
    vectors, stamp = _plain(guarded.mapped_array(path)), _stamp(path)
    digest, good = _recorded(path)
    if again or stamp != good:
        current = _digest(path)
        if digest is not None and current != digest:  # vectors of releases without checksums are accepted
            raise ValueError("their checksum is not the one they were written with")
        with suppress(HiveError):  # a read-only folder: hashed each time
            _record(path, current, stamp)
    return vectors


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _record(path: Path, digest: str, stamp: list[int] | None) -> None:
    atomic_write(_beside(path), json.dumps({"sha256": digest, "good": stamp}).encode(), mode=0o600)


def _recorded(path: Path) -> tuple[str | None, list[int] | None]:
    try:
        record = json.loads(read_bytes(_beside(path)))
        return str(record["sha256"]), record["good"]
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, LookupError, TypeError):
        return "", None  # a damaged record matches no file


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _digest(path: Path) -> str:
    with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
