"""Distractors: documents that look like the answer and mislead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import labels_at_ranks


def distractors(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float:
    """Return how many different distractors are among the first k; lower is better.

    >>> distractors(["a", "faq", "faq", "forum"], {"a": 1, "faq": -1, "forum": -1}, k=4)
    2.0
    """
    return float(sum(label < 0 for label in labels_at_ranks(ranking, qrels, k)))
