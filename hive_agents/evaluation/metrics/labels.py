"""The labels of a ranking and the discount of ranks, shared by all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2


def labels_at_ranks(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> list[int]:
    """Return the label at ranks 1 to k: 1 relevant, -1 distractor, 0 irrelevant, unjudged or repeated.

    Raises: ValueError when `k` is below 1.

    >>> labels_at_ranks(["a", "faq", "a", "new", "b"], {"a": 1, "faq": -1, "b": 1}, k=4)
    [1, -1, 0, 0]
    """
    if k < 1:
        raise ValueError(f"the evaluation depth k must be at least 1, not {k}")
    seen: set[str] = set()
    labels = []
    for doc_id in ranking[:k]:
        labels.append(0 if doc_id in seen else qrels.get(doc_id, 0))
        seen.add(doc_id)
    return labels


def count_relevant(qrels: Mapping[str, int]) -> int:
    """Return how many documents are relevant, returned or not.

    >>> count_relevant({"a": 1, "faq": -1, "old": 0, "b": 1})
    2
    """
    return sum(label > 0 for label in qrels.values())


def discount(rank: int) -> float:
    """Return the weight of a gain at `rank` (from 1): 1 / log2(rank + 1).

    >>> [round(discount(rank), 3) for rank in range(1, 6)]
    [1.0, 0.631, 0.5, 0.431, 0.387]
    """
    return 1.0 / log2(rank + 1)


def ideal_dcg(relevant: int, k: int) -> float:
    """Return the highest DCG@k of `relevant` documents of gain 1: all of them first.

    >>> round(ideal_dcg(3, k=5), 3)
    2.131
    >>> ideal_dcg(0, k=5)
    0.0
    """
    ideal = 0.0
    for rank in range(1, min(relevant, k) + 1):
        ideal += discount(rank)
    return ideal
