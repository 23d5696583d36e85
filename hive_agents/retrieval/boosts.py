"""Boosts: factors by a field's value, or by a date's age, that multiply the fused scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, LiteralString

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

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
            raise _faulty({HALF_LIFE: boost[HALF_LIFE]}, "half_life_days must be more than 0")
        return boost
    outside = {value: factor for value, factor in boost.items() if not 0 <= factor <= MOST}
    if outside:
        raise _faulty(outside, "a factor must be between 0 and 10")
    return boost


def _faulty(entries: Mapping[str, float], message: LiteralString) -> ValidationError:
    """Return one error for each entry, which says where it stands."""
    kind = PydanticCustomError("boost_value_error", message)
    faults = [InitErrorDetails(type=kind, loc=(key,), input=value) for key, value in entries.items()]
    return ValidationError.from_exception_data("Boost", faults)


_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {HALF_LIFE: {"type": "number", "exclusiveMinimum": 0}},
            "required": [HALF_LIFE],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "propertyNames": {"not": {"const": HALF_LIFE}},
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": MOST},
            "minProperties": 1,
        },
    ]
}

Boost = Annotated[dict[str, float], AfterValidator(_checked), WithJsonSchema(_SCHEMA)]
"""`{value: factor from 0 to 10}`, or `{"half_life_days": days}` for a date field."""


def boost_key(boosts: Mapping[str, Mapping[str, float]]) -> BoostKey:
    """Return the boosts as a key of a dict, in one order."""
    return tuple(sorted((field, tuple(sorted(boost.items()))) for field, boost in boosts.items()))


def by_age(days: NDArray[np.float64], half_life: float) -> NDArray[np.float64]:
    """Return the factor of each age in days: it halves with every half-life, and is 1 for what is newer than new.

    >>> by_age(np.array([0.0, 30.0, 60.0]), 30.0).tolist()
    [1.0, 0.5, 0.25]
    """
    factors: NDArray[np.float64] = np.exp2(-np.maximum(days, 0.0) / half_life)
    return factors


def by_boilerplate(shares: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """Return the factor of each share of boilerplate: 1 for none, `weight` for nothing else.

    >>> by_boilerplate(np.array([0.0, 0.5, 1.0]), 0.5).tolist()
    [1.0, 0.75, 0.5]
    """
    return 1.0 - (1.0 - weight) * shares


def newest_day(days: NDArray[np.float64], half_life: float) -> float:
    """Return the day that ages are counted from: the newest, less the few that stand far ahead of all others.

    A date in 2099 means "for ever", or is a slip; counted from it, every other document would be equally old. At most
    one document in twenty is left out so, and only over a gap of ten half-lives that is wider than all older dates are
    apart.

    >>> newest_day(np.array([*range(40), 30000.0]), 30.0)
    39.0
    """
    ordered = np.sort(days)
    reference = len(ordered) - 1
    for newest in range(len(ordered) - 1, len(ordered) - 1 - len(ordered) // 20, -1):
        gap = ordered[newest] - ordered[newest - 1]
        if gap > max(10 * half_life, ordered[newest - 1] - ordered[0]):
            reference = newest - 1
    return float(ordered[reference])


def boosted(fused: Fused, multipliers: Iterable[NDArray[np.float64]]) -> Fused:
    """Return the ranking with each score multiplied by its factors, best first again, ties by chunk number."""
    scores = fused.scores
    for factors in multipliers:
        scores = scores * factors
    if scores is fused.scores:
        return fused
    order: NDArray[Any] = np.lexsort((fused.chunks, -scores))
    return Fused(fused.chunks[order], scores[order], tuple(rank[order] for rank in fused.ranks))
