"""A lift for names: a chunk that has what is rare and exact in a query is moved up, in any wording of the query.

A name is a term with a digit, a joined or signed one, a word in camelCase, or one that carries most of the idf
of the query's content.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hive_agents.documents import analysis, function_terms, is_exact, names_in, spoken_language, terms
from hive_agents.index import BM25Params, ChunkNumbers, LaneIndex, TextIndex
from hive_agents.models.embedding import Recent
from hive_agents.ranking.config import RetrievalConfig

T = TypeVar("T")
_QUERIES = 2_000
MOST = 0.52
"""At half, one word of two in "reset password" would be a name, which is worse for questions in other words."""


def kept_by_index(read: Callable[[LaneIndex, str, BM25Params], T]) -> Callable[[LaneIndex, str, BM25Params], T]:
    """Keep what is read of a query's words alone, for the last 2,000 queries of each index: configs ask the same."""
    kept: WeakKeyDictionary[LaneIndex, Recent[tuple[str, BM25Params], T]] = WeakKeyDictionary()

    def of_index(index: LaneIndex, query: str, params: BM25Params) -> T:
        queries = kept.setdefault(index, Recent(_QUERIES))
        return queries.get((query, params), lambda: read(index, query, params))

    return of_index


def lift_weight(config: RetrievalConfig, analyzer: str) -> float:
    """Return the weight of names in the rankings of a config; 0 where they aren't lifted."""
    lift = config.lift
    if config.retrieval.method != "hybrid" or lift.enabled is False:
        return 0.0
    return lift.weight if lift.weight is not None else float(lift.enabled or is_exact(analyzer))


def name_shares(
    index: LaneIndex, query: str, chunks: ChunkNumbers, params: BM25Params = BM25Params()
) -> NDArray[np.float64]:
    """Return for each chunk s · (1 + s): s is the idf of the query's names that it has, by that of the query's content.

    What is written of parts counts twice, since its parts are terms of the query, too, which other chunks have. So does
    what a row, a heading or an item begins with: other chunks mention it, this one is about it. The square is for a
    chunk that only the keyword lane has, as of a table or an advisory among thousands: with most of the content it
    stands before one that is first in both lanes without it.
    """
    shares = np.zeros(len(chunks))
    names, total = _weighed_names(index, query, params)
    having = index.having([*names, *map(analysis.subject, names)], chunks, params)
    for weight, has in zip([*names.values()] * 2, having, strict=True):
        shares += weight * has
    if names:
        shares /= total
    return shares * (1 + shares)


@kept_by_index
def _weighed_names(index: LaneIndex, query: str, params: BM25Params) -> tuple[dict[str, float], float]:
    """Return the names of a query with their weights, and what all of its content weighs."""
    words, by_form, whole = _names_of(query, index.language)
    counts = zip(words, index.frequencies(words, params), strict=True)
    weights = {word: idf(index, count) for word, count in counts if count}
    total = sum(weights.values())
    names = {word: weight for word, weight in weights.items() if word in by_form or weight >= MOST * total}
    return {word: weight * (2 if word in whole else 1) for word, weight in names.items()}, total


@lru_cache(maxsize=_QUERIES)  # many configs are asked the same golden questions
def _names_of(query: str, language: str) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """Return the terms of a query's content, those that are names by their form, and those written of parts."""
    found = set(terms(query, language))
    # "Tell me about" is rare in documents that tell nobody anything.
    content = found - function_terms(language, spoken_language(query, language))
    return tuple(sorted(content or found)), names_in(query, language), analysis.whole_writings(query, language)


def idf(index: LaneIndex | TextIndex, count: int) -> float:
    """Return the idf of a term that `count` chunks have."""
    return math.log(1 + (index.n_chunks - count + 0.5) / (count + 0.5))
