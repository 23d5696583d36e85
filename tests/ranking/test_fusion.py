from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hive_agents.index.lanes import Lane
from hive_agents.ranking.config import Retrieval, Weights
from hive_agents.ranking.fusion import Fused, rank_step, rrf


def lane(*chunks: int) -> Lane:
    return Lane(np.array(chunks, np.intp), np.linspace(1, 0.5, len(chunks), dtype=np.float32))


def scores(fused: Fused) -> dict[int, float]:
    return dict(zip(fused.chunks.tolist(), fused.scores.tolist(), strict=True))


def test_a_score_is_the_sum_over_the_lanes_that_have_the_chunk() -> None:
    fused = rrf([lane(7, 3), lane(3, 9)], [1, 1], 60)
    assert fused.chunks.tolist() == [3, 7, 9]
    assert scores(fused) == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 9: 1 / 62})


def test_a_rank_is_null_in_a_lane_that_lacks_the_chunk() -> None:
    fused = rrf([lane(7, 3), lane(3, 9)], [1, 1], 60)
    assert [rank.tolist() for rank in fused.ranks] == [[2, 1, 0], [1, 0, 2]]


def test_ties_break_by_chunk_number() -> None:
    assert rrf([lane(8, 2), lane(2, 8)], [1, 1], 60).chunks.tolist() == [2, 8]
    assert rrf([lane(5), lane(4)], [1, 1], 60).chunks.tolist() == [4, 5]


def test_weights_scale_each_lane() -> None:
    fused = rrf([lane(1, 2), lane(2, 1)], [1, 3], 10)
    assert scores(fused) == pytest.approx({2: 1 / 12 + 3 / 11, 1: 1 / 11 + 3 / 12})


def test_one_lane_alone_is_its_own_ranking_at_weight_one() -> None:
    alone = Retrieval(method="keyword", top_k=3, weights=Weights(keyword=7.0, vector=0.0))
    fused = rrf([lane(9, 4, 6)], alone.lane_weights, 60)
    assert fused.chunks.tolist() == [9, 4, 6]
    assert fused.scores.tolist() == [1 / 61, 1 / 62, 1 / 63]


def test_empty_lanes_fuse_to_nothing() -> None:
    assert len(rrf([lane(), lane()], [1, 1], 60)) == 0


def test_a_rank_step_is_the_gap_of_neighbours_in_every_lane() -> None:
    assert rank_step(2, [1, 2], 60) == pytest.approx(3 * (1 / 61 - 1 / 62))


ORDER = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(ORDER, ORDER, st.integers(1, 1000))
def test_scores_fall_and_better_ranks_never_score_less(first: list[int], second: list[int], k: int) -> None:
    fused = rrf([lane(*first), lane(*second)], [1, 1], k)
    assert sorted(fused.chunks.tolist()) == sorted({*first, *second})
    assert (np.diff(fused.scores) <= 0).all()
    found = scores(fused)
    for ranking, other in ((first, second), (second, first)):
        alone = [chunk for chunk in ranking if chunk not in other]
        assert all(found[a] > found[b] for a, b in pairwise(alone))
