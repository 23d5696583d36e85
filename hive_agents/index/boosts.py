"""Boosts by a field: what they are, and their factor by the age of a date."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

HALF_LIFE = "half_life_days"

BoostKey = tuple[tuple[str, tuple[tuple[str, float], ...]], ...]


def boost_key(boosts: Mapping[str, Mapping[str, float]]) -> BoostKey:
    """Return the boosts as a hashable key, independent of their order."""
    return tuple(sorted((field, tuple(sorted(boost.items()))) for field, boost in boosts.items()))


def by_age(days: NDArray[np.float64], half_life: float) -> NDArray[np.float64]:
    """Return the factor of each age in days: it halves with every half-life, and is 1 for negative ages.

    >>> by_age(np.array([0.0, 30.0, 60.0]), 30.0).tolist()
    [1.0, 0.5, 0.25]
    """
    factors: NDArray[np.float64] = np.exp2(-np.maximum(days, 0.0) / half_life)
    return factors


def newest_day(days: NDArray[np.float64], half_life: float) -> float:
    """Return the day that ages are counted from: the newest one that is no outlier.

    A date in 2099 means "for ever", or is a typo; counted from it, every other document would be equally old. At most
    one document in twenty is an outlier, and only above a gap of ten half-lives that exceeds the range of all older
    dates.

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
