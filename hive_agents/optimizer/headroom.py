"""Headroom: the best nUDCG that a config of the search space has on the training queries, and what no config fixes.

Thousands of configs cost as much as hundreds: one fused ranking gives every length of list, and every abstention floor
is a mask. The best is optimistic, as it is chosen by the queries that it is measured on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import numpy as np

from hive_agents.index import AnyIndex
from hive_agents.optimizer.cached_lanes import Floats
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import LEVERS, WIDER, apply, changes_from, parsed, random_edit
from hive_agents.ranking import RetrievalConfig

TRIALS = 20_000
_REACHED = 1 - 1e-9


@dataclass(frozen=True)
class OutOfReach:
    """Queries that no trial answers perfectly, and the mean nUDCG that the best trial of each still loses on them."""

    reason: str
    points: float
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Headroom:
    """`best` is the highest mean nUDCG of one config, `changes` are its changes of the baseline.

    `each_query` is the mean with the best config of each query: the difference to `best` takes a config for each kind
    of query, the difference to 1 is `out_of_reach`.
    """

    trials: int
    best: float
    changes: tuple[dict[str, Any], ...]
    each_query: float
    out_of_reach: tuple[OutOfReach, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def headroom(
    cache: LaneCache,
    index: AnyIndex,
    baseline: RetrievalConfig,
    chosen: RetrievalConfig | None = None,
    *,
    seed: int = 0,
    trials: int = TRIALS,
) -> Headroom | None:
    """Measure at least `trials` configs of the search space, reranked only as `chosen` is; None without queries.

    Half of the rankings are drawn from the whole space, half from around the best so far, which begins as `chosen`.
    Each is tried with every cut.
    """
    if not len(cache.golden):
        return None
    rng, count = Random(seed), 0
    floors = [*LEVERS["abstain.min_cosine"], *WIDER["abstain.min_cosine"]]
    admitted = np.column_stack([cache.best_cosines >= (-np.inf if floor is None else floor) for floor in floors])
    best_config = chosen or baseline
    each = cache.evaluate(best_config).nudcg
    best = float(each.mean())
    while count < trials:
        point = best_config if not count else _drawn(rng, index, baseline, best_config)
        plain, cuts, scores = _cuts(cache, point)
        silent = cache.by_length(point)[:, :1]
        # Abstaining replaces a list by an empty one: one product gives the mean of every cut under every floor.
        means = ((scores - silent).T @ admitted.astype(np.float64) + silent.sum()) / len(each)
        cut, floor = np.unravel_index(int(means.argmax()), means.shape)
        if means[cut, floor] > best:
            best = float(means[cut, floor])
            best_config = parsed(apply(plain, [*cuts[cut], ("abstain.min_cosine", floors[floor])]))
        count += means.size
        each = np.maximum(each, np.maximum(scores, silent).max(axis=1))
    changes = tuple(changes_from(baseline, best_config))
    return Headroom(count, best, changes, float(each.mean()), _out_of_reach(cache, baseline, each))


def _drawn(rng: Random, index: AnyIndex, baseline: RetrievalConfig, best: RetrievalConfig) -> RetrievalConfig:
    values = random_edit(rng, index).values
    if rng.random() < 0.5:
        return _plain(apply(baseline, values))
    return _plain(apply(best, rng.sample(values, min(len(values), rng.randint(1, 4)))))


def _plain(data: dict[str, Any]) -> RetrievalConfig:
    """Return the config without reranking: thousands of rankings would send the whole collection to a model."""
    return parsed(data | {"rerank": {}})


def _cuts(cache: LaneCache, config: RetrievalConfig) -> tuple[RetrievalConfig, list[list[tuple[str, Any]]], Floats]:
    """Return the config without a cut, the values of each cut, and each query's nUDCG by them, shape `(n, cuts)`.

    Cuts are every length of list and, where lanes are fused, every gap; nothing abstains.
    """
    plain = parsed(config.model_dump(exclude_unset=True) | {"dynamic_k": {"enabled": False}, "abstain": {}})
    by_length = cache.by_length(plain)
    most = by_length.shape[1] - 1
    cuts: list[list[tuple[str, Any]]] = [[("retrieval.top_k", length)] for length in LEVERS["retrieval.top_k"]]
    columns = [by_length[:, min(length, most)] for length in LEVERS["retrieval.top_k"]]
    if config.retrieval.method == "hybrid":
        for factor in LEVERS["dynamic_k.gap_threshold_factor"]:
            cuts.append([("dynamic_k.enabled", True), ("dynamic_k.gap_threshold_factor", factor)])
            returned = cache.returned(parsed(apply(plain, cuts[-1])))
            columns.append(by_length[np.arange(len(by_length)), np.minimum(returned, most)])
    return plain, cuts, np.column_stack(columns)


def _out_of_reach(cache: LaneCache, config: RetrievalConfig, each: Floats) -> tuple[OutOfReach, ...]:
    deepest = _plain(apply(config, [("filters", {}), ("retrieval.method", "hybrid")]))
    candidates = cache.rank(deepest, depth=10_000).documents
    queries: dict[str, list[tuple[float, str]]] = {}
    for row, query in enumerate(cache.golden):
        if each[row] >= _REACHED:
            continue
        reachable = set(candidates[row].tolist())
        if not query.relevant:
            reason = "has no answer, and no floor on the cosine tells it from queries that have one"
        elif not all(cache.number_of(doc_id) in reachable for doc_id in query.relevant):
            reason = "a relevant document is no candidate of any lane: other words, chunks or an embedding model"
        else:
            reason = "a distractor or a page that nobody judged stands above the answer in every trial"
        queries.setdefault(reason, []).append((1.0 - float(each[row]), query.id))
    losses = [
        OutOfReach(reason, sum(lost for lost, _ in entries) / len(each), tuple(id for _, id in sorted(entries)[::-1]))
        for reason, entries in queries.items()
    ]
    return tuple(sorted(losses, key=lambda one: (-one.points, one.reason)))
