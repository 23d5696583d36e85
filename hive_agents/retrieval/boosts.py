"""Boosts: factors by a field's value, or by a date's age, that multiply the fused scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from hive_agents.retrieval.fusion import Fused

HALF_LIFE = "half_life_days"
MOST = 10.0

BoostKey = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def _checked(boost: dict[str, float]) -> dict[str, float]:
    if not boost:
        raise PydanticCustomError("boost_value_error", "an empty boost changes nothing: give values, or half_life_days")
    if HALF_LIFE in boost:
        if len(boost) > 1:
            message = "half_life_days stands alone: a date has an age and no values"
            raise PydanticCustomError("boost_value_error", message)
        if not boost[HALF_LIFE] > 0:
            raise PydanticCustomError("boost_value_error", "half_life_days must be more than 0")
        return boost
    for value, factor in boost.items():
        if not 0 <= factor <= MOST:
            message = 'the factor of "{value}" must be between 0 and 10'
            raise PydanticCustomError("boost_value_error", message, {"value": value})
    return boost


Boost = Annotated[dict[str, float], AfterValidator(_checked)]
"""`{value: factor from 0 to 10}`, or `{"half_life_days": days}` for a date field."""


def boost_key(boosts: Mapping[str, Mapping[str, float]]) -> BoostKey:
    """Return the boosts as a key of a dict, in one order."""
    return tuple(sorted((field, tuple(sorted(boost.items()))) for field, boost in boosts.items()))


def by_age(days: NDArray[np.float64], half_life: float) -> NDArray[np.float64]:
    """Return the factor of each age in days: it halves with every half-life.

    >>> by_age(np.array([0.0, 30.0, 60.0]), 30.0).tolist()
    [1.0, 0.5, 0.25]
    """
    factors: NDArray[np.float64] = np.exp2(-days / half_life)
    return factors


def boosted(fused: Fused, factors: NDArray[np.float64]) -> Fused:
    """Return the ranking with each score multiplied by its factor, best first again, ties by chunk number."""
    scores = fused.scores * factors
    order: NDArray[Any] = np.lexsort((fused.chunks, -scores))
    return Fused(fused.chunks[order], scores[order], tuple(rank[order] for rank in fused.ranks))
