"""A lift for names: a chunk that has what is rare and exact in a query is moved up, in any wording of the query.

A name is a term with a digit, a joined or signed one, a word in camelCase, or one that carries at least half of the
query's idf.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hive_agents.documents import is_exact, names_in, terms, whole_writings
from hive_agents.index import BM25Params, ChunkNumbers, LaneIndex
from hive_agents.ranking.config import RetrievalConfig


def lift_weight(config: RetrievalConfig, analyzer: str) -> float:
    """Return the weight of names in the rankings of a config; 0 where they aren't lifted."""
    lift = config.lift
    if config.retrieval.method != "hybrid" or lift.enabled is False:
        return 0.0
    return lift.weight if lift.weight is not None else float(lift.enabled or is_exact(analyzer))


def lifts(index: LaneIndex, query: str, chunks: ChunkNumbers, config: RetrievalConfig) -> NDArray[np.float64]:
    """Return the factor of each chunk: 1 + weight · Σ idf of the query's names in it / Σ idf of its known terms."""
    return 1.0 + lift_weight(config, index.language) * name_shares(index, query, chunks, config.bm25.params)


def name_shares(
    index: LaneIndex, query: str, chunks: ChunkNumbers, params: BM25Params = BM25Params()
) -> NDArray[np.float64]:
    """Return for each chunk the idf of the query's names that it has, by that of all its terms in the index.

    What is written of parts counts twice, since its parts are terms of the query, too, which other chunks have.
    """
    shares = np.zeros(len(chunks))
    words, by_form, whole = _names_of(query, index.language)
    counts = zip(words, index.frequencies(words, params), strict=True)
    weights = {word: idf(index, count) for word, count in counts if count}
    total = sum(weights.values())
    names = [word for word, weight in weights.items() if word in by_form or 2 * weight >= total]
    for name, has in zip(names, index.having(names, chunks, params), strict=True):
        shares += weights[name] * (2 if name in whole else 1) * has
    return shares / total if names else shares


@lru_cache(maxsize=2_000)  # many configs are asked the same golden questions
def _names_of(query: str, language: str) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """Return the terms of a query, those that are names by their form, and those written of parts."""
    return tuple(sorted(set(terms(query, language)))), names_in(query, language), whole_writings(query, language)


def idf(index: LaneIndex, count: int) -> float:
    """Return the idf of a term that `count` chunks have."""
    return math.log(1 + (index.n_chunks - count + 0.5) / (count + 0.5))
