"""Precision: the share of the first k results that is relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import labels_at_ranks


def precision(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float | None:
    """Return the relevant documents among the first k, over k, 0 to 1.

    Over k, not over the number returned, so that a short ranking has no advantage.
    0.0 where nothing is relevant, None where nothing is judged (see the package).

    >>> precision(["a", "faq", "b"], {"a": 1, "b": 1, "faq": -1}, k=5)
    0.4
    """
    if not qrels:
        return None
    return sum(label > 0 for label in labels_at_ranks(ranking, qrels, k)) / k
