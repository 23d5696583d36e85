import random
from collections.abc import Callable
from math import log2

import pytest
import pytrec_eval
from hypothesis import given, strategies as st

from hive_agents.evaluation.metrics.measure import (
    distractors,
    ideal_udcg,
    measure,
    ndcg,
    nudcg,
    precision,
    recall,
    reciprocal_rank,
    udcg,
)

# Spec example: ranks R D R I R, three relevant documents.
QRELS = {"r1": 1, "r2": 1, "r3": 1, "d": -1, "i": 0}
RANKING = ["r1", "d", "r2", "i", "r3"]

documents = st.sampled_from([f"doc-{n}" for n in range(12)])
rankings = st.lists(documents, max_size=25)
judgements = st.dictionaries(documents, st.sampled_from([-1, 0, 1]))
depths = st.integers(1, 30)


def test_worked_example_of_udcg() -> None:
    assert udcg(RANKING, QRELS, 5) == pytest.approx(1 - 1 / log2(3) + 1 / 2 + 1 / log2(6))
    assert udcg(RANKING, QRELS, 5) == pytest.approx(1.256, abs=5e-4)
    assert ideal_udcg(QRELS, 5) == pytest.approx(2.131, abs=5e-4)
    assert nudcg(RANKING, QRELS, 5) == pytest.approx(0.589, abs=5e-4)


def test_removing_the_distractor_lifts_what_was_below_it() -> None:
    assert nudcg(["r1", "r2", "i", "r3"], QRELS, 5) == pytest.approx(0.967, abs=5e-4)


def test_ndcg_is_nudcg_with_the_distractor_made_irrelevant() -> None:
    assert ndcg(RANKING, QRELS, 5) == pytest.approx(nudcg(RANKING, QRELS | {"d": 0}, 5))
    assert ndcg(RANKING, QRELS, 5) == pytest.approx(0.885, abs=5e-4)


def test_nudcg_falls_below_minus_one_and_its_display_form_does_not() -> None:
    ten = [f"d{n}" for n in range(10)]
    values = measure(ten, {"r": 1} | dict.fromkeys(ten, -1), k=10)
    assert values["nudcg"] == pytest.approx(-4.5436, abs=5e-5)
    assert values["nudcg_clipped"] == -1.0
    assert values["distractors"] == 10


def test_a_repeated_document_holds_its_rank_and_earns_nothing() -> None:
    assert udcg(["r1", "r1", "r2"], QRELS, 3) == pytest.approx(1 + 1 / 2)
    assert udcg(["d", "d"], QRELS, 3) == -1
    assert recall(["r1", "r1", "r1"], QRELS, 3) == pytest.approx(1 / 3)
    assert distractors(["d", "d"], QRELS, 3) == 1
    assert measure(["r1", "r1", "r2"], QRELS, 3)["results"] == 3


def test_nothing_below_the_depth_counts() -> None:
    assert measure(["i", "r1", "d"], QRELS, 1) == measure(["i"], QRELS, 1)


def test_returning_less_cannot_shrink_the_ideal() -> None:
    assert nudcg(["r1"], QRELS, 10) == pytest.approx(1 / ideal_udcg(QRELS, 10))


def test_more_relevant_documents_than_ranks_leave_a_perfect_ranking_perfect() -> None:
    many = {f"r{n}": 1 for n in range(9)}
    assert nudcg(list(many), many, 3) == pytest.approx(1.0)
    assert ndcg(list(many), many, 3) == pytest.approx(1.0)


def test_abstaining_is_perfect_only_where_nothing_is_relevant() -> None:
    assert nudcg([], {"d": -1}, 5) == 1.0
    assert nudcg([], {}, 5) == 1.0
    assert nudcg([], QRELS, 5) == 0.0
    assert nudcg(["i"], {"d": -1}, 5) == 0.0
    assert nudcg(["i", "d"], {"d": -1}, 5) == pytest.approx(-1 / log2(3))


@pytest.mark.parametrize("metric", [ndcg, recall, precision, reciprocal_rank])
def test_classic_metrics_of_a_query_without_answer_follow_trec_eval(metric: Callable[..., float | None]) -> None:
    assert metric(["d"], {"d": -1}, 5) == 0.0
    assert metric([], {"d": -1}, 5) == 0.0
    assert metric(["d"], {}, 5) is None

    evaluator = pytrec_eval.RelevanceEvaluator({"judged": {"d": -1}, "unjudged": {}}, {"ndcg_cut.5", "recall.5"})
    theirs = evaluator.evaluate({"judged": {"d": 1.0}, "unjudged": {"d": 1.0}})
    assert theirs == {"judged": {"ndcg_cut_5": 0.0, "recall_5": 0.0}}


@pytest.mark.parametrize("k", [0, -1])
def test_a_depth_below_one_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        measure(RANKING, QRELS, k)


@given(rankings, judgements, depths)
def test_bounds_hold_for_any_ranking(ranking: list[str], qrels: dict[str, int], k: int) -> None:
    values = measure(ranking, qrels, k)
    worst = sum(1 / log2(rank + 1) for rank in range(1, k + 1))
    raw = values["nudcg"]
    assert raw is not None
    assert -worst - 1e-9 <= raw <= 1 + 1e-9
    assert values["nudcg_clipped"] == max(-1.0, raw)
    for name in ("ndcg", "recall", "precision", "mrr"):
        value = values[name]
        assert (value is None) == (not qrels)
        assert value is None or 0 <= value <= 1 + 1e-9
    assert values["distractors"] in range(min(len(ranking), k) + 1)
    if 1 in qrels.values():
        assert raw <= (values["ndcg"] or 0) + 1e-9


@given(rankings, judgements, depths)
def test_relevant_documents_first_and_alone_are_perfect(ranking: list[str], qrels: dict[str, int], k: int) -> None:
    best = sorted(document for document, label in qrels.items() if label == 1)
    assert nudcg(best, qrels, k) == pytest.approx(1.0)
    assert nudcg(ranking, qrels, k) <= 1 + 1e-9


@given(rankings, st.dictionaries(documents, st.sampled_from([0, 1])), depths)
def test_removing_the_only_distractor_never_lowers_nudcg(ranking: list[str], qrels: dict[str, int], k: int) -> None:
    # The only one: what moves up must not be a distractor itself, whose cost grows with its rank.
    judged = qrels | {"doc-0": 1, "doc-1": -1}
    without = [document for document in ranking if document != "doc-1"]
    assert nudcg(without, judged, k) >= nudcg(ranking, judged, k) - 1e-9


def test_classic_metrics_equal_trec_eval_on_a_thousand_random_rankings() -> None:
    dice = random.Random(7)
    pool = [f"doc-{n}" for n in range(40)]
    for _ in range(1_000):
        k = dice.choice([1, 3, 5, 10, 20])
        qrels = {document: dice.choice([-1, 0, 0, 1]) for document in dice.sample(pool, dice.randint(1, 25))}
        ranking = dice.choices(pool, k=dice.randint(1, 30))
        theirs = _trec_eval(ranking, qrels, k)
        ours = measure(ranking, qrels, k)
        assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=1e-9)


def _trec_eval(ranking: list[str], qrels: dict[str, int], k: int) -> dict[str, float]:
    """A run holds a document once, so a repeat stands in as a document that nobody judged.

    Scores fall strictly with the rank: trec_eval orders by score and breaks ties by name. Its reciprocal
    rank knows no depth, so the run itself is cut.
    """
    run: dict[str, float] = {}
    for rank, document in enumerate(ranking[:k], start=1):
        run[f"repeat-{rank}" if document in run else document] = float(1_000 - rank)
    names = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P"}
    evaluator = pytrec_eval.RelevanceEvaluator(
        {"q": qrels}, {f"{measure}.{k}" for measure in names.values()} | {"recip_rank"}
    )
    values = evaluator.evaluate({"q": run})["q"]
    return {name: values[f"{theirs}_{k}"] for name, theirs in names.items()} | {"mrr": values["recip_rank"]}
