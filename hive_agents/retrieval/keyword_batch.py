"""BM25 of a fixed set of queries under any parameters: the postings of their terms are decoded once.

The lists are those of `BM25.top` bit for bit. Impacts are computed for all terms in one expression, and added in the
same order and precision as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hive_agents.retrieval.bm25 import BM25Params, PostingSource
from hive_agents.retrieval.postings import read_postings

_DENSE, _SMALL = 8, 16_384
"""A term in more than one of so many documents is added as a row of all of them: that beats scattering. In an index of
at most so many chunks every term is."""

_CELLS = 1_000_000
"""So many scores are held at once: queries are ranked together, as many as have no more."""

_LEAST = np.finfo(np.float32).tiny
_LOW, _NONE = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class _Postings:
    """The postings of all terms, one run after the other: those of term t are `starts[t]:starts[t + 1]`."""

    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    body: NDArray[np.float64]
    title: NDArray[np.float64]

    @cached_property
    def df(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def without_titles(self) -> _Postings:
        """Return the postings as a title boost of 0 sees them: a term in the title alone isn't there."""
        kept = self.body > 0
        upto = np.concatenate(([0], np.cumsum(kept)))
        return _Postings(upto[self.starts], self.documents[kept], self.body[kept], self.title[kept])


@dataclass(frozen=True)
class _Plan:
    """What k1, b and the boost don't change: idf by posting, and each query's (term, times), rarest first.

    `rows` has the number of each frequent term's row, and `cells` the place of its postings in those rows.
    """

    postings: _Postings
    idf: NDArray[np.float64]
    queries: list[list[tuple[int, int]]]
    rows: dict[int, int]
    frequent: NDArray[np.bool_]
    cells: NDArray[np.int64]


class KeywordBatch:
    """Ranks documents for each of `queries`, which are lists of terms.

    `scope` (shape `(n_docs,)`) says which documents exist for the reader; results number these alone, from 0.
    """

    def __init__(
        self, source: PostingSource, queries: Sequence[Sequence[str]], scope: NDArray[np.bool_] | None = None
    ) -> None:
        lengths = source.lengths if scope is None else source.lengths[scope]
        tokens = int(lengths.sum(dtype=np.int64))
        self._n_docs = len(lengths)
        self._relative = lengths / (tokens / len(lengths)) if tokens else np.zeros(len(lengths))
        self._words = sorted({word for query in queries for word in query})
        self._queries = queries
        self._postings = self._read(source, scope)

    def top(
        self,
        params: BM25Params,
        depth: int,
        *,
        only: Sequence[int] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.int64]:
        """Return the `depth` best documents of each query, shape `(n_queries, depth)` or narrower.

        Best first, ties by document number, -1 behind the last match. `only` picks queries, by their place; no
        document outside `mask`, shape `(n_docs,)`, is returned.
        """
        plan = self._without_titles if params.title_boost == 0 else self._plan
        postings = plan.postings
        tf = postings.body + params.title_boost * postings.title
        norm = params.k1 * (1 - params.b + params.b * self._relative)
        impacts = (plan.idf * tf / (tf + norm[postings.documents])).astype(np.float32)
        np.maximum(impacts, _LEAST, out=impacts)
        rows = np.zeros((len(plan.rows), self._n_docs), np.float32)
        rows.ravel()[plan.cells] = impacts[plan.frequent]
        queries = plan.queries if only is None else [plan.queries[place] for place in only]
        at_once = max(1, _CELLS // max(1, self._n_docs))
        scores = np.zeros((min(at_once, len(queries)), self._n_docs), np.float32)
        found = []
        for first in range(0, len(queries), at_once):
            some = queries[first : first + at_once]
            scores.fill(0)
            for query, into in zip(some, scores, strict=False):
                _add(plan, query, rows, impacts, into)
            if mask is not None:
                scores[:, ~mask] = 0
            found += list(_best(scores[: len(some)], depth))
        return padded(found)

    @cached_property
    def _plan(self) -> _Plan:
        return self._planned(self._postings)

    @cached_property
    def _without_titles(self) -> _Plan:
        return self._planned(self._postings.without_titles())

    def _planned(self, postings: _Postings) -> _Plan:
        df = postings.df.tolist()
        # math.log, as the engine has it: numpy's may differ in the last bit.
        idf = np.array([math.log(1 + (self._n_docs - n + 0.5) / (n + 0.5)) for n in df])
        numbers = {word: number for number, word in enumerate(self._words)}
        queries = []
        for query in self._queries:
            times: dict[str, int] = {}
            for word in query:
                times[word] = times.get(word, 0) + 1
            known = sorted((df[numbers[word]], word) for word in times if df[numbers[word]])
            queries.append([(numbers[word], times[word]) for _, word in known])
        small = self._n_docs <= _SMALL
        frequent = [term for term, n in enumerate(df) if small or n > self._n_docs // _DENSE]
        rows = {term: row for row, term in enumerate(frequent)}
        row_of = np.repeat([rows.get(term, -1) for term in range(len(df))], postings.df)
        cells = row_of * self._n_docs + postings.documents
        return _Plan(postings, np.repeat(idf, postings.df), queries, rows, row_of >= 0, cells[row_of >= 0])

    def _read(self, source: PostingSource, scope: NDArray[np.bool_] | None) -> _Postings:
        numbers = None if scope is None else np.cumsum(scope) - 1
        starts, runs = [0], []
        for word in self._words:
            stored = source.postings(word)
            if stored is not None:
                documents, body = read_postings(*stored, 0.0)
                title = read_postings(*stored, 1.0)[1] - body
                if scope is not None and numbers is not None:
                    kept = scope[documents]
                    documents, body, title = numbers[documents[kept]], body[kept], title[kept]
                runs.append((documents.astype(np.int64), body, title))
            starts.append(starts[-1] + (len(runs[-1][0]) if stored is not None else 0))
        nothing = (np.empty(0, np.int64), np.empty(0), np.empty(0))
        joined = [np.concatenate(parts) for parts in zip(*runs, nothing, strict=True)]
        return _Postings(np.array(starts, np.int64), joined[0], joined[1], joined[2])


def _add(
    plan: _Plan,
    query: Sequence[tuple[int, int]],
    rows: NDArray[np.float32],
    impacts: NDArray[np.float32],
    scores: NDArray[np.float32],
) -> None:
    """Add what each term of the query brings to the documents' scores, shape `(n_docs,)`."""
    for term, times in query:
        row = plan.rows.get(term)
        run = slice(plan.postings.starts[term], plan.postings.starts[term + 1])
        each = impacts[run] if row is None else rows[row]
        if times > 1:
            each = each * np.float32(times)
        if row is None:
            scores[plan.postings.documents[run]] += each  # a document stands once in a term's run
        else:
            scores += each


def _best(scores: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    """Return the documents of each row's highest scores above 0, best first, ties by number, -1 behind the last."""
    n, n_docs = scores.shape
    least: NDArray[np.float32] | np.float32 = _LEAST
    if depth < n_docs:
        place = n_docs - depth
        least = np.maximum(np.partition(scores, place, axis=1)[:, place : place + 1], _LEAST)
    places = np.flatnonzero(scores >= least)
    values = scores.take(places).view(np.uint32)
    starts = np.searchsorted(places, np.arange(n + 1) * n_docs)
    counts = np.diff(starts)
    width = int(counts.max(initial=0))
    keys = np.full((n, width), _NONE)
    # The bits of positive floats are in order as numbers: one sort of score and number together, without a second key.
    behind = np.repeat(np.arange(n) * width - starts[:-1], counts)
    documents = places - np.repeat(np.arange(n) * n_docs, counts)
    keys.ravel()[np.arange(len(places)) + behind] = (_LOW - values) << np.uint64(32) | documents.astype(np.uint64)
    keys.sort(axis=1)
    return keys[:, :depth].astype(np.uint32).view(np.int32).astype(np.int64)  # the low bits


def padded(lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return lists of numbers as the rows of a matrix, -1 behind the end of each; at least one column."""
    width = max((len(row) for row in lists), default=0)
    rows = np.full((len(lists), max(width, 1)), -1, np.int64)
    for number, row in enumerate(lists):
        rows[number, : len(row)] = row
    return rows
