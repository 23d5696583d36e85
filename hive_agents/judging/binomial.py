"""Exact bounds of the rate behind k in n, without arrays: each run of an agent imports them."""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, log1p

ALPHA = 0.05
DELTA = 0.10


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
