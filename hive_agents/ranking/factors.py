"""Levers that multiply fused scores, each with all that is known of it but its block of a config.

Searches, the optimizer and its cache, checks, explanations and exports go through `FACTORS`, in this order: a new lever
is an entry here and a block in `config`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hive_agents.base import HiveError
from hive_agents.index import AnyIndex, BM25Params, ChunkFactors, LaneIndex, Mask, boost_key
from hive_agents.ranking.config import RetrievalConfig
from hive_agents.ranking.fusion import Floats, IntArray, LanePool
from hive_agents.ranking.lift import lift_weight


class Queries(ChunkFactors, Protocol):
    """What levers ask of n queries, each over its reader's view: row i of an array is query i's.

    Chunks are the columns of a pool, -1 where there is none, whose figures nobody reads.
    """

    @property
    def index(self) -> LaneIndex:
        """The index whose chunks they are."""

    @property
    def floors(self) -> Floats:
        """The floor of each query's reader, shape `(n,)`: see `ranking.silence`."""

    def name_shares(self, pool: LanePool, params: BM25Params) -> Floats:
        """Return the names' share of each of a pool's chunks: see `ranking.lift`."""

    def nearest(self, config: RetrievalConfig) -> Floats:
        """Return each query's best cosine, -inf without one, shape `(n,)`."""

    def answered(self, config: RetrievalConfig) -> Mask:
        """Return which queries have a list whatever the cosines, shape `(n,)`: see `ranking.silence`."""

    def worded(self, config: RetrievalConfig, rows: Mask) -> Mask:
        """Return which of some queries have a chunk with all their words among the first, shape `(n,)`."""

    def relevance(self, chunks: IntArray, inside: Mask, config: RetrievalConfig) -> tuple[Floats, Floats | None]:
        """Return the reranker's score of the first chunks of each row that are `inside`, -inf of the others.

        The other array has the seconds that each row took, if they are known.
        """


@dataclass(frozen=True)
class Factor:
    """A lever that multiplies fused scores.

    `setting`, of a config and an analyzer, is what decides the factors, None where it is off: equal ones act alike, so
    that caches go by them. `factors` are those of a pool's columns, shape `(n, w)`. `check` yields places in a config
    with what is wrong there. `fact` and `told` are for explanations, `lost` says what an engine to export to
    does without it, and `tried` has the values that the optimizer tries, by path.
    """

    block: str
    fact: str
    setting: Callable[[RetrievalConfig, str], Hashable | None]
    factors: Callable[[Queries, LanePool, RetrievalConfig], Floats]
    told: str
    lost: str = "it isn't known there: a list is what it is without it"
    tried: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    check: Callable[[AnyIndex, RetrievalConfig], Iterator[tuple[tuple[str, ...], HiveError]]] | None = None


def by_boilerplate(shares: Floats, weight: float) -> Floats:
    """Return the factor of each share of boilerplate: 1 for the share 0, `weight` for the share 1.

    >>> by_boilerplate(np.array([0.0, 0.5, 1.0]), 0.5).tolist()
    [1.0, 0.75, 0.5]
    """
    return 1.0 - (1.0 - weight) * shares


def _faulty_boosts(index: AnyIndex, config: RetrievalConfig) -> Iterator[tuple[tuple[str, ...], HiveError]]:
    for name, boost in config.boosts.items():
        try:
            index.factors({name: boost}, np.empty(0, np.intp))
        except HiveError as error:
            yield ("boosts", name), error
        else:
            for missing in index.missing(name, boost):
                yield ("boosts", name), missing


FACTORS = (
    Factor(
        "boosts",
        "boost",
        lambda config, _: boost_key(config.boosts) or None,
        lambda of, pool, config: of.factors(config.boosts, pool.chunks),
        "boosted by {:.3g}",
        check=_faulty_boosts,
    ),
    Factor(
        "boilerplate",
        "boilerplate",
        lambda config, _: config.boilerplate.weight if config.boilerplate.weight < 1 else None,
        lambda of, pool, config: by_boilerplate(of.boilerplate_shares(pool.chunks), config.boilerplate.weight),
        "weighed {:.3g} for lines that many documents share",
        "lines that many documents share aren't known there: they count as any text",
    ),
    Factor(
        "lift",
        "lift",
        lambda config, analyzer: lift_weight(config, analyzer) or None,
        lambda of, pool, config: (
            1.0 + lift_weight(config, of.index.language) * of.name_shares(pool, config.bm25.params)
        ),
        "lifted by {:.3g} for names of the question",
        "names aren't lifted: a list stands in the order of its fused scores",
        tried={"lift.weight": (0.0, 0.5, 1.0, 2.0)},
    ),
)
