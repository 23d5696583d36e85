"""The segments of a generation: each is written once, and shared by the generations that come after.

A generation is a list of parts. A part is a segment with the number that each of its documents and chunks has in the
generation, or -1 for what is deleted or was written again in a later segment. Numbers ascend in each part, so that a
generation of many parts has the same numbers, and the same rankings, as one that is written anew.
"""

from __future__ import annotations

import sqlite3
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

ABSORBED = 4
"""A new segment takes over what is left of older ones that are at most so many times as large, newest first: so each
text is written a few times in all, and a generation has few segments."""
SPOILED = 3
"""Of a segment at least one in so many chunks may be deleted before what is left of it is written anew."""


@dataclass(frozen=True)
class SegmentPart:
    """A segment in a generation: the numbers there of its documents and chunks, by their numbers in the segment."""

    segment: int
    documents: Ints
    chunks: Ints

    @property
    def live(self) -> int:
        return int(np.count_nonzero(self.chunks >= 0))

    def without(self, documents: NDArray[np.integer], chunk_documents: Ints) -> SegmentPart:
        """Return the part without some documents, by their numbers in the segment."""
        left, chunks = self.documents.copy(), self.chunks.copy()
        left[documents] = -1
        chunks[left[chunk_documents] < 0] = -1
        return SegmentPart(self.segment, left, chunks)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing of the segment is deleted."""
        return self.live == len(self.chunks) and bool((self.documents >= 0).all())


class Numbering:
    """Where the numbers 0 to n - 1 of a generation are: a part's position in `part`, and a number there in `local`."""

    def __init__(self, parts: Sequence[Ints]) -> None:
        live = [numbers >= 0 for numbers in parts]
        n = sum(int(np.count_nonzero(chosen)) for chosen in live)
        self.part, self.local = np.empty(n, np.int32), np.empty(n, np.int32)
        for position, (numbers, chosen) in enumerate(zip(parts, live, strict=True)):
            self.part[numbers[chosen]] = position
            self.local[numbers[chosen]] = np.flatnonzero(chosen)

    def __len__(self) -> int:
        return len(self.part)

    def located(self, numbers: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.intp], Ints]]:
        """Yield for each part with some of `numbers` its position, the places in `numbers`, and the numbers there."""
        of = self.part[numbers]
        for position in np.flatnonzero(np.bincount(of)).tolist():  # np.unique would import numpy's masked arrays
            places = np.flatnonzero(of == position)
            yield position, places, self.local[numbers[places]]


def load_parts(connection: sqlite3.Connection, generation: int, n_documents: int, n_chunks: int) -> list[SegmentPart]:
    """Return the parts of a generation, oldest first; one of an older release is a single segment."""
    rows = connection.execute(
        "SELECT segment, documents, chunks FROM parts WHERE generation = ? ORDER BY segment", (generation,)
    )
    return [SegmentPart(row[0], _unpacked(row[1], n_documents), _unpacked(row[2], n_chunks)) for row in rows.fetchall()]


def save_parts(connection: sqlite3.Connection, generation: int, parts: Sequence[SegmentPart]) -> None:
    rows = [(generation, part.segment, _packed(part.documents), _packed(part.chunks)) for part in parts]
    connection.executemany("INSERT INTO parts VALUES (?, ?, ?, ?)", rows)


def _packed(numbers: Ints) -> bytes:
    return zlib.compress(np.diff(numbers, prepend=np.int32(0)).astype(np.int32).tobytes(), 1)


def _unpacked(blob: bytes | None, n: int) -> Ints:
    if blob is None:
        return np.arange(n, dtype=np.int32)
    return np.cumsum(np.frombuffer(zlib.decompress(blob), np.int32), dtype=np.int32)


def absorbed(parts: Sequence[SegmentPart], new: int) -> int:
    """Return how many of the parts a segment of `new` chunks leaves as they are: the oldest; it takes over the rest.

    A page that is edited twice spoils the small segment of its first edit, which must not cost the large ones before.
    """
    spoiled = (n for n, part in enumerate(parts) if part.live * SPOILED < len(part.chunks) * (SPOILED - 1))
    kept = next(spoiled, len(parts))
    new += sum(part.live for part in parts[kept:])
    while kept and parts[kept - 1].live <= ABSORBED * new:
        kept -= 1
        new += parts[kept].live
    return kept


def renumbered(
    n: int, kept: Sequence[Ints], id_of: Callable[[int], str], ids: Sequence[str]
) -> tuple[list[Ints], Ints]:
    """Return the numbers of what is kept of n numbered things, by part, and of new ones with these ascending ids.

    `id_of` gives the id of one of the n, whose ids ascend.
    """
    stays = np.zeros(n, np.bool_)
    for numbers in kept:
        stays[numbers[numbers >= 0]] = True
    places = np.empty(len(ids), np.int64)
    low = 0
    for number, new in enumerate(ids):
        if low < n and id_of(low) < new:  # the next of the same document is mostly found at once
            low = bisect_left(range(n), new, low + 1, key=id_of)
        places[number] = low
    upto = np.concatenate(([0], np.cumsum(stays)))
    now = np.append(np.where(stays, upto[:-1] + np.searchsorted(places, np.arange(n), side="right"), -1), -1)
    return [now[numbers].astype(np.int32) for numbers in kept], (upto[places] + np.arange(len(ids))).astype(np.int32)
