"""BM25 rankings of a fixed set of queries for many parameters: the postings of their terms are decoded once.

The rankings equal those of `BM25.top` to the bit: impacts are added in the same order and precision.
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
"""A term in more than one of `_DENSE` documents is added as a row of all documents, which beats scattering; so is every
term in an index of at most `_SMALL` chunks."""

_CELLS = 1_000_000
"""Most scores in memory: the limit of how many queries are ranked together."""

_LEAST = np.finfo(np.float32).tiny
_LOW, _NONE = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class _Postings:
    """The concatenated postings of all terms: those of term t are `starts[t]:starts[t + 1]`."""

    starts: NDArray[np.int64]
    documents: NDArray[np.int64]
    body: NDArray[np.float64]
    title: NDArray[np.float64]

    @cached_property
    def df(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def without_titles(self) -> _Postings:
        """Return the postings for a title boost of 0: without documents that have a term only in the title."""
        in_body = self.body > 0
        upto = np.concatenate(([0], np.cumsum(in_body)))
        return _Postings(upto[self.starts], self.documents[in_body], self.body[in_body], self.title[in_body])


@dataclass(frozen=True)
class _Plan:
    """The part independent of k1, b and the boost: idf by posting, and each query's (term, times), rarest first.

    `rows` has the number of each frequent term's row, `cells` the positions of its postings in those rows.
    """

    postings: _Postings
    idf: NDArray[np.float64]
    queries: list[list[tuple[int, int]]]
    rows: dict[int, int]
    frequent: NDArray[np.bool_]
    cells: NDArray[np.int64]


class KeywordBatch:
    """Ranks documents for each of `queries`, which are lists of terms.

    `scope` (shape `(n_docs,)`) is True for the visible documents; results number only these, from 0.
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

        Best first, ties by document number, -1 behind the last match. `only` selects queries by position, `mask`
        (shape `(n_docs,)`) documents.
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
        rankings: list[NDArray[np.int64]] = []
        for first in range(0, len(queries), at_once):
            batch = queries[first : first + at_once]
            scores.fill(0)
            for query, sums in zip(batch, scores, strict=False):
                _add(plan, query, rows, impacts, sums)
            if mask is not None:
                scores[:, ~mask] = 0
            rankings += list(_best(scores[: len(batch)], depth))
        return padded(rankings)

    @cached_property
    def _plan(self) -> _Plan:
        return self._planned(self._postings)

    @cached_property
    def _without_titles(self) -> _Plan:
        return self._planned(self._postings.without_titles())

    def _planned(self, postings: _Postings) -> _Plan:
        df = postings.df.tolist()
        # math.log as in `ImpactReader`: numpy's may differ in the last bit.
        idf = np.array([math.log(1 + (self._n_docs - n + 0.5) / (n + 0.5)) for n in df])
        numbers = {word: number for number, word in enumerate(self._words)}
        queries = []
        for query in self._queries:
            times: dict[str, int] = {}
            for word in query:
                times[word] = times.get(word, 0) + 1
            by_df = sorted((df[numbers[word]], word) for word in times if df[numbers[word]])
            queries.append([(numbers[word], times[word]) for _, word in by_df])
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
                    visible = scope[documents]
                    documents, body, title = numbers[documents[visible]], body[visible], title[visible]
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
    """Add the impacts of the query's terms to the documents' scores, shape `(n_docs,)`."""
    for term, times in query:
        row = plan.rows.get(term)
        run = slice(plan.postings.starts[term], plan.postings.starts[term + 1])
        each = impacts[run] if row is None else rows[row]
        if times > 1:
            each = each * np.float32(times)
        if row is None:
            scores[plan.postings.documents[run]] += each  # no document is twice in a run
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
    # The bits of positive floats sort like the floats: one sort of score and number in one integer.
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
