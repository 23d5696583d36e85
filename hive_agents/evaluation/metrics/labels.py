"""What a ranking is worth at each rank: the one reading of labels that every metric shares.

Labels are per document, results per chunk. A document counts once, at its first rank; a later chunk
of it keeps its place and is worth 0, since it takes a reader's attention and brings nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def labels_at_ranks(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> list[int]:
    """The label at ranks 1 to k: 1 relevant, -1 distractor, 0 irrelevant, unjudged or repeated.

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
    """How many documents answer the query, found or not.

    >>> count_relevant({"a": 1, "faq": -1, "old": 0, "b": 1})
    2
    """
    return sum(label > 0 for label in qrels.values())
