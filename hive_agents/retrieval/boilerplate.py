"""Boilerplate: lines that stand in more than a fifth of the documents, such as licences and menus on each page.

A generation keeps which chunks hold which line that several documents share. What of them is boilerplate is counted
inside each scope: a document that a reader may not view makes no line of his own weigh less.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.vectors import Mask

SHARED, LEAST_SHARING = 0.2, 10
"""A line is boilerplate in more than this share of the documents, and in more than so many."""
LEAST_WORDS = 5
"""A shorter line is how documents of a kind are built."""
_STRUCTURE = ("|", "#")
"""Heads of tables and headings say what stands below them."""
_LEAST_SIZE = 2 * LEAST_WORDS - 1

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class SharedLines:
    """The lines that more than `LEAST_SHARING` documents have: each place of each, in order of chunks.

    `lines` are their numbers, `places` those of the line in its chunk's text, `words` how many it has; `chunk_words`
    are the words of each chunk, shape `(n_chunks,)`.
    """

    lines: Ints
    chunks: Ints
    places: Ints
    words: Ints
    chunk_words: Ints

    @classmethod
    def of(cls, texts: Sequence[str], documents: NDArray[np.int32]) -> SharedLines:
        """Return the lines that the chunks of these texts share; `documents` says whose chunk each is."""
        hashes, chunks, places = array("q"), array("i"), array("i")  # of five million lines, a list would take 300 MB
        for chunk, text in enumerate(texts):
            for place, line in enumerate(text.splitlines()):
                if len(line) >= _LEAST_SIZE and not line.startswith(_STRUCTURE):
                    hashes.append(hash(line.strip()))
                    chunks.append(chunk)
                    places.append(place)
        _, numbers = np.unique(np.frombuffer(hashes, np.int64), return_inverse=True)
        at = np.frombuffer(chunks, np.int32)
        often = np.flatnonzero(_sharing(numbers, documents[at])[numbers] > LEAST_SHARING)
        split = {chunk: texts[chunk].splitlines() for chunk in set(at[often].tolist())}
        words = np.array([len(split[chunks[one]][places[one]].split()) for one in often.tolist()], np.int32)
        kept = often[words >= LEAST_WORDS] if len(often) else often
        _, first, lines = np.unique(numbers[kept], return_index=True, return_inverse=True)
        in_order = np.argsort(np.argsort(first))  # hashes differ from process to process, and no index should
        return cls(
            in_order[lines].astype(np.int32),
            at[kept],
            np.frombuffer(places, np.int32)[kept],
            words[words >= LEAST_WORDS],
            np.array([len(text.split()) for text in texts], np.int32),
        )

    def to_blob(self) -> bytes:
        parts = (self.lines, self.chunks, self.places, self.words)
        return zlib.compress(np.concatenate([self.chunk_words, *parts]).astype(np.int32).tobytes(), 1)

    @classmethod
    def from_blob(cls, blob: bytes | None, n_chunks: int) -> SharedLines:
        """Return what `to_blob` made; no line where an older release wrote the generation."""
        numbers = np.frombuffer(zlib.decompress(blob), np.int32) if blob else np.zeros(n_chunks, np.int32)
        lines, chunks, places, words = np.split(numbers[n_chunks:], 4)
        return cls(lines, chunks, places, words, numbers[:n_chunks])

    def within(self, documents: NDArray[np.int32], n_documents: int, visible: Mask | None = None) -> Boilerplate:
        """Return what of them is boilerplate to whoever sees the chunks in `visible`, of so many documents.

        `documents` says whose chunk each is; chunks are numbered as in the whole index.
        """
        seen = np.arange(len(self.lines)) if visible is None else np.flatnonzero(visible[self.chunks])
        sharing = _sharing(self.lines[seen], documents[self.chunks[seen]])
        often = sharing > max(LEAST_SHARING, SHARED * n_documents)
        return Boilerplate(self, seen[often[self.lines[seen]]] if len(seen) else seen)


def _sharing(lines: NDArray[np.integer], documents: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return in how many documents each line stands, by its number."""
    if not len(lines):
        return np.zeros(0, np.int64)
    most = int(documents.max()) + 1
    pairs = np.sort(lines.astype(np.int64) * most + documents)
    first = np.append(True, pairs[1:] != pairs[:-1])
    return np.bincount(pairs[first] // most, minlength=int(lines.max()) + 1)


class Boilerplate:
    """The places of the boilerplate in a scope."""

    def __init__(self, shared: SharedLines, places: NDArray[np.intp]) -> None:
        self._shared, self._places = shared, places

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """How much of each chunk's words is boilerplate, from 0 to 1, in the numbers of the whole index."""
        shared = self._shared
        total = shared.chunk_words
        words = np.bincount(shared.chunks[self._places], shared.words[self._places], minlength=len(total))
        return np.minimum(words / np.maximum(total, 1), 1.0)

    @cached_property
    def _chunks(self) -> Ints:
        return self._shared.chunks[self._places]

    def without(self, chunk: int, text: str) -> str | None:
        """Return a chunk's text without its boilerplate, None where it has none."""
        first, last = np.searchsorted(self._chunks, (chunk, chunk + 1))
        if first == last:
            return None
        out = set(self._shared.places[self._places[first:last]].tolist())
        lines = text.splitlines(keepends=True)
        return "".join(line for place, line in enumerate(lines) if place not in out)
