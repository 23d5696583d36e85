"""Recall: the share of the relevant documents that was returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import count_relevant, labels_at_ranks


def recall(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float | None:
    """Return the share of the relevant documents that are among the first k, 0 to 1.

    0.0 where nothing is relevant, None where nothing is judged (see the package). With more than
    k relevant documents it can't reach 1.

    >>> recall(["a", "faq", "a", "b"], {"a": 1, "b": 1, "c": 1, "d": 1, "faq": -1}, k=4)
    0.5
    """
    if not qrels:
        return None
    returned = sum(label > 0 for label in labels_at_ranks(ranking, qrels, k))
    return returned / count_relevant(qrels) if returned else 0.0
