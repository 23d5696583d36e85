"""DCG with ternary utilities: a distractor costs what a relevant document earns.

Inspired by, and not equal to, the UDCG of Trappolini et al. (arXiv 2510.21440): that one measures
the utility of each passage on a reader model and fits the weight of each position to its answers.
Here a utility is a hand label and the discount is DCG's, so nothing but labels is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hive_agents.evaluation.metrics.labels import count_relevant, discount, ideal_dcg, labels_at_ranks


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
