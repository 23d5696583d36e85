"""A trial on cached rankings must be what the engine would return, bit for bit."""

from __future__ import annotations

import dataclasses
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hive_agents import RetrievalConfig, Workspace, evaluate
from hive_agents.evaluation import Evaluation, GoldenSet, load_golden
from hive_agents.optimizer.budget import SearchBudget, SearchBudgetExhausted
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.ranking import SearchEngine
from tests.sample import indexed_sample

BOOSTS: list[dict[str, dict[str, float]]] = [
    {},
    {},
    {"category": {"changelogs": 0.2, "faqs": 1.5}},
    {"updated": {"half_life_days": 200}},
    {"category": {"sops": 0.0}, "updated": {"half_life_days": 30}},
]


def random_config(rng: random.Random) -> RetrievalConfig:
    method = rng.choice(["keyword", "vector", "hybrid", "hybrid", "hybrid"])
    filters: dict[str, Any] = {}
    if rng.random() < 0.4:
        filters["category"] = rng.choice([{"not": ["changelogs"]}, ["faqs", "tutorials"], "api-docs"])
    if rng.random() < 0.2:
        filters["updated"] = {"gte": "2025-01-01"}
    return RetrievalConfig.model_validate(
        {
            "name": "random",
            "collection": "knowledge-base",
            "retrieval": {
                "method": method,
                "top_k": rng.randrange(1, 20),
                "rrf_k": rng.choice([1, 5, 20, 60, 100]),
                "candidates": rng.choice([20, 50, 100, 200]),
                "per_document": rng.choice([None, None, 1, 2, 5]),
                "weights": {"keyword": rng.choice([0.3, 1, 2]), "vector": rng.choice([0.5, 1, 3])},
            },
            "dynamic_k": {
                "enabled": method == "hybrid" and rng.random() < 0.6,
                "gap_threshold_factor": rng.choice([1.5, 2, 3, 5]),
                "min_results": rng.randrange(0, 3),
            },
            "filters": filters,
            "bm25": {
                "k1": rng.choice([0.6, 1.2]),
                "b": rng.choice([0.4, 0.75]),
                "title_boost": rng.choice([0.0, 1.0, 2.5]),
            },
            "boosts": rng.choice(BOOSTS),
            "boilerplate": {"weight": rng.choice([1.0, 1.0, 0.5, 0.0])},
            "lift": {"weight": rng.choice([None, 0.0, 0.5, 2.0])},
            "abstain": {
                "enabled": rng.random() < 0.4,
                "min_cosine": rng.choice([None, None, 0.4, 0.5]),
                "unless_all_words": rng.random() < 0.5,
            },
        }
    )


SHARE, PARTS = 100, 9


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Evaluation]:
    """`evaluate`, which from the second time on doesn't run each query first, for latencies that nobody looks at."""

    def evaluated(workspace: Workspace, config: RetrievalConfig, golden: GoldenSet, engine: SearchEngine) -> Evaluation:
        found = evaluate(workspace, config, golden=golden, engine=engine)
        monkeypatch.setattr(sys.modules[evaluate.__module__], "_warm", lambda *_: None)
        return found

    return evaluated


@pytest.mark.parametrize(
    ("first", "last"), [(0, 6), *(pytest.param(n, n + SHARE, marks=pytest.mark.slow) for n in range(0, 500, SHARE))]
)
def test_cached_scores_equal_the_engines_bit_for_bit(
    first: int, last: int, measured: Callable[..., Evaluation]
) -> None:
    """Of 500 configs a share in each test, so that several processes can work at them; each ninth question, in turn."""
    workspace = Workspace(indexed_sample())
    whole, engine, rng = load_golden(workspace), workspace.engine(), random.Random(7)
    parts = [whole.only(query.id for query in whole.queries[part::PARTS]) for part in range(PARTS)]
    caches = [LaneCache(engine, part) for part in parts]
    for number, config in enumerate([random_config(rng) for _ in range(last)][first:]):
        expected = measured(workspace, config, parts[number % PARTS], engine)
        scores = caches[number % PARTS].evaluate(config)
        assert scores.nudcg.tolist() == expected.scores(), config
        assert scores.distractors.tolist() == [query.metrics["distractors"] for query in expected.queries], config
        assert scores.results.tolist() == [query.metrics["results"] for query in expected.queries], config


def test_a_query_with_a_principal_is_scored_in_their_scope_bit_for_bit() -> None:
    workspace = Workspace(indexed_sample())
    whole, engine, rng = load_golden(workspace), workspace.engine(), random.Random(11)
    users = [None, "dana", "guest", "pete"]
    queries = [query.model_copy(update={"principal": users[n % 4]}) for n, query in enumerate(whole.queries[:24])]
    golden = dataclasses.replace(whole, queries=tuple(queries))
    cache = LaneCache(engine, golden)
    for _ in range(15):
        config = random_config(rng)
        expected = evaluate(workspace, config, golden=golden, engine=engine)
        scores = cache.evaluate(config)
        assert scores.nudcg.tolist() == expected.scores(), config
        assert scores.distractors.tolist() == [query.metrics["distractors"] for query in expected.queries], config
        assert scores.results.tolist() == [query.metrics["results"] for query in expected.queries], config
    open_to_all, naive = LaneCache(engine, whole.only(query.id for query in queries)), engine.resolve("v1")
    assert open_to_all.evaluate(naive).nudcg.tolist() != cache.evaluate(naive).nudcg.tolist()


class Arbitrary:
    """A reranker whose scores look random, are the same for the same pair, and tie now and then."""

    model_id = "arbitrary"

    def relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        return [(zlib.crc32(f"{query} {text}".encode()) % 40) / 20 - 1.0 for text in texts]


@pytest.mark.parametrize("configs", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_reranked_lists_are_scored_as_the_engine_does_bit_for_bit(
    configs: int, measured: Callable[..., Evaluation]
) -> None:
    workspace = Workspace(indexed_sample())
    golden, rng = load_golden(workspace).only([f"q{n:03d}" for n in range(1, 31)]), random.Random(5)
    engine = SearchEngine(workspace, Arbitrary())
    cache = LaneCache(engine, golden)
    assert len(golden) > 20
    for _ in range(configs):
        plain, top_k = random_config(rng), rng.randrange(1, 20)
        candidates = top_k + rng.randrange(0, 60)
        rerank = {"enabled": True, "candidates": candidates, "floor": rng.choice([None, None, -0.5, 0.3, 0.9])}
        data = plain.model_dump(exclude_unset=True) | {"rerank": rerank}
        data["retrieval"]["top_k"] = top_k
        config = RetrievalConfig.model_validate(data)
        expected = measured(workspace, config, golden, engine)
        scores = cache.evaluate(config)
        assert scores.nudcg.tolist() == expected.scores(), config
        assert scores.distractors.tolist() == [query.metrics["distractors"] for query in expected.queries], config
        assert scores.results.tolist() == [query.metrics["results"] for query in expected.queries], config
        assert (scores.rerank_seconds > 0).any()


def test_a_config_that_looks_deeper_than_the_cache_is_refused() -> None:
    workspace = Workspace(indexed_sample())
    cache = LaneCache(workspace.engine(), load_golden(workspace))
    retrieval = {"method": "hybrid", "top_k": 10, "candidates": 201}
    deep = RetrievalConfig.model_validate({"name": "deep", "collection": "knowledge-base", "retrieval": retrieval})
    with pytest.raises(ValueError, match="200"):
        cache.evaluate(deep)


def test_an_empty_set_of_queries_has_no_scores() -> None:
    workspace = Workspace(indexed_sample())
    golden = load_golden(workspace)
    cache = LaneCache(workspace.engine(), golden.only([]))
    assert len(cache.evaluate(random_config(random.Random(1))).nudcg) == 0


def test_every_config_measured_is_spent_and_the_next_one_refused() -> None:
    workspace = Workspace(indexed_sample())
    budget = SearchBudget(max_evaluations=2, max_seconds=60)
    cache = LaneCache(workspace.engine(), load_golden(workspace), budget=budget)
    for _ in range(2):
        cache.evaluate(random_config(random.Random(1)))
    with pytest.raises(SearchBudgetExhausted, match="evaluations"):
        cache.evaluate(random_config(random.Random(1)))
    assert budget.evaluations == 2
