from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hive_agents.ranking.config import Retrieval, Weights
from hive_agents.ranking.fusion import Fused, IntArray, best_columns, joined, rank_step, rrf


def rows(*lanes: Sequence[int]) -> IntArray:
    """Lanes of one query each, -1 behind the last chunk."""
    most = max(map(len, lanes))
    return np.array([[*lane, *[-1] * (most - len(lane))] for lane in lanes], np.int64).reshape(len(lanes), most)


def fuse(keyword: Sequence[int], vector: Sequence[int], weights: Sequence[float], k: int) -> Fused:
    pool = joined(rows(keyword), rows(vector))
    lanes = (pool.keyword, pool.vector)[: len(weights)]
    scores, available = rrf(pool, lanes, weights, k, 10_000)
    order = best_columns(scores, scores.shape[1])[0, : available[0]]
    return Fused(pool.chunks[0, order], scores[0, order], (pool.keyword[0, order], pool.vector[0, order]))


def scores(fused: Fused) -> dict[int, float]:
    return dict(zip(fused.chunks.tolist(), fused.scores.tolist(), strict=True))


def test_a_score_is_the_sum_over_the_lanes_that_have_the_chunk() -> None:
    fused = fuse([7, 3], [3, 9], [1, 1], 60)
    assert fused.chunks.tolist() == [3, 7, 9]
    assert scores(fused) == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 9: 1 / 62})


def test_a_rank_is_null_in_a_lane_that_lacks_the_chunk() -> None:
    fused = fuse([7, 3], [3, 9], [1, 1], 60)
    assert [rank.tolist() for rank in fused.ranks] == [[2, 1, 0], [1, 0, 2]]


def test_ties_break_by_chunk_number() -> None:
    assert fuse([8, 2], [2, 8], [1, 1], 60).chunks.tolist() == [2, 8]
    assert fuse([5], [4], [1, 1], 60).chunks.tolist() == [4, 5]


def test_weights_scale_each_lane() -> None:
    fused = fuse([1, 2], [2, 1], [1, 3], 10)
    assert scores(fused) == pytest.approx({2: 1 / 12 + 3 / 11, 1: 1 / 11 + 3 / 12})


def test_one_lane_alone_is_its_own_ranking_at_weight_one() -> None:
    alone = Retrieval(method="keyword", top_k=3, weights=Weights(keyword=7.0, vector=0.0))
    fused = fuse([9, 4, 6], [], alone.lane_weights, 60)
    assert fused.chunks.tolist() == [9, 4, 6]
    assert fused.scores.tolist() == [1 / 61, 1 / 62, 1 / 63]


def test_empty_lanes_fuse_to_nothing() -> None:
    assert len(fuse([], [], [1, 1], 60)) == 0


def test_candidates_end_a_lane_and_its_deeper_places_add_nothing() -> None:
    pool = joined(rows([7, 3, 5]), rows([3, 9, 7]))
    found, available = rrf(pool, [pool.keyword, pool.vector], [1, 1], 60, 1)
    assert pool.chunks[found >= 0].tolist() == [3, 7]
    assert (available.tolist(), found[found >= 0].tolist()) == ([2], [1 / 61, 1 / 61])


def test_a_rank_step_is_the_gap_of_neighbours_in_every_lane() -> None:
    assert rank_step(2, [1, 2], 60) == pytest.approx(3 * (1 / 61 - 1 / 62))


ORDER = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(ORDER, ORDER, st.integers(1, 1000))
def test_scores_fall_and_better_ranks_never_score_less(first: list[int], second: list[int], k: int) -> None:
    fused = fuse(first, second, [1, 1], k)
    assert sorted(fused.chunks.tolist()) == sorted({*first, *second})
    assert (np.diff(fused.scores) <= 0).all()
    found = scores(fused)
    for ranking, other in ((first, second), (second, first)):
        alone = [chunk for chunk in ranking if chunk not in other]
        assert all(found[a] > found[b] for a, b in pairwise(alone))


@pytest.mark.parametrize("longest", [20, 300])
def test_a_row_of_many_queries_is_that_of_the_query_alone(longest: int) -> None:
    rng = np.random.default_rng(3)
    lanes = [[rng.permutation(400)[: rng.integers(longest)].tolist() for _ in range(30)] for _ in range(2)]
    pool = joined(*(rows(*lane, range(longest)) for lane in lanes))
    found, available = rrf(pool, [pool.keyword, pool.vector], [1, 2.5], 60, 250)
    order = best_columns(found, 40)
    for row, (keyword, vector) in enumerate(zip(*lanes, strict=True)):
        alone = fuse(keyword[:250], vector[:250], [1, 2.5], 60)
        upto = min(40, len(alone))
        assert available[row] == len(alone)
        assert pool.chunks[row, order[row, :upto]].tolist() == alone.chunks[:upto].tolist()
        assert found[row, order[row, :upto]].tolist() == alone.scores[:upto].tolist()
