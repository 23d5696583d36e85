"""Boilerplate: lines in more than a fifth of the documents, such as licences and menus on each page.

A segment stores the places of lines that several of its documents share, and of lines that documents elsewhere in its
generation have, too. Which of them are boilerplate is counted in each scope: documents that a reader may not view don't
change the weight of those that he may.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.documents import content
from hive_agents.index.segments import Ints
from hive_agents.index.vectors import Mask

_STRUCTURE = ("|", "#")
"""Heads of tables and headings describe what is below them."""
_LEAST_SIZE = 2 * content.BOILERPLATE_WORDS - 1

_COLUMNS = ("chunks", "places", "words")

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Lines:
    """Occurrences of lines that may be boilerplate: a hash of the line, and what `SharedLines` has of each."""

    hashes: Hashes
    chunks: Ints
    places: Ints
    words: Ints

    @classmethod
    def of(cls, texts: Sequence[str]) -> Lines:
        """Return the lines of chunks with these texts, in order of their hashes, then of chunks."""
        hashes, rows = bytearray(), []
        for chunk, text in enumerate(texts):
            for place, line in enumerate(text.splitlines()):
                if len(line) >= _LEAST_SIZE and not line.startswith(_STRUCTURE):
                    words = len(line.split())
                    if words >= content.BOILERPLATE_WORDS:
                        hashes += hashlib.blake2b(line.strip().encode(), digest_size=8).digest()
                        rows.append((chunk, place, words))
        numbers = np.array(rows, np.int32).reshape(len(rows), 3)
        lines = cls(np.frombuffer(bytes(hashes), "<u8"), *(numbers[:, column] for column in range(3)))
        return lines.at(np.argsort(lines.hashes, kind="stable"))

    def at(self, rows: NDArray[Any]) -> Lines:
        return Lines(self.hashes[rows], self.chunks[rows], self.places[rows], self.words[rows])

    def among(self, hashes: Hashes) -> Lines:
        """Return the occurrences of some different lines, in order of `hashes`."""
        first = np.searchsorted(self.hashes, hashes)
        counts = np.searchsorted(self.hashes, hashes, side="right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.at(np.repeat(first, counts) + within)

    def to_blob(self) -> bytes:
        return self.hashes.tobytes() + np.concatenate([self.chunks, self.places, self.words]).tobytes()

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> Lines:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("hashes", *_COLUMNS)))

    @classmethod
    def from_blob(cls, blob: bytes) -> Lines:
        n = len(blob) // 20
        return cls(np.frombuffer(blob, "<u8", n), *np.split(np.frombuffer(blob, np.int32, offset=8 * n), 3))


def frequent(hashes: Hashes, documents: Ints) -> Hashes:
    """Return, in order, the lines that more than `BOILERPLATE_DOCUMENTS` of the documents have."""
    lines, numbers = np.unique(hashes, return_inverse=True)
    return lines[_sharing(numbers, documents) > content.BOILERPLATE_DOCUMENTS]


@dataclass(frozen=True)
class SharedLines:
    """The occurrences of the lines that more than `BOILERPLATE_DOCUMENTS` documents have, in order of chunks.

    Of each occurrence `lines` has the number of the distinct line, `places` its line number in the text of the chunk,
    from 0, and `words` its number of words. `chunk_words` is the number of words of each chunk, shape `(n_chunks,)`.
    `hashes` has the hash of each distinct line.
    """

    lines: Ints
    chunks: Ints
    places: Ints
    words: Ints
    chunk_words: Ints
    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    @classmethod
    def of(cls, texts: Sequence[str], documents: NDArray[np.int32]) -> SharedLines:
        """Return the shared lines of chunks with these texts; `documents` is the document number of each chunk."""
        return cls.among(Lines.of(texts), texts, documents)

    @classmethod
    def among(cls, lines: Lines, texts: Sequence[str], documents: NDArray[np.int32]) -> SharedLines:
        """Return `of` these texts, whose lines are `lines`."""
        shared = lines.among(frequent(lines.hashes, documents[lines.chunks]))
        return cls.joined([], shared, np.array([len(text.split()) for text in texts], np.int32))

    @classmethod
    def joined(cls, parts: Sequence[SharedLines], others: Lines, chunk_words: Ints) -> SharedLines:
        """Return the lines of all parts, and others, each once; chunks are numbered alike in all of them."""
        hashes = np.concatenate([*(part.hashes[part.lines] for part in parts), others.hashes])
        columns = [
            np.concatenate([*(getattr(part, name) for part in parts), getattr(others, name)]) for name in _COLUMNS
        ]
        chunks, places, words = columns
        order = np.lexsort((places, chunks))
        again = (np.diff(chunks[order]) == 0) & (np.diff(places[order]) == 0)  # several segments may tell of a line
        order = order[np.append(True, ~again)] if len(order) else order
        distinct, lines = np.unique(hashes, return_inverse=True)
        return cls(lines[order].astype(np.int32), chunks[order], places[order], words[order], chunk_words, distinct)

    def renumbered(self, numbers: Ints) -> SharedLines:
        """Return the lines by other numbers of the chunks; those of chunks with a number below 0 are dropped."""
        chunks = numbers[self.chunks]
        live = chunks >= 0
        return SharedLines(
            self.lines[live], chunks[live], self.places[live], self.words[live], self.chunk_words, self.hashes
        )

    def to_blob(self) -> bytes:
        parts = (self.lines, self.chunks, self.places, self.words)
        return zlib.compress(np.concatenate([self.chunk_words, *parts]).astype(np.int32).tobytes(), 1)

    @classmethod
    def from_blob(cls, blob: bytes | None, n_chunks: int, hashes: bytes = b"") -> SharedLines:
        """Return the lines of a `to_blob`; None, from a generation of an older release, has no lines."""
        numbers = np.frombuffer(zlib.decompress(blob), np.int32) if blob else np.zeros(n_chunks, np.int32)
        lines, chunks, places, words = np.split(numbers[n_chunks:], 4)
        return cls(lines, chunks, places, words, numbers[:n_chunks], np.frombuffer(hashes, "<u8"))

    def within(self, documents: NDArray[np.int32], n_documents: int, visible: Mask | None = None) -> Boilerplate:
        """Return the boilerplate in a scope of the chunks in `visible`, which are of `n_documents` documents.

        `documents` is the document number of each chunk; chunks are numbered as in the whole index.
        """
        inside = np.arange(len(self.lines)) if visible is None else np.flatnonzero(visible[self.chunks])
        sharing = _sharing(self.lines[inside], documents[self.chunks[inside]])
        is_boilerplate = sharing > max(content.BOILERPLATE_DOCUMENTS, content.BOILERPLATE_SHARE * n_documents)
        return Boilerplate(self, inside[is_boilerplate[self.lines[inside]]] if len(inside) else inside)


def _sharing(lines: NDArray[np.integer], documents: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the number of documents that have each line, by the line's number."""
    if not len(lines):
        return np.zeros(0, np.int64)
    most = int(documents.max()) + 1
    pairs = np.sort(lines.astype(np.int64) * most + documents)
    first = np.append(True, pairs[1:] != pairs[:-1])
    return np.bincount(pairs[first] // most, minlength=int(lines.max()) + 1)


class Boilerplate:
    """The boilerplate of a scope; `places` index the occurrences in `shared`."""

    def __init__(self, shared: SharedLines, places: NDArray[np.intp]) -> None:
        self._shared, self._places = shared, places

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The share of each chunk's words that is boilerplate, 0 to 1, by the chunk numbers of the whole index."""
        shared = self._shared
        total = shared.chunk_words
        words = np.bincount(shared.chunks[self._places], shared.words[self._places], minlength=len(total))
        return np.minimum(words / np.maximum(total, 1), 1.0)

    @cached_property
    def _chunks(self) -> Ints:
        return self._shared.chunks[self._places]

    def without(self, chunk: int, text: str) -> str | None:
        """Return a chunk's text without its boilerplate, None if it has no boilerplate."""
        first, last = np.searchsorted(self._chunks, (chunk, chunk + 1))
        if first == last:
            return None
        dropped = set(self._shared.places[self._places[first:last]].tolist())
        lines = text.splitlines(keepends=True)
        return "".join(line for place, line in enumerate(lines) if place not in dropped)
