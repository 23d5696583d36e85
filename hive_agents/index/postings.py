"""The stored form of an inverted index: one blob for each term, independent of BM25's parameters.

A blob holds, for the documents of a term in ascending order, the gaps between document numbers, the frequencies in the
body, and, for documents that have the term in their title, their position in the list and the frequency there. Each of
the four runs is as narrow as its largest value allows; the last byte says which runs are wide. A posting takes about 3
to 4 bytes; BM25's weights are computed when a term is read, and cached as `Impacts`.
"""

import itertools
import math
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.store import transaction

_WIDE_GAPS, _WIDE_BODY, _WIDE_PLACES, _WIDE_TITLE = 1, 2, 4, 8
_TOKENS_AT_ONCE = 1_000_000
_MOST_SLICES = 16


@dataclass(frozen=True, slots=True)
class TokenRuns:
    """The tokens of all documents: those of document d are `terms[offsets[d]:offsets[d + 1]]`."""

    terms: NDArray[np.int32]
    offsets: NDArray[np.int64]


class TermVocabulary:
    """The number of each word, append-only, so that stored token runs stay valid; `save` writes the new ones."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (highest,) = connection.execute("SELECT max(term_no) FROM terms").fetchone()
        self._stored = 0 if highest is None else highest + 1
        self._numbers: dict[str, int] = {}
        self._new: list[str] = []

    def numbers(self, words: Sequence[str]) -> bytes:
        known = self._numbers
        return np.array([known[word] if word in known else self._number(word) for word in words], np.int32).tobytes()

    def _number(self, word: str) -> int:
        """Return the number of a word that wasn't looked up before; it may be a new one."""
        row = None
        if self._stored:
            row = self._connection.execute("SELECT term_no FROM terms WHERE term = ?", (word,)).fetchone()
        number = self._stored + len(self._new) if row is None else row[0]
        if row is None:
            self._new.append(word)
        self._numbers[word] = number
        return int(number)

    def save(self) -> None:
        if self._new:
            with transaction(self._connection):
                rows = enumerate(self._new, self._stored)
                self._connection.executemany("INSERT INTO terms (term_no, term) VALUES (?, ?)", rows)
            self._stored, self._new = self._stored + len(self._new), []


def document_lengths(body: TokenRuns, title: TokenRuns) -> NDArray[np.int32]:
    """Return the number of tokens of each document, shape `(n_docs,)`; a title counts once, whatever its boost."""
    return (np.diff(body.offsets) + np.diff(title.offsets)).astype(np.int32)


def build_postings(body: TokenRuns, title: TokenRuns, n_terms: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(term_no, df, blob)` in order of term number; terms of no document are left out.

    The vocabulary is processed in slices: the extra memory is the larger of 100 MB and 10 bytes for each token.
    """
    n_docs = len(body.offsets) - 1
    frequency = np.bincount(body.terms, minlength=n_terms) + np.bincount(title.terms, minlength=n_terms)
    numbers = np.arange(n_docs, dtype=np.int32)
    sources = [(runs.terms, np.repeat(numbers, np.diff(runs.offsets))) for runs in (body, title)]
    doc_bits = max(1, n_docs).bit_length()
    for first, last in _vocabulary_slices(frequency):
        parts = []
        for in_title, (terms, docs) in enumerate(sources):
            chosen = slice(None) if (first, last) == (0, n_terms) else ((terms >= first) & (terms < last)).nonzero()[0]
            keys = terms[chosen].astype(np.int64)
            keys <<= doc_bits
            keys |= docs[chosen]
            keys <<= 1
            keys |= in_title
            parts.append(keys)
        keys = np.concatenate(parts)
        keys.sort()
        yield from _blobs(keys, doc_bits)


@dataclass(frozen=True, slots=True)
class Postings:
    """A term's postings: ascending document numbers and the frequencies in their bodies, both of shape `(df,)`.

    `places` are the positions in `docs` of those that have the term in their title, `title` its frequencies there.
    """

    docs: NDArray[np.intp]
    body: NDArray[Any]
    places: NDArray[Any]
    title: NDArray[Any]

    def tf(self, title_boost: float) -> NDArray[np.float64]:
        """Return `body + title_boost * title`, shape `(df,)`."""
        tf = self.body.astype(np.float64)
        if len(self.places):
            tf[self.places] += title_boost * self.title
        return tf

    def renumbered(self, numbers: NDArray[np.int32]) -> "Postings":
        """Return the postings by other, ascending numbers of the documents; those with a number below 0 are dropped."""
        docs = numbers[self.docs].astype(np.intp)
        live = docs >= 0
        if live.all():
            return Postings(docs, self.body, self.places, self.title)
        titled = live[self.places]
        places = (np.cumsum(live) - 1)[self.places[titled]]
        return Postings(docs[live], self.body[live], places, self.title[titled])


def merged_postings(parts: Sequence[Postings]) -> Postings | None:
    """Return the postings of parts that have no document in common; None without any."""
    parts = [part for part in parts if len(part.docs)]
    if len(parts) < 2:
        return parts[0] if parts else None
    docs = np.concatenate([part.docs for part in parts])
    order = np.argsort(docs, kind="stable")
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order))
    firsts = itertools.accumulate((len(part.docs) for part in parts), initial=0)
    in_title = [places[part.places.astype(np.intp) + first] for part, first in zip(parts, firsts, strict=False)]
    titles, title = np.concatenate(in_title), np.concatenate([part.title for part in parts])
    return Postings(docs[order], np.concatenate([part.body for part in parts])[order], titles, title)


def read_postings(df: int, blob: bytes) -> Postings:
    """Return the postings of a blob of `build_postings`."""
    flags = blob[-1]
    gap, place = _width(flags, _WIDE_GAPS, 2), _width(flags, _WIDE_PLACES, 2)
    body, title = _width(flags, _WIDE_BODY, 1), _width(flags, _WIDE_TITLE, 1)
    titled = (len(blob) - 1 - df * (gap + body)) // (place + title)
    places_at = df * gap
    body_at = places_at + titled * place
    return Postings(
        np.cumsum(np.frombuffer(blob, f"<u{gap}", df), dtype=np.intp),
        np.frombuffer(blob, f"<u{body}", df, body_at),
        np.frombuffer(blob, f"<u{place}", titled, places_at),
        np.frombuffer(blob, f"<u{title}", titled, body_at + df * body),
    )


def _vocabulary_slices(frequency: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms with about a million tokens each, or more where there would be over 16 ranges."""
    upto = np.cumsum(frequency)
    at_once = max(_TOKENS_AT_ONCE, int(frequency.sum()) // _MOST_SLICES)
    first = 0
    while first < len(upto):
        done = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, done + at_once, side="right")))
        yield first, last
        first = last


def _blobs(keys: NDArray[np.int64], doc_bits: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield `(term_no, df, blob)` of sorted keys `term, document, in_title`, one for each token."""
    if not len(keys):
        return
    begins = _run_starts(keys)
    counts = np.diff(begins, append=len(keys))
    keys = keys[begins]
    in_title = (keys & 1).astype(bool)
    keys >>= 1

    posting_starts = _run_starts(keys)
    posting = np.repeat(np.arange(len(posting_starts)), np.diff(posting_starts, append=len(keys)))
    body = np.zeros(len(posting_starts), np.int64)
    body[posting[~in_title]] = counts[~in_title]
    titled, title = posting[in_title], counts[in_title]

    keys = keys[posting_starts]
    docs = keys & ((1 << doc_bits) - 1)
    keys >>= doc_bits
    starts = _run_starts(keys)
    gaps = np.diff(docs, prepend=0)
    gaps[starts] = docs[starts]
    title_starts = np.searchsorted(titled, starts)
    places = titled - np.repeat(starts, np.diff(title_starts, append=len(titled)))
    posting_bounds, title_bounds = np.append(starts, len(docs)), np.append(title_starts, len(titled))
    flags = (
        _has_wide(gaps, posting_bounds, 2) * _WIDE_GAPS
        + _has_wide(places, title_bounds, 2) * _WIDE_PLACES
        + _has_wide(body, posting_bounds, 1) * _WIDE_BODY
        + _has_wide(title, title_bounds, 1) * _WIDE_TITLE
    )
    # Slicing `bytes` is ten times faster than slicing arrays, and most terms occur in one or two documents.
    gaps2, places2 = gaps.astype("<u2").tobytes(), places.astype("<u2").tobytes()
    body1, title1 = body.astype("<u1").tobytes(), title.astype("<u1").tobytes()
    ranges = zip(*(bounds[i:].tolist() for bounds in (posting_bounds, title_bounds) for i in (0, 1)), strict=False)
    for term, flag, (start, end, first, last) in zip(keys[starts].tolist(), flags.tolist(), ranges, strict=True):
        if not flag:
            runs = (gaps2[2 * start : 2 * end], places2[2 * first : 2 * last], body1[start:end], title1[first:last])
        else:
            runs = (
                gaps[start:end].astype(f"<u{_width(flag, _WIDE_GAPS, 2)}").tobytes(),
                places[first:last].astype(f"<u{_width(flag, _WIDE_PLACES, 2)}").tobytes(),
                body[start:end].astype(f"<u{_width(flag, _WIDE_BODY, 1)}").tobytes(),
                title[first:last].astype(f"<u{_width(flag, _WIDE_TITLE, 1)}").tobytes(),
            )
        yield term, end - start, b"".join((*runs, bytes((flag,))))


def _has_wide(values: NDArray[np.int64], bounds: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return, for each run between two bounds, 1 if a value needs more than `width` bytes, else 0."""
    wide_before = np.searchsorted((values >= 1 << 8 * width).nonzero()[0], bounds)
    return (np.diff(wide_before) > 0).astype(np.int64)


def _run_starts(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal values begins."""
    return np.concatenate(([0], (ordered[1:] != ordered[:-1]).nonzero()[0] + 1))


def _width(flags: int, wide: int, narrow: int) -> int:
    return 4 if flags & wide else narrow


CHAMPIONS = 128
"""Documents of highest impact kept for each term; longer rankings are computed without a bound."""

_DENSE = 8
"""A term in more than one of this many documents is kept as a row of all documents, which is faster to add."""

_OBJECT_BYTES = 600


class Impacts:
    """The impacts of one term, read-only and shared between threads.

    `docs` (ascending) and `impacts` hold the postings; a very frequent term has `row` instead, of shape `(n_docs,)`.
    `champions` are documents of highest impact, best first. A term without documents has `df` 0.
    """

    __slots__ = ("champions", "df", "docs", "impacts", "nbytes", "row", "used")

    def __init__(self, docs: NDArray[np.intp], impacts: NDArray[Any], n_docs: int) -> None:
        self.df = len(docs)
        self.docs, self.impacts = docs, impacts
        self.champions = _champions(docs, impacts)
        self.row: NDArray[Any] | None = None
        if self.df > n_docs // _DENSE:
            self.row = np.zeros(n_docs, impacts.dtype)
            self.row[docs] = impacts
            self.docs, self.impacts = docs[:0].copy(), impacts[:0].copy()
        self.used = 0
        arrays = (self.docs, self.impacts, self.champions, *(() if self.row is None else (self.row,)))
        for array in arrays:
            array.flags.writeable = False
        self.nbytes = _OBJECT_BYTES + sum(array.nbytes for array in arrays)

    def at(self, docs: NDArray[np.intp]) -> NDArray[Any]:
        """Return the impact in each of `docs`, 0 in documents without the term."""
        if self.row is not None:
            return self.row[docs]
        if not self.df:
            return np.zeros(docs.shape, self.impacts.dtype)
        place = np.searchsorted(self.docs, docs)
        place[place == self.df] = 0
        return np.where(self.docs[place] == docs, self.impacts[place], self.impacts.dtype.type(0))


class ImpactReader:
    """Computes impacts from blobs, with the statistics of only the documents in `scope`.

    Postings of other documents are dropped before anything is counted, so they can't change a bit of a score.
    """

    def __init__(
        self,
        lengths: NDArray[np.int32],
        *,
        k1: float,
        b: float,
        title_boost: float,
        scope: NDArray[np.bool_] | None,
        dtype: type[np.floating[Any]],
    ) -> None:
        visible = lengths if scope is None else lengths[scope]
        self.n_docs = len(lengths)
        self._n_visible = len(visible)
        self._title_boost = title_boost
        self._scope = scope
        self._dtype = np.dtype(dtype)
        self._least = np.finfo(dtype).tiny
        tokens = int(visible.sum(dtype=np.int64))
        relative = lengths / (tokens / len(visible)) if tokens else np.zeros(len(lengths))
        self._norm = k1 * (1 - b + b * relative)

    def read(self, postings: Postings) -> Impacts:
        docs, tf = postings.docs, postings.tf(self._title_boost)
        if self._scope is not None or self._title_boost == 0:
            matching = tf > 0
            if self._scope is not None:
                matching &= self._scope[docs]
            docs, tf = docs[matching], tf[matching]
        df = len(docs)
        idf = math.log(1 + (self._n_visible - df + 0.5) / (df + 0.5))
        impacts = (idf * tf / (tf + self._norm[docs])).astype(self._dtype)
        # A match must stay above 0 however small its weight: a score of 0 means no match.
        np.maximum(impacts, self._least, out=impacts)
        return Impacts(docs, impacts, self.n_docs)

    def nothing(self) -> Impacts:
        """Return the impacts of a term without documents, cached so that it is looked up once."""
        return Impacts(np.empty(0, np.intp), np.empty(0, self._dtype), self.n_docs)


class ImpactCache:
    """A cache that evicts the least recently used terms above `limit` bytes.

    A hit takes no lock; only adding does.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._terms: dict[str, Impacts] = {}
        self._bytes = 0
        self._clock = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._terms)

    def get(self, word: str) -> Impacts | None:
        term = self._terms.get(word)
        if term is not None:
            term.used = next(self._clock)
        return term

    def put(self, word: str, term: Impacts) -> None:
        """Add `term`, unless it is larger than the cache or another thread has added it."""
        with self._lock:
            if term.nbytes > self._limit or word in self._terms:
                return
            term.used = next(self._clock)
            self._terms[word] = term
            self._bytes += term.nbytes
            if self._bytes > self._limit:
                self._evict()

    def _evict(self) -> None:
        # Down to 3/4, not to the limit, so that few additions need to sort.
        for word, term in sorted(self._terms.items(), key=lambda entry: entry[1].used):
            if self._bytes <= self._limit * 3 // 4:
                return
            del self._terms[word]
            self._bytes -= term.nbytes


def _champions(docs: NDArray[np.intp], impacts: NDArray[Any]) -> NDArray[np.intp]:
    """Return documents of about the highest impact, at most `CHAMPIONS`, best first.

    They need not be the very best: any documents of the term give a safe bound, better ones a closer bound. So a
    sample gives the threshold; partitioning would be slow where many impacts are equal (b = 0).
    """
    best = np.arange(len(docs))
    if len(docs) > 8 * CHAMPIONS:
        sample = np.sort(impacts[:: len(docs) // (4 * CHAMPIONS)])
        cut = sample[-max(2, 2 * CHAMPIONS * len(sample) // len(docs))]
        best = (impacts > cut).nonzero()[0]
        if len(best) < CHAMPIONS:
            best = (impacts >= cut).nonzero()[0]
        best = best[: 32 * CHAMPIONS]
    order = np.argsort(-impacts[best])[:CHAMPIONS]
    return docs[best[order]]
