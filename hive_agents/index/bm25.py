"""Exact BM25 over an inverted index in any storage.

Every posting of every query term is added, so the result is that of brute force. Speed comes from numpy's scatter, a
cache of decoded terms, and a bound that avoids a full sort: the k-th best score among the champions of the query's
terms, read when all scores are final, cannot be above the k-th best score of all.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.index.postings import CHAMPIONS, ImpactCache, ImpactReader, Impacts, Postings

_SPARSE = 12
"""With fewer postings than one in this many documents, a second pass over them is faster than a scan of all scores."""

_FEW_CHAMPIONS = 32

# Too small a cache costs most of the speed: at 500,000 documents, a thousand queries touch 150 MB of terms.
_CACHE_BYTES = 48 << 20
_CACHE_BYTES_A_DOCUMENT = 400

_Query = list[tuple[int, str, Impacts, int]]


@dataclass(frozen=True, slots=True)
class BM25Params:
    """`k1` (0 to 10) sets how fast repetition saturates, `b` (0 to 1) the effect of length.

    `title_boost` (0 to 10) is the weight of an occurrence in the title in tf; in a document's length its weight is 1.
    At 0 a document with a term in its title only does not contain it, for df either.
    """

    k1: float = 1.2
    b: float = 0.75
    title_boost: float = 1.0

    @property
    def matching(self) -> BM25Params:
        """Return the parameters that many others share with these, by which documents contain the same terms."""
        return BM25Params() if self.title_boost else BM25Params(title_boost=0.0)


class PostingSource(Protocol):
    """Storage of postings. Called from any thread that searches."""

    @property
    def n_docs(self) -> int: ...

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each document, title included, shape `(n_docs,)`."""
        ...

    def postings(self, term: str) -> Postings | None:
        """Return a term's postings, None for an unknown term."""
        ...


class BM25:
    """Ranks the documents of a source; one object serves all threads.

    score(d) = Σ_terms idf · tf / (tf + k1 · (1 - b + b · length / average length)),
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)). A term that is twice in the query counts twice.

    `scope` (shape `(n_docs,)`) is the documents that exist for the reader: N, df and the average length are theirs,
    and no other document affects any bit of a result.

    `cache_bytes` bounds the decoded terms: by default 48 MiB, above 126,000 documents 400 bytes for each. Scorers of
    one source can share a `board` of their `dtype`.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), in the variant
    of Lucene 8 and later, without the constant factor k1 + 1.
    """

    def __init__(
        self,
        source: PostingSource,
        params: BM25Params = BM25Params(),
        *,
        scope: NDArray[np.bool_] | None = None,
        cache_bytes: int | None = None,
        dtype: type[np.floating[Any]] = np.float32,
        board: Board | None = None,
    ) -> None:
        self.params = params
        self._source = source
        self._n_docs = source.n_docs
        if cache_bytes is None:
            cache_bytes = max(_CACHE_BYTES, _CACHE_BYTES_A_DOCUMENT * self._n_docs)
        self.cache = ImpactCache(cache_bytes)
        self._dtype = np.dtype(dtype)
        self._reader = ImpactReader(
            source.lengths, k1=params.k1, b=params.b, title_boost=params.title_boost, scope=scope, dtype=dtype
        )
        self._board = board or Board(self._n_docs, self._dtype)

    def top(
        self, terms: Sequence[str], k: int, *, mask: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the k best documents, or fewer, and their scores, best first, ties by document number.

        Documents outside `mask` are left out; the statistics stay those of the collection.
        """
        if mask is not None and mask.shape != (self._n_docs,):
            raise ValueError(f"mask has shape {mask.shape}, the collection {self._n_docs} documents")
        query = self._read(terms)
        if not query or k < 1:
            return np.empty(0, np.intp), np.empty(0, self._dtype)
        board = self._board
        sparse = sum(part[0] for part in query) <= self._n_docs // _SPARSE
        try:
            board.add(query)
            bound = board.bound(query, k, mask)
            docs = board.among_postings(query, bound, mask) if sparse else board.among_all(bound, mask)
            scores = board.scores.take(docs)
        finally:
            board.clear(query if sparse else None)
        return _best(docs, scores, k)

    def scores(self, terms: Sequence[str], docs: NDArray[np.intp]) -> NDArray[Any]:
        """Return the score of each of `docs`, the same bits as in `top`; 0 without a match or outside the scope."""
        total = np.zeros(len(docs), self._dtype)
        for _, _, term, times in self._read(terms):
            impacts = term.at(docs)
            total += impacts if times == 1 else impacts * self._dtype.type(times)
        return total

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Return the df of each term in the scope."""
        return [(self.cache.get(word) or self._load(word)).df for word in terms]

    def having(self, terms: Sequence[str], docs: NDArray[np.intp]) -> list[NDArray[np.bool_]]:
        """Return for each term which of `docs` have it, in their shape."""
        return [(self.cache.get(word) or self._load(word)).at(docs) > 0 for word in terms]

    def _read(self, terms: Sequence[str]) -> _Query:
        """Return the terms with postings, rarest first: a fixed order, so that scores don't depend on that of words."""
        times: dict[str, int] = {}
        for word in terms:
            times[word] = times.get(word, 0) + 1
        query = []
        for word, n in times.items():
            term = self.cache.get(word) or self._load(word)
            if term.df:
                query.append((term.df, word, term, n))
        query.sort()
        return query

    def _load(self, word: str) -> Impacts:
        stored = self._source.postings(word)
        term = self._reader.read(stored) if stored else self._reader.nothing()
        self.cache.put(word, term)
        return term


class Board(threading.local):
    """The scores of all documents during a query; each thread has its own, all zero between queries."""

    def __init__(self, n_docs: int, dtype: np.dtype[Any] = np.dtype(np.float32)) -> None:
        self.scores = np.zeros(n_docs, dtype)
        self._hit = np.empty(n_docs, np.bool_)
        self._mark = np.empty(n_docs, np.int32)

    def add(self, query: _Query) -> None:
        scores = self.scores
        times_type = scores.dtype.type
        for _, _, term, times in query:
            if term.row is not None:
                np.add(scores, term.row if times == 1 else term.row * times_type(times), out=scores)
            else:
                np.add.at(scores, term.docs, term.impacts if times == 1 else term.impacts * times_type(times))

    def bound(self, query: _Query, k: int, mask: NDArray[np.bool_] | None) -> Any:
        """Return a score that at least k documents in `mask` reach, None with too few champions."""
        each = max(k, _FEW_CHAMPIONS)
        if k > CHAMPIONS * len(query):
            return None
        docs = np.concatenate([term.champions[:each] for _, _, term, _ in query])
        if mask is not None:
            # A champion that the mask excludes would raise the bound above documents that belong in the list.
            docs = docs[mask[docs]]
        if len(query) > 1:
            docs = self._distinct(docs)
        if len(docs) < k:
            return None
        scores = self.scores.take(docs)
        scores.sort()
        return scores[-k]

    def among_all(self, bound: Any, mask: NDArray[np.bool_] | None) -> NDArray[np.intp]:
        """Return the documents that reach the bound, ascending; without a bound all with a score."""
        hit = self._hit
        if bound is None:
            np.greater(self.scores, 0, out=hit)
        else:
            np.greater_equal(self.scores, bound, out=hit)
        if mask is not None:
            np.logical_and(hit, mask, out=hit)
        return hit.nonzero()[0]

    def among_postings(self, query: _Query, bound: Any, mask: NDArray[np.bool_] | None) -> NDArray[np.intp]:
        """As `among_all`, but read only documents with a term of the query."""
        docs = query[0][2].docs if len(query) == 1 else np.concatenate([term.docs for _, _, term, _ in query])
        if bound is not None:
            docs = docs[self.scores.take(docs) >= bound]
        if mask is not None:
            docs = docs[mask[docs]]
        if len(query) > 1:
            docs = self._distinct(docs)
            docs.sort()
        return docs

    def clear(self, query: _Query | None) -> None:
        """Reset to zero the scores of the documents of `query`, or all."""
        if query is None:
            self.scores.fill(0)
            return
        for _, _, term, _ in query:
            self.scores[term.docs] = 0

    def _distinct(self, docs: NDArray[np.intp]) -> NDArray[np.intp]:
        # Several times cheaper than a sort: each document keeps the last of its positions.
        positions = np.arange(len(docs), dtype=np.int32)
        self._mark[docs] = positions
        distinct: NDArray[np.intp] = docs[self._mark[docs] == positions]
        return distinct


def _best(docs: NDArray[np.intp], scores: NDArray[Any], k: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the k best of ascending `docs`, best first, ties by document number."""
    if len(docs) > 16 * k:
        # A sample's k-th best is a safe bound too, and leaves about 16 k: a sort or partition of everything is slow.
        sample = np.sort(scores[::16])
        if len(sample) > k:
            candidates = (scores >= sample[-k]).nonzero()[0]
            docs, scores = docs[candidates], scores[candidates]
    if len(docs) > 2 * k:
        least = np.sort(scores)[-k]
        above = (scores > least).nonzero()[0]
        ties = (scores == least).nonzero()[0][: k - len(above)]
        best = np.concatenate((above, ties))
        docs, scores = docs[best], scores[best]
    order = (-scores).argsort(kind="stable")[:k]
    return docs[order], scores[order]
