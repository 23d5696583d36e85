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

from hive_agents.index.bm25 import BM25Params, PostingSource
from hive_agents.models.embedding import Recent

_DENSE, _SMALL = 8, 16_384
"""A term in more than one of `_DENSE` documents is added as a row of all documents, which beats scattering; so is every
term in an index of at most `_SMALL` chunks."""

_CELLS = 1_000_000
"""Most scores in memory: the limit of how many queries are ranked together."""

_STRIDE = 16
"""Every `_STRIDE`-th score of a row gives the bound that the rest is compared with: partitioning all takes longest."""

_PLANS = 16
"""Plans in memory: each mask has its own."""

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
        return self._only(self.body > 0, self.documents)

    def within(self, mask: NDArray[np.bool_]) -> _Postings:
        """Return the postings of the documents in `mask`, which are numbered from 0."""
        return self._only(mask[self.documents], (np.cumsum(mask) - 1)[self.documents])

    def _only(self, chosen: NDArray[np.bool_], documents: NDArray[np.int64]) -> _Postings:
        upto = np.concatenate(([0], np.cumsum(chosen)))
        return _Postings(upto[self.starts], documents[chosen], self.body[chosen], self.title[chosen])


@dataclass(frozen=True)
class _Plan:
    """The part independent of k1, b and the boost: idf by posting, and each query's (term, times), rarest first.

    `numbers` and `relative`, shape `(n_docs,)`, are the number of each document that may be returned and its length,
    in mean lengths of all documents. The postings number them from 0.
    """

    numbers: NDArray[np.int64]
    relative: NDArray[np.float64]
    postings: _Postings
    idf: NDArray[np.float64]
    queries: list[list[tuple[int, int]]]

    @cached_property
    def rows(self) -> dict[int, int]:
        """The number of each frequent term's row."""
        n_docs = len(self.numbers)
        frequent = self.postings.df > (0 if n_docs <= _SMALL else n_docs // _DENSE)
        return {term: row for row, term in enumerate(np.flatnonzero(frequent).tolist())}

    @cached_property
    def _row_of(self) -> NDArray[np.int64]:
        df = self.postings.df
        return np.repeat(np.array([self.rows.get(term, -1) for term in range(len(df))], np.int64), df)

    @cached_property
    def frequent(self) -> NDArray[np.bool_]:
        """Which postings are those of frequent terms."""
        return self._row_of >= 0

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """The positions of the frequent terms' postings in their rows."""
        cells = self._row_of * len(self.numbers) + self.postings.documents
        return cells[self.frequent]

    def within(self, mask: NDArray[np.bool_]) -> _Plan:
        """Return the plan for the documents in `mask` alone, with the statistics of all."""
        passing = mask[self.postings.documents]
        return _Plan(
            self.numbers[mask], self.relative[mask], self.postings.within(mask), self.idf[passing], self.queries
        )


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
        self._plans: Recent[tuple[bool, bytes], _Plan] = Recent(_PLANS)

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
        plan = self._plan(params.title_boost != 0, mask)
        postings, n_docs = plan.postings, len(plan.numbers)
        tf = postings.body + params.title_boost * postings.title
        norm = params.k1 * (1 - params.b + params.b * plan.relative)
        impacts = (plan.idf * tf / (tf + norm[postings.documents])).astype(np.float32)
        np.maximum(impacts, _LEAST, out=impacts)
        rows = np.zeros((len(plan.rows), n_docs), np.float32)
        rows.ravel()[plan.cells] = impacts[plan.frequent]
        queries = plan.queries if only is None else [plan.queries[place] for place in only]
        at_once = max(1, _CELLS // max(1, n_docs))
        scores = np.zeros((min(at_once, len(queries)), n_docs), np.float32)
        rankings: list[NDArray[np.int64]] = []
        for first in range(0, len(queries), at_once):
            batch = queries[first : first + at_once]
            scores.fill(0)
            for query, sums in zip(batch, scores, strict=False):
                _add(plan, query, rows, impacts, sums)
            best = _best(scores[: len(batch)], depth)
            rankings += list(best if mask is None else np.where(best >= 0, plan.numbers[best], -1))
        return padded(rankings)

    def _plan(self, titles: bool, mask: NDArray[np.bool_] | None) -> _Plan:
        if mask is None:
            return self._plans.get((titles, b""), lambda: self._unmasked_plan(titles))
        return self._plans.get((titles, np.packbits(mask).tobytes()), lambda: self._plan(titles, None).within(mask))

    def _unmasked_plan(self, titles: bool) -> _Plan:
        postings = self._postings if titles else self._postings.without_titles()
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
        return _Plan(np.arange(self._n_docs), self._relative, postings, np.repeat(idf, postings.df), queries)

    def _read(self, source: PostingSource, scope: NDArray[np.bool_] | None) -> _Postings:
        numbers = None if scope is None else np.cumsum(scope) - 1
        starts, runs = [0], []
        for word in self._words:
            stored = source.postings(word)
            if stored is not None:
                documents, body = stored.docs, stored.tf(0.0)
                title = stored.tf(1.0) - body
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
    least = np.maximum(_low_bound(scores, depth), _LEAST)
    enough = scores >= least
    # The bound of a sample is too high for some rows.
    short = np.flatnonzero((np.count_nonzero(enough, axis=1) < depth) & (least[:, 0] > _LEAST))
    if len(short):
        enough[short] = scores[short] >= np.maximum(_nth_highest(scores[short], depth), _LEAST)
    places = np.flatnonzero(enough)
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


def _nth_highest(scores: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Return the n-th highest score of each row as a column, 0 in rows with fewer."""
    place = scores.shape[1] - n
    if place < 0:
        return np.zeros((len(scores), 1), scores.dtype)
    return np.partition(scores, place, axis=1)[:, place : place + 1]


def _low_bound(scores: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """Return a column of what is mostly a little lower than the n-th highest score of each row, from a sample."""
    expected = n / _STRIDE
    sample = np.ascontiguousarray(scores[:, ::_STRIDE])
    return _nth_highest(sample, int(expected + 3 * math.sqrt(expected)) + 1)


def padded(lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return lists of numbers as the rows of a matrix, -1 behind the end of each; at least one column."""
    width = max((len(row) for row in lists), default=0)
    rows = np.full((len(lists), max(width, 1)), -1, np.int64)
    for number, row in enumerate(lists):
        rows[number, : len(row)] = row
    return rows
