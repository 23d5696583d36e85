"""Exact cosine search over memory-mapped vectors, stored with their checksum in `.hive/vectors`."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, guarded, opened, read_bytes, remove
from hive_agents.index.codes import CodedQueries, Codes, coded
from hive_agents.index.segments import Numbering, SegmentPart
from hive_agents.workspace import Workspace

Mask = NDArray[np.bool_]
Scored = tuple[NDArray[np.intp], NDArray[np.float32]]

_SAMPLE = 16
"""Every 16th score gives a lower bound of the k-th best; partitioning all scores takes 14 times as long."""

_LEAST = 128
"""Up to this many allowed rows are scored exactly, without a pass over approximate scores."""

_GATHERED = 5
"""Up to one allowed row in so many, a copy of the allowed rows and a pass over it take less than a pass over all."""

_CODED = 65_536
"""From so many rows on, vectors have codes beside them."""

_BATCH_BYTES = 1 << 26
_KERNEL_ROWS = 4096


class VectorIndex:
    """Cosine search over a float32 matrix `(n, dim)` of unit vectors; read-only, safe to share between threads."""

    def __init__(self, matrix: NDArray[np.float32], codes: Codes | None = None) -> None:
        self._parts = [_Rows(_plain(matrix), codes)]
        self._numbers: list[NDArray[np.int32]] = []
        """The number of each part's rows, -1 for one that isn't in the index; empty for a single whole matrix."""
        self._where = Numbering([])

    @classmethod
    def of(cls, parts: Sequence[tuple[NDArray[np.float32], Codes | None, NDArray[np.int32]]]) -> VectorIndex:
        """Return the index over some matrices; of each row its number in the index, ascending, or -1."""
        index = cls(*parts[0][:2])
        numbers = [numbers for _, _, numbers in parts]
        if len(parts) > 1 or not (numbers[0] >= 0).all():
            index._parts = [_Rows(_plain(matrix), codes) for matrix, codes, _ in parts]
            index._numbers, index._where = numbers, Numbering(numbers)
        return index

    def __len__(self) -> int:
        return len(self._where) if self._numbers else len(self._parts[0].matrix)

    @property
    def dimensions(self) -> int:
        return int(self._parts[0].matrix.shape[1])

    def row(self, number: int) -> NDArray[np.float32]:
        """Return one vector, shape `(dim,)`."""
        vector: NDArray[np.float32] = self.rows(np.array([number]))[0]
        return vector

    def rows(self, numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return vectors, shape `(len(numbers), dim)`."""
        if not self._numbers:
            return self._parts[0].matrix[numbers]
        rows = np.empty((len(numbers), self.dimensions), np.float32)
        for position, places, local in self._where.located(numbers):
            rows[places] = self._parts[position].matrix[local]
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
        allowed = len(self) if mask is None else int(np.count_nonzero(mask))
        chosen = None
        if mask is not None and allowed <= max(k, _LEAST, len(self) // _GATHERED):
            chosen, mask = mask.nonzero()[0], None
        if allowed <= max(k, _LEAST):
            rows = np.arange(len(self)) if chosen is None else chosen
            return [best(rows, self.scores(query, rows), k) for query in queries]
        errors = self._errors if self._errors is None or chosen is None else self._errors[chosen]
        found = []
        step = max(1, _BATCH_BYTES // (4 * (len(self) if chosen is None else len(chosen))))
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            coded = None if errors is None else CodedQueries.of(some)
            approximate = self._approximate(some, coded, chosen)
            for number, query in enumerate(some):
                margin, doubts = doubt(query), None
                if coded is not None and errors is not None:
                    margin, doubts = margin + 2 * coded.rest[number], (coded.share[number], errors)
                rows = _candidates(approximate[number], doubts, margin, k, mask)
                rows = rows if chosen is None else chosen[rows]
                found.append(best(rows, self.scores(query, rows), k))
        return found

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

    @cached_property
    def _errors(self) -> NDArray[np.float32] | None:
        """The error of each row's codes, 0 for one without codes; None where no row has any."""
        if not any(part.codes for part in self._parts):
            return None
        if not self._numbers:
            return self._parts[0].errors
        errors = np.empty(len(self), np.float32)
        for numbers, part in zip(self._numbers, self._parts, strict=True):
            errors[numbers[numbers >= 0]] = part.errors[numbers >= 0]
        return errors

    def _approximate(
        self, queries: NDArray[np.float32], coded: CodedQueries | None, rows: NDArray[np.intp] | None
    ) -> NDArray[np.float32]:
        """Return approximate cosines of each query and some rows, all by default."""
        if not self._numbers:
            return self._parts[0].approximate(queries, coded, rows)
        whole = np.empty((len(queries), len(self) if rows is None else len(rows)), np.float32)
        if rows is not None:
            for position, places, local in self._where.located(rows):
                whole[:, places] = self._parts[position].approximate(queries, coded, local)
            return whole
        for numbers, part in zip(self._numbers, self._parts, strict=True):
            live = numbers >= 0
            whole[:, numbers[live]] = part.approximate(queries, coded, None)[:, live]
        return whole


@dataclass(frozen=True)
class _Rows:
    matrix: NDArray[np.float32]
    codes: Codes | None

    @property
    def errors(self) -> NDArray[np.float32]:
        return np.zeros(len(self.matrix), np.float32) if self.codes is None else self.codes.errors

    def approximate(
        self, queries: NDArray[np.float32], coded: CodedQueries | None, rows: NDArray[np.integer] | None
    ) -> NDArray[np.float32]:
        if self.codes is not None and coded is not None:
            return self.codes.cosines(coded, rows)
        matrix = self.matrix if rows is None else self.matrix[rows]
        return _row_products(matrix, queries[0])[None] if len(queries) == 1 else queries @ matrix.T


def _candidates(
    approximate: NDArray[np.float32],
    doubts: tuple[np.float32, NDArray[np.float32]] | None,
    margin: np.float32,
    k: int,
    mask: Mask | None,
) -> NDArray[np.intp]:
    """Return the rows that may be among the `k` best; `doubts` are a factor and each row's error.

    A score may be off by the product of these, and by half of the margin. So the k-th best lower bound is no more than
    the k-th best exact score, and each row among the k best has an upper bound that isn't below.
    """
    factor, errors = doubts or (np.float32(0), np.zeros(1, np.float32))
    step = slice(None, None, _SAMPLE)

    def lower(rows: slice | NDArray[np.intp]) -> NDArray[np.float32]:
        return approximate[rows] if doubts is None else approximate[rows] - factor * errors[rows]

    sample = lower(step) if mask is None else lower(step)[mask[step]]
    if len(sample) >= k:
        kept = approximate >= _kth_best(sample, k) - margin - factor * errors.max()
        if mask is not None:
            kept &= mask
        rows: NDArray[np.intp] = kept.nonzero()[0]
    else:
        rows = np.arange(len(approximate)) if mask is None else mask.nonzero()[0]
    if len(rows) > k:
        least = lower(rows)
        rows = rows[2 * approximate[rows] - least >= _kth_best(least, k) - margin]
    return rows


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


def _codes_path(workspace: Workspace, segment: int) -> Path:
    return vectors_path(workspace, segment).with_suffix(".codes.npy")


def save_vectors(workspace: Workspace, segment: int, vectors: NDArray[np.float32]) -> None:
    """Write the vectors of a segment, and codes of many."""
    codes = _codes_path(workspace, segment)
    remove(codes)  # a killed process may have left them, and its number is given again
    _save(vectors_path(workspace, segment), vectors)
    if len(vectors) >= _CODED:
        _save(codes, coded(vectors))


def _save(path: Path, array: NDArray[np.float32] | NDArray[np.uint8]) -> None:
    data = io.BytesIO()
    np.save(data, array)
    # The record first: an array without a record would be accepted unchecked, a record without an array is an error.
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
        matrix, codes = segment_vectors(workspace, part.segment, again=again), None
        path = _codes_path(workspace, part.segment)
        if path.exists():
            codes = Codes(_checked(path, again=again), matrix.shape[1])
        if {len(matrix), len(matrix if codes is None else codes)} != {len(part.chunks)}:
            raise ValueError(f"{part.segment}.npy has {len(matrix)} rows for {len(part.chunks)} chunks")
        opened_parts.append((matrix, codes, part.chunks))
    return VectorIndex.of(opened_parts)


def segment_vectors(workspace: Workspace, segment: int, *, again: bool = False) -> NDArray[np.float32]:
    """Return the memory-mapped vectors of a segment. Raises: as `open_vectors`."""
    return _plain(_checked(vectors_path(workspace, segment), again=again))


def _checked(path: Path, *, again: bool) -> NDArray[Any]:
    array, stamp = guarded.mapped_array(path), _stamp(path)
    digest, good = _recorded(path)
    if again or stamp != good:
        current = _digest(path)
        if digest is not None and current != digest:  # vectors of releases without checksums are accepted
            raise ValueError("their checksum is not the one they were written with")
        with suppress(HiveError):  # a read-only folder: hashed each time
            _record(path, current, stamp)
    return array


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
