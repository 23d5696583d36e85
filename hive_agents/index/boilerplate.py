"""Boilerplate: lines in more than a fifth of the documents, such as licences and menus on each page.

A generation stores the places of lines that several documents share. Which of them are boilerplate is counted in each
scope: documents that a reader may not view don't change the weight of those that he may.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.index.vectors import Mask

SHARED, LEAST_SHARING = 0.2, 10
"""A line is boilerplate when more than this share, and more than this number, of the documents have it."""
LEAST_WORDS = 5
"""Shorter lines are labels that documents of a kind have in common."""
_STRUCTURE = ("|", "#")
"""Heads of tables and headings describe what is below them."""
_LEAST_SIZE = 2 * LEAST_WORDS - 1

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class SharedLines:
    """The occurrences of the lines that more than `LEAST_SHARING` documents have, in order of chunks.

    Of each occurrence `lines` has the number of the distinct line, `places` its line number in the text of the chunk,
    from 0, and `words` its number of words. `chunk_words` is the number of words of each chunk, shape `(n_chunks,)`.
    """

    lines: Ints
    chunks: Ints
    places: Ints
    words: Ints
    chunk_words: Ints

    @classmethod
    def of(cls, texts: Sequence[str], documents: NDArray[np.int32]) -> SharedLines:
        """Return the shared lines of chunks with these texts; `documents` is the document number of each chunk."""
        hashes, chunks, places = array("q"), array("i"), array("i")  # a list of five million lines would take 300 MB
        for chunk, text in enumerate(texts):
            for place, line in enumerate(text.splitlines()):
                if len(line) >= _LEAST_SIZE and not line.startswith(_STRUCTURE):
                    hashes.append(hash(line.strip()))
                    chunks.append(chunk)
                    places.append(place)
        _, numbers = np.unique(np.frombuffer(hashes, np.int64), return_inverse=True)
        chunk_of = np.frombuffer(chunks, np.int32)
        frequent = np.flatnonzero(_sharing(numbers, documents[chunk_of])[numbers] > LEAST_SHARING)
        split = {chunk: texts[chunk].splitlines() for chunk in set(chunk_of[frequent].tolist())}
        words = np.array([len(split[chunks[row]][places[row]].split()) for row in frequent.tolist()], np.int32)
        shared = frequent[words >= LEAST_WORDS] if len(frequent) else frequent
        _, first, lines = np.unique(numbers[shared], return_index=True, return_inverse=True)
        in_order = np.argsort(np.argsort(first))  # hashes differ between processes, and indexes must not
        return cls(
            in_order[lines].astype(np.int32),
            chunk_of[shared],
            np.frombuffer(places, np.int32)[shared],
            words[words >= LEAST_WORDS],
            np.array([len(text.split()) for text in texts], np.int32),
        )

    def to_blob(self) -> bytes:
        parts = (self.lines, self.chunks, self.places, self.words)
        return zlib.compress(np.concatenate([self.chunk_words, *parts]).astype(np.int32).tobytes(), 1)

    @classmethod
    def from_blob(cls, blob: bytes | None, n_chunks: int) -> SharedLines:
        """Return the lines of a `to_blob`; None, from a generation of an older release, has no lines."""
        numbers = np.frombuffer(zlib.decompress(blob), np.int32) if blob else np.zeros(n_chunks, np.int32)
        lines, chunks, places, words = np.split(numbers[n_chunks:], 4)
        return cls(lines, chunks, places, words, numbers[:n_chunks])

    def within(self, documents: NDArray[np.int32], n_documents: int, visible: Mask | None = None) -> Boilerplate:
        """Return the boilerplate in a scope of the chunks in `visible`, which are of `n_documents` documents.

        `documents` is the document number of each chunk; chunks are numbered as in the whole index.
        """
        inside = np.arange(len(self.lines)) if visible is None else np.flatnonzero(visible[self.chunks])
        sharing = _sharing(self.lines[inside], documents[self.chunks[inside]])
        is_boilerplate = sharing > max(LEAST_SHARING, SHARED * n_documents)
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
