"""Precision: how much of what was asked for is part of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import labels_at_ranks


def precision(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float | None:
    """Relevant documents among the first k, over k, 0 to 1.

    Over k and not over the number returned: a ranking that stops early doesn't gain by it.
    0.0 where nothing is relevant, None where nothing is judged (the package says why).

    >>> precision(["a", "faq", "b"], {"a": 1, "b": 1, "faq": -1}, k=5)
    0.4
    """
    if not qrels:
        return None
    return sum(label > 0 for label in labels_at_ranks(ranking, qrels, k)) / k
