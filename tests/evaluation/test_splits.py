from __future__ import annotations

from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.evaluation.splits import split


def golden(texts: list[str], splits: list[str | None] | None = None) -> GoldenSet:
    named = splits or [None] * len(texts)
    queries = tuple(
        GoldenQuery.model_validate({"id": f"q{n}", "query": text, "split": name})
        for n, (text, name) in enumerate(zip(texts, named, strict=True))
    )
    return GoldenSet("knowledge-base", 10, queries, "evals/golden.json", "hash")


def different(n: int) -> list[str]:
    return [f"alpha{n} beta{n} gamma{n}" for n in range(n)]


def ids(part: GoldenSet | None) -> set[str]:
    return set() if part is None else {query.id for query in part}


def test_named_splits_are_kept() -> None:
    found = split(golden(different(4), ["train", "validation", "holdout", "train"]))
    assert (ids(found.train), ids(found.validation), ids(found.holdout)) == ({"q0", "q3"}, {"q1"}, {"q2"})
    assert found.regime == "named"


def test_queries_without_a_split_join_train_and_validation_when_a_holdout_is_named() -> None:
    found = split(golden(different(15), ["holdout"] * 5 + [None] * 10))
    assert ids(found.holdout) == {f"q{n}" for n in range(5)}
    assert len(found.train) + len(found.validation) == 10
    assert len(found.validation) >= 2


def test_without_queries_for_training_those_of_the_validation_are_learned_from() -> None:
    found = split(golden(different(4), ["validation", "holdout", "validation", "holdout"]))
    assert (ids(found.train), ids(found.validation), ids(found.holdout)) == ({"q0", "q2"}, set(), {"q1", "q3"})


def test_from_forty_queries_on_they_are_shared_50_20_30() -> None:
    found = split(golden(different(100)))
    assert (len(found.train), len(found.validation)) == (50, 20)
    assert len(ids(found.holdout)) == 30
    assert ids(found.train) | ids(found.validation) | ids(found.holdout) == {f"q{n}" for n in range(100)}


def test_from_twenty_queries_on_there_is_no_validation_split() -> None:
    found = split(golden(different(30)))
    assert (len(found.train), len(found.validation), len(ids(found.holdout))) == (18, 0, 12)
    assert found.regime == "cross_validated"


def test_below_twenty_queries_nothing_can_be_certified() -> None:
    found = split(golden(different(19)))
    assert found.holdout is None
    assert len(found.train) == 19


def test_near_duplicate_queries_stay_together() -> None:
    texts = different(60) + [f"alpha{n} beta{n} gamma{n} please" for n in range(60)]
    found = split(golden(texts))
    for part in (found.train, found.validation, found.holdout):
        assert part is not None
        assert all((f"q{n}" in ids(part)) == (f"q{n + 60}" in ids(part)) for n in range(60))


def test_a_split_does_not_depend_on_the_order_of_the_file() -> None:
    forward = golden(different(50))
    backward = GoldenSet("knowledge-base", 10, tuple(reversed(forward.queries)), "evals/golden.json", "hash")
    assert ids(split(forward).holdout) == ids(split(backward).holdout)


def test_a_query_that_names_its_split_is_never_held_out() -> None:
    generated = [
        GoldenQuery(id=f"g{n}", query=f"generated topic {n} {n * 7}", relevant=["a.md"], split="train")
        for n in range(60)
    ]
    asked = [GoldenQuery(id=f"q{n}", query=f"asked matter {n} {n * 13}", relevant=["a.md"]) for n in range(50)]
    found = split(GoldenSet("kb", 10, (*generated, *asked), "evals/golden.json", "hash"))
    assert found.holdout is not None
    assert not {query.id for query in (*found.holdout, *found.validation)} & {query.id for query in generated}
    assert {query.id for query in generated} <= {query.id for query in found.train}
    alone = split(GoldenSet("kb", 10, (*generated, *asked[:5]), "evals/golden.json", "hash"))
    assert (alone.regime, alone.holdout) == ("uncertified", None)
