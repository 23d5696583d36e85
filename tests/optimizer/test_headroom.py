from __future__ import annotations

from random import Random

import numpy as np

from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.optimizer.headroom import headroom
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.space import apply, parsed, random_edit
from tests.sample import indexed_sample


def opened(queries: int = 40) -> tuple[Workspace, LaneCache]:
    workspace = Workspace(indexed_sample())
    golden = load_golden(workspace)
    return workspace, LaneCache(workspace.engine(), golden.only([query.id for query in golden][:queries]))


def test_the_nudcg_by_length_is_that_of_the_config_with_that_top_k() -> None:
    workspace, cache = opened()
    base, index, rng = workspace.engine().resolve("v1"), workspace.engine().index("knowledge-base"), Random(3)
    for _ in range(12):
        config = parsed(apply(base, random_edit(rng, index).values) | {"dynamic_k": {"enabled": False}, "abstain": {}})
        by_length = cache.by_length(config)
        assert by_length.shape == (40, 11)
        for length in (1, 3, 10):
            expected = cache.evaluate(parsed(apply(config, [("retrieval.top_k", length)])))
            assert by_length[:, length].tolist() == expected.nudcg.tolist()


def test_no_config_of_a_random_search_is_above_what_each_query_could_have() -> None:
    workspace, cache = opened()
    engine = workspace.engine()
    base, index = engine.resolve("v1"), engine.index("knowledge-base")
    found = headroom(cache, index, base, seed=1, trials=3000)
    assert found is not None
    assert 3000 <= found.trials < 3300
    assert float(cache.evaluate(base).nudcg.mean()) < found.best <= found.each_query <= 1.0
    assert abs(1.0 - found.each_query - sum(one.points for one in found.out_of_reach)) < 1e-9
    assert headroom(cache, index, base, seed=1, trials=3000) == found


def test_the_best_is_the_mean_of_a_config_that_exists_and_never_under_the_chosen_one() -> None:
    workspace, cache = opened(20)
    engine = workspace.engine()
    base, index = engine.resolve("v1"), engine.index("knowledge-base")
    chosen = parsed(apply(base, [("retrieval.top_k", 7), ("bm25.k1", 0.6), ("abstain.min_cosine", 0.317)]))
    for trials in (1, 2500):
        found = headroom(cache, index, base, chosen, trials=trials)
        assert found is not None
        best = parsed(apply(base, [(change["path"], change["b"]) for change in found.changes]))
        assert np.isclose(found.best, cache.evaluate(best).nudcg.mean())
        assert found.best >= cache.evaluate(chosen).nudcg.mean() - 1e-12


def test_what_no_trial_reaches_is_named_with_why() -> None:
    workspace, cache = opened(78)
    engine = workspace.engine()
    found = headroom(cache, engine.index("knowledge-base"), engine.resolve("v1"), trials=2000)
    assert found is not None
    assert found.out_of_reach
    ids = [id for one in found.out_of_reach for id in one.queries]
    assert len(ids) == len(set(ids))
    assert set(ids) <= {query.id for query in cache.golden}


def test_without_queries_there_is_none() -> None:
    workspace, _ = opened(1)
    engine = workspace.engine()
    empty = LaneCache(engine, load_golden(workspace).only([]))
    assert headroom(empty, engine.index("knowledge-base"), engine.resolve("v1")) is None
