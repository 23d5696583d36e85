"""Is B better than A? A paired comparison over the same queries, and its power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2, pi, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIE = 1e-12
"""Smaller differences are the noise of floating point, not of queries."""

EXACT_UP_TO = 16
FLIPS = 9_999
RESAMPLES = 10_000
_Z_POWER_80 = 0.842
_CELLS = 1_000_000
_KEPT_SIZES = 60

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """B - A over n queries.

    `p_value` is one-sided, for "B is better". `mde` is the smallest true difference that a set of this
    size shows in four cases out of five; None below two queries. It is 0.0 where all
    differences are equal, which has no meaning: texts leave it out.
    """

    n: int
    difference: float
    ci95: tuple[float, float]
    p_value: float
    wins: int
    losses: int
    ties: int
    mde: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "nudcg": self.difference,
            "ci95": list(self.ci95),
            "p_value": self.p_value,
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "mde": self.mde,
        }


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, alpha: float = 0.05, seed: int = 0
) -> PairedDifference:
    """Compare two configs' scores, `a[i]` and `b[i]` being those of the same query.

    The test is a paired sign-flip permutation of the mean; the interval a percentile bootstrap over
    queries, always of 95 %, while `alpha` is the level that `mde` assumes. The same scores and seed
    give the same result.

    Raises: ValueError when there are no queries, the lengths differ, or a score isn't finite.

    >>> result = paired_difference([0.2, 0.4, 0.1, 0.5, 0.3], [0.4, 0.5, 0.4, 0.5, 0.2])
    >>> round(result.difference, 3), result.wins, result.losses, result.ties
    (0.1, 3, 1, 1)
    >>> result.p_value, round(result.mde, 3)  # 3 of the 16 sign assignments reach the observed sum
    (0.1875, 0.176)
    """
    differences = _differences(a, b)
    n = len(differences)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return PairedDifference(
        n=n,
        difference=float(differences.mean()),
        ci95=_bootstrap_interval(differences, seed),
        p_value=_sign_flip_p(differences[differences != 0], seed),
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        mde=_minimum_detectable(differences, alpha),
    )


def one_sided_p_value(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> float:
    """Return the p-value of `paired_difference` alone, for "B is better than A"; with both swapped, for a loss.

    Raises: as `paired_difference`.

    >>> one_sided_p_value([0.0, 0.0], [-0.18, -0.18]), one_sided_p_value([-0.18, -0.18], [0.0, 0.0])
    (1.0, 0.25)
    """
    differences = _differences(a, b)
    return _sign_flip_p(differences[differences != 0], seed)


def holm_adjusted(p_values: Sequence[float], family: int | None = None) -> list[float]:
    """Return the p-values adjusted for testing all of them, in their order and at most 1.

    `family` is how many hypotheses were tested, where the largest p-values are left out; None for just these.
    Source: Holm, "A simple sequentially rejective multiple test procedure" (1979).

    Raises: ValueError when the family is smaller than the p-values given.

    >>> holm_adjusted([0.5, 0.01, 0.02])
    [0.5, 0.03, 0.04]
    """
    tested = len(p_values) if family is None else family
    if tested < len(p_values):
        raise ValueError(f"{len(p_values)} p-values are more than the {tested} hypotheses tested")
    adjusted, highest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (tested - step) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def is_measurable(difference: PairedDifference, alpha: float) -> bool:
    """Return whether the queries that differ are enough for proof: all of them won would give p = 2^-(wins + losses).

    >>> is_measurable(paired_difference([0.0] * 9, [0.5] * 4 + [0.0] * 5), 0.05)  # 1/16
    False
    """
    return bool(0.5 ** (difference.wins + difference.losses) <= alpha)


def needed_queries(difference: PairedDifference, alpha: float) -> int | None:
    """Return about how many more queries would show this gain at `alpha` in four cases out of five, at least 1.

    None where it is shown already, where there is no gain, and below two queries. `alpha` is the level that the
    difference was computed for. For a mean difference d it is ((z_{1-α} + 0.842)·s/d)² - n; where the differences
    hardly vary, that is too few, and it is what it takes until `is_measurable` holds.

    >>> found = paired_difference([0.2, 0.4, 0.1, 0.5, 0.3], [0.4, 0.5, 0.4, 0.5, 0.2])
    >>> needed_queries(found, 0.05)  # (2.487 · 0.158 / 0.1)² = 15.45, so 16 in all
    11
    >>> needed_queries(paired_difference([0.0, 0.0], [0.2, 0.2]), 0.05)  # five alike give 1/32
    3
    """
    d, n = difference.difference, difference.n
    if d <= TIE or n < 2 or difference.p_value <= alpha:
        return None
    by_spread = n * ((difference.mde or 0.0) / d) ** 2
    by_signs = ceil(-log2(alpha)) * n / (difference.wins + difference.losses)
    return max(1, ceil(max(by_spread, by_signs)) - n)


def spent_alpha(j: int, alpha: float = 0.05) -> float:
    """Return the level of the j-th use (from 1) of a holdout; over any number of uses they sum to `alpha` at most.

    Raises: ValueError when `j` is below 1.

    >>> [round(spent_alpha(j), 4) for j in (1, 2, 5, 10)]
    [0.0304, 0.0076, 0.0012, 0.0003]
    """
    if j < 1:
        raise ValueError(f"uses of a holdout count from 1, not from {j}")
    return alpha * 6 / (pi * pi * j * j)


def _differences(a: Sequence[float], b: Sequence[float]) -> _Floats:
    if len(a) != len(b):
        raise ValueError(f"paired scores need the same queries: {len(a)} against {len(b)}")
    if len(a) == 0:
        raise ValueError("there is nothing to compare: no query has a score")
    before, after = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    finite = np.isfinite(before) & np.isfinite(after)
    if not finite.all():
        raise ValueError(f"a score isn't a finite number: pair {int(np.argmin(finite)) + 1} of {len(a)}")
    differences = after - before
    differences[np.abs(differences) < TIE] = 0.0
    return differences


def _sign_flip_p(nonzero: _Floats, seed: int) -> float:
    """Return P(sum of randomly signed differences >= the observed sum) when B is no better than A."""
    if len(nonzero) == 0:
        return 1.0
    sizes = np.abs(nonzero)
    # Equal sums may differ by rounding, and the observed assignment must be counted.
    reach = nonzero.sum() - TIE * max(1.0, float(sizes.sum()))
    if len(nonzero) <= EXACT_UP_TO:
        sums = np.zeros(1)
        for size in sizes:
            sums = np.concatenate([sums + size, sums - size])
        return float((sums >= reach).mean())
    flips = _kept_flips if len(sizes) <= _KEPT_SIZES else _flips
    reached = sum(int((2.0 * (positive @ sizes) - sizes.sum() >= reach).sum()) for positive in flips(seed, len(sizes)))
    return (reached + 1) / (FLIPS + 1)


def _flips(seed: int, columns: int) -> Iterator[NDArray[np.uint8]]:
    """Yield random signs by rows, 1 for a plus: the same for each test of so many differences."""
    signs = np.random.default_rng([seed, 0])
    for rows in _portions(FLIPS, columns):
        yield signs.integers(0, 2, size=(rows, columns), dtype=np.uint8)


@lru_cache(maxsize=_KEPT_SIZES)  # a search tests the same tags for each config: at most 40 MB
def _kept_flips(seed: int, columns: int) -> tuple[NDArray[np.uint8], ...]:
    return tuple(_flips(seed, columns))


def _bootstrap_interval(differences: _Floats, seed: int) -> tuple[float, float]:
    # A separate stream: the interval must not move when a tie turns the exact test into a sampled one.
    draws = np.random.default_rng([seed, 1])
    n = len(differences)
    means = np.concatenate(
        [differences[draws.integers(0, n, size=(rows, n))].mean(axis=1) for rows in _portions(RESAMPLES, n)]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _minimum_detectable(differences: _Floats, alpha: float) -> float | None:
    n = len(differences)
    if n < 2:
        return None
    if float(np.ptp(differences)) <= TIE:
        return 0.0
    z = NormalDist().inv_cdf(1 - alpha) + _Z_POWER_80
    return float(z * differences.std(ddof=1) / sqrt(n))


def _portions(rows: int, columns: int) -> list[int]:
    """Split a big random matrix by rows, so that thousands of queries don't take gigabytes."""
    most = max(1, _CELLS // columns)
    return [min(most, rows - start) for start in range(0, rows, most)]
