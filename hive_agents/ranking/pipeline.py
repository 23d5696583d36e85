"""The steps of a ranking, declared once and in order.

A search takes one query through `RETRIEVE`, `RERANK` and `FINISH`, with a permission gate between them if its caller
has one; the optimizer takes all golden queries through `STEPS` at a time and remembers what a step returned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from hive_agents.index import Mask
from hive_agents.models.embedding import Recent
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.cutoff import Lists
from hive_agents.ranking.factors import FACTORS, Factor, Queries
from hive_agents.ranking.fusion import Floats, Fused, IntArray, LanePool, best_columns, joined, rrf

_PREFIX, _THINNED_PREFIX = 16, 48
"""How many places of a fused list are ordered, mostly enough for scoring; more where chunks are dropped."""
_WORDED = 10
"""Chunks of the keyword lane that are checked for having every word of the query."""

_EMPTY, _NONE, _PLACES = np.empty(0, np.int64), np.empty((0, 0)), np.empty((0, 0), np.int64)
_NO_POOL, _UNFUSED = joined(_PLACES, _PLACES), Fused(_PLACES, _NONE, (_PLACES, _PLACES))
_UNLISTED = Lists(_PLACES, _NONE, _EMPTY, _PLACES)


class RankingState(NamedTuple):
    """Rankings of n queries in progress.

    Of a pool's lanes the first `depth` are candidates; each row has so many `available`. `scores` are those of its
    columns, negative for no candidate. From ordering on `fused` stands for both, and `lists` have its places, best
    first. `quiet` tells which queries have no list, `floored` which lost places to the reranker's floor; `lengths` are
    those of the lists.
    """

    pool: LanePool = _NO_POOL
    depth: int = 0
    scores: Floats = _NONE
    available: IntArray = _EMPTY
    fused: Fused = _UNFUSED
    lists: Lists = _UNLISTED
    quiet: Mask | None = None
    floored: Mask | None = None
    lengths: IntArray = _EMPTY


@dataclass(frozen=True)
class RankingStep:
    """A step of a ranking; `apply` also gets how many places to sort, None for all.

    `setting`, of a config and an analyzer, is what decides its result, None where it is off: equal ones act alike, so
    that caches go by them.
    """

    name: str
    setting: Callable[[RetrievalConfig, str], Hashable | None]
    apply: Callable[[RankingState, Queries, RetrievalConfig, int | None], RankingState]


def settings(config: RetrievalConfig, analyzer: str) -> tuple[Hashable | None, ...]:
    """Return the settings of all steps: configs with equal ones rank alike over the same pools."""
    return tuple(step.setting(config, analyzer) for step in STEPS)


def run(
    pooled: RankingState,
    of: Queries,
    config: RetrievalConfig,
    steps: Sequence[RankingStep],
    *,
    wanted: int | None = None,
    kept: Mapping[str, Recent[object, RankingState]] = MappingProxyType({}),
    pool: Hashable = None,
) -> RankingState:
    """Return the state after these steps, the lists complete in their first `wanted` places, wholly if None.

    `kept` has caches of what steps return, by name, in whose keys `pool` stands for `pooled`.
    """
    used = tuple(step.setting(config, of.index.language) for step in steps)
    width = wanted and max(wanted, _PREFIX if config.retrieval.per_document is None else _THINNED_PREFIX)

    def after(count: int, width: int | None) -> RankingState:
        """Return the state after so many steps; none is taken before one whose result is kept."""
        while count and used[count - 1] is None:
            count -= 1
        if not count:
            return pooled
        step = steps[count - 1]

        def taken() -> RankingState:
            return step.apply(after(count - 1, width), of, config, width)

        if step.name not in kept:
            return taken()
        return kept[step.name].get((pool, used[:count], width if count > _SORTED else None), taken)

    while True:
        state = after(len(steps), width)
        short = (state.lists.available < (wanted or 0)) & (state.available > state.lists.order.shape[1])
        if width is None or not short.any():
            return state
        width *= 4  # more may follow the prefix


def needs_vectors(config: RetrievalConfig) -> bool:
    """Return whether a search by this config embeds its query."""
    return config.retrieval.vector or config.abstain.enabled or config.abstain.min_cosine is not None


def worded_depth(config: RetrievalConfig) -> int:
    """Return how many chunks of the keyword lane are checked for having every word of the query."""
    return min(_WORDED, config.retrieval.candidates)


def _fused(state: RankingState, _of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    retrieval, pool = config.retrieval, state.pool
    lanes = ([pool.keyword] if retrieval.keyword else []) + ([pool.vector] if retrieval.vector else [])
    scores, available = rrf(pool, lanes, retrieval.lane_weights, retrieval.rrf_k, state.depth)
    return state._replace(scores=scores, available=available)


def _multiplied(factor: Factor) -> RankingStep:
    def apply(state: RankingState, of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
        scores = state.scores
        return state._replace(scores=np.where(scores >= 0, scores * factor.factors(of, state.pool, config), scores))

    return RankingStep(factor.block, factor.setting, apply)


def _ordered(state: RankingState, of: Queries, config: RetrievalConfig, width: int | None) -> RankingState:
    pool, scores, available = state.pool, state.scores, state.available
    if width is None:
        columns = best_columns(scores, scores.shape[1])[:, : available.max(initial=0)]
    else:
        columns = best_columns(scores, max(width, config.rerank.candidates if config.rerank.enabled else 0))
    cells = columns + scores.shape[1] * np.arange(len(scores))[:, None]
    fused = Fused(pool.chunks.take(cells), scores.take(cells), (pool.keyword.take(cells), pool.vector.take(cells)))
    places = np.broadcast_to(np.arange(columns.shape[1]), columns.shape)
    lists = Lists(places, fused.scores, available, of.index.document_numbers(fused.chunks))
    return RankingState(available=available, fused=fused, lists=lists)


def _silenced(state: RankingState, of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    abstain, nearest = config.abstain, of.nearest(config)
    quiet = np.zeros(len(nearest), np.bool_)
    if abstain.min_cosine is not None:
        quiet = nearest < abstain.min_cosine
        if abstain.unless_all_words and config.retrieval.keyword:
            quiet &= ~of.worded(config, quiet)
    if abstain.enabled and not quiet.all():
        unanswered = ~of.answered(config)
        if unanswered.any():
            quiet |= unanswered & (nearest < of.floors)
    return state._replace(quiet=quiet)


def _reranked(state: RankingState, of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    inside = state.lists.inside if state.quiet is None else state.lists.inside & ~state.quiet[:, None]
    return state._replace(lists=state.lists.reranked(*of.relevance(state.fused.chunks, inside, config)))


def _thinned(state: RankingState, _of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    assert config.retrieval.per_document is not None
    return state._replace(lists=state.lists.at_most(config.retrieval.per_document))


def _floored(state: RankingState, _of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    assert config.rerank.floor is not None
    lists = state.lists.above(config.rerank.floor)
    return state._replace(lists=lists, floored=lists.available < state.lists.available)


def _cut(state: RankingState, _of: Queries, config: RetrievalConfig, _: int | None) -> RankingState:
    lengths = state.lists.lengths(config)
    return state._replace(lengths=lengths if state.quiet is None else np.where(state.quiet, 0, lengths))


def _fusion(config: RetrievalConfig, _: str) -> Hashable:
    retrieval, weights = config.retrieval, config.retrieval.weights
    return retrieval.method, retrieval.candidates, retrieval.rrf_k, weights.keyword, weights.vector


def _silence(config: RetrievalConfig, _: str) -> Hashable | None:
    enabled, least, unless = config.abstain.enabled, config.abstain.min_cosine, config.abstain.unless_all_words
    return (enabled, least, unless) if enabled or least is not None else None


def _length(config: RetrievalConfig, _: str) -> Hashable:
    dynamic = config.dynamic_k
    cliff = (dynamic.gap_threshold_factor, dynamic.min_results, config.max_results) if dynamic.enabled else None
    return config.retrieval.top_k, cliff


_SORTED = 1 + len(FACTORS)
"""How many steps are the same however many places are sorted."""

RETRIEVE = (
    RankingStep("fusion", _fusion, _fused),
    *map(_multiplied, FACTORS),
    RankingStep("order", lambda config, _: config.rerank.enabled and config.rerank.candidates, _ordered),
    RankingStep("abstain", _silence, _silenced),
)
RERANK = (
    RankingStep("rerank", lambda config, _: config.rerank.candidates if config.rerank.enabled else None, _reranked),
)
FINISH = (
    RankingStep("per_document", lambda config, _: config.retrieval.per_document, _thinned),
    RankingStep("floor", lambda config, _: config.rerank.floor if config.rerank.enabled else None, _floored),
    RankingStep("cut", _length, _cut),
)
STEPS = (*RETRIEVE, *RERANK, *FINISH)
