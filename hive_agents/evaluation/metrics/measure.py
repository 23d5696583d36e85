"""Every metric of one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.distractors import distractors
from hive_agents.evaluation.metrics.mrr import reciprocal_rank
from hive_agents.evaluation.metrics.ndcg import ndcg
from hive_agents.evaluation.metrics.precision import precision
from hive_agents.evaluation.metrics.recall import recall
from hive_agents.evaluation.metrics.udcg import nudcg, udcg


def measure(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> dict[str, float | None]:
    """Return every metric of one query; None marks a value that a mean must leave out.

    `nudcg_clipped` is for display: means and the gate use `nudcg`, since clipping hides regressions.
    `results` is the number of hits within k, repeats included.

    Raises: ValueError when `k` is below 1.

    >>> for name, value in measure(["a", "faq", "b"], {"a": 1, "b": 1, "faq": -1}, k=10).items():
    ...     print(f"{name:13} {value:.3f}")
    nudcg         0.533
    nudcg_clipped 0.533
    udcg          0.869
    ndcg          0.920
    recall        1.000
    precision     0.200
    mrr           1.000
    distractors   1.000
    results       3.000
    """
    raw = nudcg(ranking, qrels, k)
    return {
        "nudcg": raw,
        "nudcg_clipped": max(-1.0, raw),
        "udcg": udcg(ranking, qrels, k),
        "ndcg": ndcg(ranking, qrels, k),
        "recall": recall(ranking, qrels, k),
        "precision": precision(ranking, qrels, k),
        "mrr": reciprocal_rank(ranking, qrels, k),
        "distractors": distractors(ranking, qrels, k),
        "results": float(len(ranking[:k])),
    }
