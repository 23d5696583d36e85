"""Reciprocal rank; its mean over queries is MRR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import labels_at_ranks


def reciprocal_rank(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float | None:
    """Return 1 / rank of the first relevant document, 0.0 when the first k hold none.

    0.0 where nothing is relevant, None where nothing is judged (see the package).

    >>> reciprocal_rank(["faq", "a", "b"], {"a": 1, "b": 1, "faq": -1}, k=3)
    0.5
    """
    if not qrels:
        return None
    labels = labels_at_ranks(ranking, qrels, k)
    return next((1.0 / rank for rank, label in enumerate(labels, start=1) if label > 0), 0.0)
