"""Distraction detection: the disagreement of keyword and vector search about a hit."""

from __future__ import annotations


def disagreement(keyword_rank: int | None, vector_rank: int | None, candidates: int) -> float:
    """Return |r_bm25 - r_vector| / max(r_bm25, r_vector), in [0, 1); a missing rank is candidates + 1.

    >>> round(disagreement(2, 3, 100), 4), round(disagreement(1, 12, 100), 4), round(disagreement(1, None, 100), 4)
    (0.3333, 0.9167, 0.9901)
    """
    a = keyword_rank or candidates + 1
    b = vector_rank or candidates + 1
    return abs(a - b) / max(a, b)
