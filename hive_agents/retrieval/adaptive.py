"""A filtered search by whichever way is cheaper for the filter's selectivity; the results are the same.

Few documents meet the filter: the search is restricted to them. Many: lanes are ranked without the filter, deeper
than wanted, and what is off the filter is dropped here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hive_agents.retrieval.config import RetrievalConfig
from hive_agents.retrieval.engine import SearchEngine
from hive_agents.retrieval.lanes import Lane, LaneIndex
from hive_agents.retrieval.stages import Search, admitted, fuse, require_words
from hive_agents.retrieval.vectors import Mask

Branch = Literal["filter_first", "rank_then_filter"]


@dataclass(frozen=True)
class Adaptive:
    """As `retrieve` gives it, with the branch taken and the count of documents that it rests on."""

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
    """Return the candidates inside `universe`, the chunks that meet a filter which isn't the config's.

    Up to `threshold` documents the search is restricted to them; above, each lane is ranked `overfetch` times as deep
    as it is wanted, twice as deep again and so on, until enough of it is inside or it ends. `depth` replaces
    `retrieval.candidates`; `count` is that of an earlier call for the same universe.

    Raises: as `retrieve`.
    """
    if count is None:
        count = index.count(universe)
    if count <= threshold:
        return Adaptive(engine.retrieve(index, query, config, within=universe, depth=depth), "filter_first", count)
    require_words(query)
    mask, wanted, params = admitted(index, config, None), depth or config.retrieval.candidates, config.bm25.params
    lanes: dict[str, Lane] = {}
    if config.retrieval.keyword:
        lanes["keyword"] = _overfetched(lambda at: index.keyword(query, at, params, mask), universe, wanted, overfetch)
    if config.retrieval.vector or config.abstain.min_cosine is not None:
        wanted = wanted if config.retrieval.vector else 1
        lanes["vector"] = _overfetched(lambda at: index.vector([query], at, mask)[0], universe, wanted, overfetch)
    return Adaptive(fuse(index, query, lanes, config), "rank_then_filter", count)


def _overfetched(rank: Callable[[int], Lane], universe: Mask, wanted: int, overfetch: int) -> Lane:
    """Return the first `wanted` of a lane that are inside; `rank` gives the lane to a depth."""
    depth = wanted * overfetch
    while True:
        lane = rank(depth)
        inside = np.flatnonzero(universe[lane.chunks])[:wanted]
        if len(inside) == wanted or len(lane.chunks) < depth:
            return Lane(lane.chunks[inside], lane.scores[inside])
        depth *= 2
