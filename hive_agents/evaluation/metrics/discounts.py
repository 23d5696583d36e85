"""The rank discount that UDCG and nDCG share."""

from __future__ import annotations

from math import log2


def discount(rank: int) -> float:
    """What a gain at `rank` (from 1) is worth: 1 / log2(rank + 1).

    >>> [round(discount(rank), 3) for rank in range(1, 6)]
    [1.0, 0.631, 0.5, 0.431, 0.387]
    """
    return 1.0 / log2(rank + 1)


def ideal_dcg(relevant: int, k: int) -> float:
    """The most that `relevant` documents of gain 1 can reach within `k`: all of them first.

    >>> round(ideal_dcg(3, k=5), 3)
    2.131
    >>> ideal_dcg(0, k=5)
    0.0
    """
    ideal = 0.0
    for rank in range(1, min(relevant, k) + 1):
        ideal += discount(rank)
    return ideal
