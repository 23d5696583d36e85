"""Every metric of one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import count_relevant, discount, ideal_dcg, labels_at_ranks


# Inspired by, and not equal to, the UDCG of Trappolini et al. (arXiv 2510.21440): that one measures the utility of each
# passage on a reader model, and fits the weight of each position to its answers. Here a utility is a hand label and the
# discount is DCG's, so nothing but labels is needed.
def udcg(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float:
    """Return the discounted sum of the utilities at ranks 1 to k; a distractor costs most at rank 1.

    Unjudged documents and repeats of a document count 0; an empty ranking has 0.0.

    >>> judged = {"a": 1, "b": 1, "c": 1, "faq": -1, "old": 0}
    >>> round(udcg(["a", "faq", "b", "old", "c"], judged, k=5), 3)
    1.256
    """
    labels = labels_at_ranks(ranking, qrels, k)
    gained = 0.0
    for rank, label in enumerate(labels, start=1):  # not sum(): it compensates from Python 3.12 on
        gained += label * discount(rank)
    return gained


def ideal_udcg(qrels: Mapping[str, int], k: int) -> float:
    """Return UDCG@k of the best possible ranking: every relevant document first, no distractor.

    `qrels` must hold all the labels of the query, also of documents that a config's filter hides:
    otherwise a config could raise its score by filtering out what it fails to find.

    >>> round(ideal_udcg({"a": 1, "b": 1, "c": 1, "faq": -1}, k=5), 3)
    2.131
    """
    return ideal_dcg(count_relevant(qrels), k)


def nudcg(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float:
    """Return UDCG over its ideal: 1.0 is perfect, and there is no lower bound.

    >>> judged = {"a": 1, "b": 1, "c": 1, "faq": -1, "old": 0}
    >>> round(nudcg(["a", "faq", "b", "old", "c"], judged, k=5), 3)
    0.589
    >>> round(nudcg(["a", "b", "old", "c"], judged, k=5), 3)  # without the distractor
    0.967

    One relevant document, not found, and ten distractors instead:

    >>> distractors = [f"faq-{n}" for n in range(10)]
    >>> round(nudcg(distractors, {"a": 1} | dict.fromkeys(distractors, -1), k=10), 2)
    -4.54

    Where no document is relevant, the right answer is none: an empty ranking is perfect, any other has
    its UDCG (there is no ideal to divide by), which is 0 or less.

    >>> nudcg([], {"faq": -1}, k=5), nudcg(["old"], {"faq": -1}, k=5), nudcg(["faq"], {"faq": -1}, k=5)
    (1.0, 0.0, -1.0)
    """
    gained = udcg(ranking, qrels, k)
    ideal = ideal_udcg(qrels, k)
    if ideal > 0:
        return gained / ideal
    return gained if ranking else 1.0


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


def distractors(ranking: Sequence[str], qrels: Mapping[str, int], k: int) -> float:
    """Return how many different distractors are among the first k; lower is better.

    >>> distractors(["a", "faq", "faq", "forum"], {"a": 1, "faq": -1, "forum": -1}, k=4)
    2.0
    """
    return float(sum(label < 0 for label in labels_at_ranks(ranking, qrels, k)))


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
