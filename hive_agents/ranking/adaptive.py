"""Filtered search in the way that is cheaper for the filter's selectivity, with the same results.

A filter that few documents meet restricts the search to them. With one that many meet, lanes are ranked without it,
deeper than needed, and filtered here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hive_agents.index import Lane, LaneIndex, Mask
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.engine import SearchEngine
from hive_agents.ranking.pipeline import needs_vectors
from hive_agents.ranking.stages import Search, admitted, fuse, require_words

Branch = Literal["filter_first", "rank_then_filter"]


@dataclass(frozen=True)
class Adaptive:
    """A search as `retrieve` returns it, with the branch taken and the number of matching documents that decided it."""

    search: Search
    branch: Branch
    count: int


def adaptive(
    engine: SearchEngine,
    index: LaneIndex,
    query: str,
    config: RetrievalConfig,
    universe: Mask,
    *,
    threshold: int = 1000,
    overfetch: int = 5,
    depth: int | None = None,
    count: int | None = None,
) -> Adaptive:
    """Return the candidates inside `universe`, a mask of the chunks that meet a filter beside the config's.

    Up to `threshold` documents the search is restricted to them. Above, each lane is ranked to `overfetch` times its
    depth, which doubles until enough of it is inside or the lane ends. `depth` replaces `retrieval.candidates`; `count`
    is that of an earlier call for the same universe.

    Raises: as `retrieve`.
    """
    if count is None:
        count = index.count(universe)
    if count <= threshold:
        return Adaptive(engine.retrieve(index, query, config, within=universe, depth=depth), "filter_first", count)
    require_words(query)
    mask, limit, params = admitted(index, config, None), depth or config.retrieval.candidates, config.bm25.params
    lanes: dict[str, Lane] = {}
    if config.retrieval.keyword:
        lanes["keyword"] = _overfetched(lambda at: index.keyword(query, at, params, mask), universe, limit, overfetch)
    if needs_vectors(config):
        limit = limit if config.retrieval.vector else 1
        lanes["vector"] = _overfetched(lambda at: index.vector([query], at, mask)[0], universe, limit, overfetch)
    return Adaptive(fuse(index, query, lanes, config), "rank_then_filter", count)


def _overfetched(rank: Callable[[int], Lane], universe: Mask, limit: int, overfetch: int) -> Lane:
    """Return the first `limit` chunks of a lane that are inside; `rank` returns the lane to a depth."""
    depth = limit * overfetch
    while True:
        lane = rank(depth)
        inside = np.flatnonzero(universe[lane.chunks])[:limit]
        if len(inside) == limit or len(lane.chunks) < depth:
            return Lane(lane.chunks[inside], lane.scores[inside])
        depth *= 2
