"""nDCG with binary gains, which ignores distractors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import count_relevant, discount, ideal_dcg, labels_at_ranks


def ndcg(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float | None:
    """Return DCG over its ideal, 0 to 1; a distractor counts 0, as any irrelevant document.

    0.0 where nothing is relevant, None where nothing is judged (see the package).

    Source: Järvelin and Kekäläinen 2002, in the variant of trec_eval: discount 1 / log2(rank + 1).

    >>> judged = {"a": 1, "b": 1, "c": 1, "faq": -1, "old": 0}
    >>> round(ndcg(["a", "faq", "b", "old", "c"], judged, k=5), 3)  # (1 + .5 + .387) / 2.131
    0.885
    """
    if not qrels:
        return None
    labels = labels_at_ranks(ranking, qrels, k)
    ideal = ideal_dcg(count_relevant(qrels), k)
    gained = sum(discount(rank) for rank, label in enumerate(labels, start=1) if label > 0)
    return gained / ideal if ideal else 0.0
