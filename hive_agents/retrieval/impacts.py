"""What BM25 knows of a term once it is read: its weight in every document, ready to be added up."""

import itertools
import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.postings import read_postings

CHAMPIONS = 128
"""Documents of highest impact kept for each term; lists of more than this many hits are found without a bound."""

_DENSE = 8
"""A term in more than one of this many documents is kept as a row of all of them: adding it beats scattering."""

_OBJECT_BYTES = 600


class Impacts:
    """The impacts of one term, read-only and shared between threads.

    `docs` (ascending) and `impacts` hold the postings; a very frequent term has `row` instead, of shape `(n_docs,)`.
    `champions` are documents of highest impact, best first. `df` 0 stands for a term that matches nothing.
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
        """The impact in each of `docs`, 0 where the term does not stand."""
        if self.row is not None:
            return self.row[docs]
        place = np.searchsorted(self.docs, docs)
        place[place == self.df] = 0
        return np.where(self.docs[place] == docs, self.impacts[place], self.impacts.dtype.type(0))


class ImpactReader:
    """Turns blobs to impacts, with the statistics of the documents in `scope` and no others.

    A document out of scope leaves the postings before anything is counted, so it cannot move a bit of a score.
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

    def read(self, df: int, blob: bytes) -> Impacts:
        docs, tf = read_postings(df, blob, self._title_boost)
        if self._scope is not None or self._title_boost == 0:
            kept = tf > 0
            if self._scope is not None:
                kept &= self._scope[docs]
            docs, tf = docs[kept], tf[kept]
        df = len(docs)
        idf = math.log(1 + (self._n_visible - df + 0.5) / (df + 0.5))
        impacts = (idf * tf / (tf + self._norm[docs])).astype(self._dtype)
        # A match must stay above 0 however small its weight: 0 is how the scorer knows that nothing matched.
        np.maximum(impacts, self._least, out=impacts)
        return Impacts(docs, impacts, self.n_docs)

    def nothing(self) -> Impacts:
        """The impacts of a term that stands in no document, kept so that its absence is looked up once."""
        return Impacts(np.empty(0, np.intp), np.empty(0, self._dtype), self.n_docs)


class ImpactCache:
    """The least recently used terms leave when all together hold more than `limit` bytes.

    A hit takes no lock: it reads a dict and stamps the entry. Only adding locks.
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
        """Keep `term`, unless it alone is larger than the cache or another thread was faster."""
        with self._lock:
            if term.nbytes > self._limit or word in self._terms:
                return
            term.used = next(self._clock)
            self._terms[word] = term
            self._bytes += term.nbytes
            if self._bytes > self._limit:
                self._evict()

    def _evict(self) -> None:
        # Down to 3/4, not to the limit: the sort is then paid once in many additions.
        for word, term in sorted(self._terms.items(), key=lambda entry: entry[1].used):
            if self._bytes <= self._limit * 3 // 4:
                return
            del self._terms[word]
            self._bytes -= term.nbytes


def _champions(docs: NDArray[np.intp], impacts: NDArray[Any]) -> NDArray[np.intp]:
    """Documents of about the highest impact, at most `CHAMPIONS`, best first.

    They need not be the very best: any documents of the term make a safe bound, better ones a closer bound. So a
    sample finds the cut; partitioning would be slow where many impacts are equal (b = 0).
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
