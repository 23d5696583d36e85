"""From which confidence on may the judge decide alone? Fixed-sequence testing with exact binomial bounds.

Source: "Trust or Escalate" (Jung et al. 2024) for the use on judges, "Learn then Test" (Angelopoulos et al.
2021) for the testing. Everything here is arithmetic on arrays; `calibration` brings the decision log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, lgamma, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
DELTA = 0.10
MANY = 500
"""From so many labels on, five starts share delta: more coverage than one start at the full level."""
STARTS = 5

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Stratum:
    """Decisions that were labelled at one rate: `logged` holds every confidence, the others the labelled ones'."""

    logged: _Floats
    confidence: _Floats
    agrees: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`threshold` None: nothing could be certified, and `needed` more agreeing audits might change that.

    `n` and `k` are the labelled decisions at or above the threshold and the disagreements among them,
    `coverage` the share of all decisions that it would let through; `rejected` counts records whose
    confidence was no number between 0 and 1.
    """

    threshold: float | None
    n: int
    k: int
    coverage: float
    needed: int
    rejected: int
    alpha: float
    delta: float


@lru_cache(maxsize=200_000)
def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return P(Bin(n, p) <= k).

    >>> round(binomial_cdf(0, 45, 0.05), 4), round(binomial_cdf(2, 4, 0.5), 4)
    (0.0994, 0.6875)
    """
    if k < 0:
        return 0.0
    if k >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    if k > n * p + 1 and k > n // 2:  # the shorter tail; both are sums of positive terms
        return 1.0 - binomial_cdf(n - k - 1, n, 1 - p)
    odds, whole = log(p) - log1p(-p), lgamma(n + 1) + n * log1p(-p)
    terms = [whole - lgamma(i + 1) - lgamma(n - i + 1) + i * odds for i in range(k + 1)]
    most = max(terms)
    return min(1.0, exp(most) * sum(exp(term - most) for term in terms))


@lru_cache(maxsize=200_000)
def upper_bound(k: int, n: int, delta: float) -> float:
    """Return the upper Clopper-Pearson bound: the largest rate under which k or fewer in n has a probability of delta.

    >>> round(upper_bound(0, 45, 0.10), 4), upper_bound(0, 0, 0.10)
    (0.0499, 1.0)
    """
    if k >= n:
        return 1.0
    low, high = k / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_cdf(k, n, middle) > delta else (low, middle)
    return high


def lower_bound(k: int, n: int, level: float = 0.95) -> float:
    """Return the one-sided lower confidence bound of the rate behind k in n; 0 for n = 0.

    >>> [round(lower_bound(n, n), 3) for n in (10, 29, 59, 149)]
    [0.741, 0.902, 0.95, 0.98]
    """
    return 1.0 - upper_bound(n - k, n, 1.0 - level)


@lru_cache(maxsize=4096)
def minimum_n(errors: int, alpha: float = ALPHA, delta: float = DELTA) -> int:
    """Return how many labels certify an error rate of alpha at most when `errors` of them disagree.

    >>> [minimum_n(errors) for errors in range(4)]
    [45, 77, 105, 132]

    Raises: ValueError unless alpha and delta are between 0 and 1: no number is enough for a rate of 0.
    """
    if not (0 < alpha < 1 and 0 < delta < 1):
        raise ValueError(f"alpha {alpha} and delta {delta} have to be between 0 and 1")
    low, high = errors, max(1, errors)
    while binomial_cdf(errors, high, alpha) > delta:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_cdf(errors, middle, alpha) > delta else (low, middle)
    return high


def recommended_threshold(
    confidence: ArrayLike, agrees: ArrayLike, *, alpha: float = ALPHA, delta: float = DELTA
) -> Recommendation:
    """Return the lowest threshold for which P(disagreement at or above it <= alpha) is certain at 1 - delta.

    `confidence[i]` in 0..1, `agrees[i]` whether the person said the same; the pairs must be a uniform sample.

    >>> recommended_threshold([0.9] * 45, [True] * 45).threshold
    0.9
    >>> short = recommended_threshold([0.9] * 20, [True] * 20)
    >>> short.threshold, short.needed
    (None, 25)
    """
    values = np.asarray(confidence, dtype=np.float64)
    return certify([Stratum(values, values, np.asarray(agrees, dtype=bool))], alpha=alpha, delta=delta)


def empirical_threshold(confidence: ArrayLike, agrees: ArrayLike, *, alpha: float = ALPHA) -> float | None:
    """Return the lowest threshold above which the sample agrees often enough. It carries no guarantee:
    chosen among many on the same labels, it misses its target in half of all cases or more."""
    values, same = np.asarray(confidence, dtype=np.float64), np.asarray(agrees, dtype=bool)
    sound = _sound(values)
    values, same = values[sound], same[sound]
    grid = _grid(values)
    n, k = _counts(values, np.ones(len(values), dtype=bool), grid), _counts(values, ~same, grid)
    passing = np.flatnonzero((n > 0) & (k <= alpha * n))
    return float(grid[passing[-1]]) if len(passing) else None


def certify(strata: Sequence[Stratum], *, alpha: float = ALPHA, delta: float = DELTA) -> Recommendation:
    """Return what `recommended_threshold` does, for strata labelled at different rates.

    With more than one stratum the error rate is the sum of theirs, weighted by how many decisions
    each has, and delta is divided among them. The first, whose labels were
    drawn at random, is the scarce one: it decides whether there are enough for several starts, and where they lie.
    """
    rejected = sum(int((~_sound(s.confidence)).sum()) for s in strata)
    clean = [
        Stratum(s.logged[_sound(s.logged)], s.confidence[_sound(s.confidence)], s.agrees[_sound(s.confidence)])
        for s in strata
    ]
    grid = _grid(np.concatenate([np.empty(0), *(s.logged for s in clean)]))
    labelled = [_counts(s.confidence, np.ones(len(s.confidence), dtype=bool), grid) for s in clean]
    errors = [_counts(s.confidence, ~s.agrees, grid) for s in clean]
    logged = [_counts(s.logged, np.ones(len(s.logged), dtype=bool), grid) for s in clean]
    n_all = sum(labelled, np.zeros(len(grid), dtype=np.int64))
    k_all = sum(errors, np.zeros(len(grid), dtype=np.int64))
    total = sum(len(s.logged) for s in clean)
    audits = labelled[0] if labelled else n_all
    many = int(audits[-1]) >= MANY
    level = delta / STARTS if many else delta

    def bound(at: int, count_errors: bool) -> float:
        present = [i for i in range(len(clean)) if logged[i][at] > 0]
        if not present:
            return inf
        whole = sum(int(logged[i][at]) for i in present)
        return sum(
            int(logged[i][at])
            / whole
            * upper_bound(int(errors[i][at]) if count_errors else 0, int(labelled[i][at]), level / len(present))
            for i in present
        )

    # A threshold that even a faultless sample couldn't pass is left out before any label is looked at.
    testable = [at for at in range(len(grid)) if bound(at, count_errors=False) <= alpha]
    passed, stops = -1, []
    for start in _starts(testable, audits, STARTS if many else 1):
        for at in testable[start:]:
            if bound(at, count_errors=True) > alpha:
                stops.append(at)
                break
            passed = max(passed, at)
    if passed >= 0:
        # Of thresholds that let the same decisions through, the highest promises least about what was never seen.
        while passed and all(part[passed - 1] == part[passed] for part in logged):
            passed -= 1
        n, k = int(n_all[passed]), int(k_all[passed])
        coverage = sum(int(part[passed]) for part in logged) / total
        return Recommendation(float(grid[passed]), n, k, coverage, 0, rejected, alpha, delta)
    needed = _needed(n_all, k_all, stops, alpha, delta) if alpha > 0 else 0
    return Recommendation(None, int(n_all[-1]), int(k_all[-1]), 0.0, needed, rejected, alpha, delta)


def _needed(n_all: _Ints, k_all: _Ints, stops: Sequence[int], alpha: float, delta: float) -> int:
    """Return how many more agreeing labels would certify the nearest threshold."""
    last = max(stops) if stops else len(n_all) - 1
    return min(max(1, minimum_n(int(k_all[at]), alpha, delta) - int(n_all[at])) for at in range(last + 1))


def _starts(testable: Sequence[int], audits: _Ints, count: int) -> list[int]:
    """Return where the test sequences start: the first testable threshold, then one at each further fifth of labels."""
    if not testable:
        return []
    shares = [int(audits[-1]) * part / count for part in range(count)]
    starts = [next((i for i, at in enumerate(testable) if audits[at] >= share), None) for share in shares]
    return sorted({start for start in starts if start is not None})


def _grid(confidence: _Floats) -> _Floats:
    """Return every threshold to try, highest first; it depends on no label."""
    steps = np.arange(50, 100) / 100
    return np.unique(np.concatenate([np.round(confidence, 2), steps]))[::-1]


def _counts(confidence: _Floats, chosen: NDArray[np.bool_], grid: _Floats) -> _Ints:
    """Return how many of the chosen reach each threshold."""
    values = np.sort(confidence[chosen])
    return (len(values) - np.searchsorted(values, grid, side="left")).astype(np.int64)


def _sound(confidence: _Floats) -> NDArray[np.bool_]:
    return np.isfinite(confidence) & (confidence >= 0) & (confidence <= 1)
