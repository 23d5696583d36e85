"""A reranker's scores of golden queries and chunks as arrays; missing ones are requested, one request per query."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from hive_agents.index import AnyIndex
from hive_agents.models.embedding import CachedReranker, Relevance, Reranker
from hive_agents.optimizer.budget import SearchBudget
from hive_agents.ranking import Floats, IntArray, SearchEngine, stages

_AT_ONCE = 4


class RelevanceTable:
    """The scores of `texts`, the queries, one row each. Not for several threads."""

    def __init__(self, engine: SearchEngine, index: AnyIndex, texts: Sequence[str]) -> None:
        self._engine, self._index, self._texts = engine, index, texts
        self._keys = np.empty(0, np.int64)
        """`row * n_chunks + chunk`, sorted."""
        self._scores, self._seconds = np.empty(0), np.empty(0)

    def of(
        self, chunks: IntArray, wanted: NDArray[np.bool_], budget: SearchBudget | None = None
    ) -> tuple[Floats, Floats]:
        """Return the score of each chunk, -inf where it isn't `wanted`, and each row's seconds of the model.

        Raises: HIVE-214 without a reranker, HIVE-401 where it is unavailable, `SearchBudgetExhausted` between two
        requests; scores up to then are kept.
        """
        keys = np.where(wanted, chunks + np.arange(len(chunks))[:, None] * self._index.n_chunks, -1)
        self._fetch(np.setdiff1d(keys[wanted], self._keys), budget)
        places = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        if not len(self._keys):
            return np.full(chunks.shape, -np.inf), np.zeros(len(chunks))
        seconds: Floats = np.where(wanted, self._seconds[places], 0.0).sum(axis=1)
        return np.where(wanted, self._scores[places], -np.inf), seconds

    def _fetch(self, missing: IntArray, budget: SearchBudget | None) -> None:
        if not len(missing):
            return
        reranker = self._engine.required_reranker
        rows, chunks = np.divmod(missing, self._index.n_chunks)
        parts = np.split(chunks, np.flatnonzero(np.diff(rows)) + 1)

        def request(row: int, part: IntArray) -> list[Relevance]:
            if budget is not None:
                budget.require_means()
            return _scored(reranker, self._texts[row], stages.reranked_texts(self._index, part.tolist()))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(request, *item) for item in zip(np.unique(rows).tolist(), parts, strict=True)]
        answers = [future.result() if future.exception() is None else None for future in futures]
        scored = np.concatenate([np.full(len(part), one is not None) for one, part in zip(answers, parts, strict=True)])
        flat = [relevance for one in answers if one is not None for relevance in one]
        keys = np.concatenate([self._keys, missing[scored]])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._scores = np.concatenate([self._scores, [one.score for one in flat]])[order]
        self._seconds = np.concatenate([self._seconds, [one.seconds for one in flat]])[order]
        for future in futures:
            future.result()


def _scored(reranker: Reranker, query: str, texts: Sequence[str]) -> list[Relevance]:
    if isinstance(reranker, CachedReranker):
        return reranker.known_relevance(query, texts)
    started = time.perf_counter()
    scores = reranker.relevance(query, texts)
    share = (time.perf_counter() - started) / len(texts)
    return [Relevance(score, share) for score in scores]
