import pytest
from hypothesis import given, strategies as st

from hive_agents import Workspace
from hive_agents.ranking import Ranking
from hive_agents.ranking.hits import disagreement
from tests.conftest import config_json

QUERY = "What happens with too many requests for a key?"


@pytest.mark.parametrize(
    ("keyword", "vector", "expected"),
    [(4, 4, 0), (2, 1, 0.5), (1, 2, 0.5), (1, None, 100 / 101), (None, 1, 100 / 101), (None, None, 0)],
)
def test_disagreement_is_the_relative_distance_of_the_ranks(
    keyword: int | None, vector: int | None, expected: float
) -> None:
    assert disagreement(keyword, vector, 100) == pytest.approx(expected)


@given(st.none() | st.integers(1, 100), st.none() | st.integers(1, 100))
def test_disagreement_is_symmetric_and_below_one(a: int | None, b: int | None) -> None:
    assert 0 <= disagreement(a, b, 100) == disagreement(b, a, 100) < 1


def search(workspace: Workspace, enabled: bool, threshold: float) -> Ranking:
    detection = {"enabled": enabled, "disagreement_threshold": threshold}
    return workspace.engine().search(QUERY, config_json("detect", distraction_detection=detection))


def test_a_hit_is_flagged_only_above_the_threshold(indexed: Workspace) -> None:
    hits = search(indexed, True, 0.5).hits
    at = next(hit.disagreement for hit in hits if hit.disagreement and hit.bm25_rank and hit.vector_rank)
    for hit in search(indexed, True, at).hits:
        assert hit.disagreement is not None
        assert hit.flagged is (hit.disagreement > at)
    below = search(indexed, True, at - 0.001).hits
    assert {hit.flagged for hit in below if hit.disagreement == at} == {True}


def test_detection_flags_and_changes_nothing_else(indexed: Workspace) -> None:
    off, on = search(indexed, False, 0.5), search(indexed, True, 0.5)
    assert not any(hit.flagged for hit in off.hits)
    assert any(hit.flagged for hit in on.hits)
    assert off.cut == on.cut
    assert [hit.to_json() | {"flagged": None} for hit in off.hits] == [
        hit.to_json() | {"flagged": None} for hit in on.hits
    ]


def test_a_missing_rank_counts_as_one_past_the_candidates(indexed: Workspace) -> None:
    config = config_json("few", retrieval={"candidates": 20})
    hits = indexed.engine().search(QUERY, config).hits
    absent = next(hit for hit in hits if hit.bm25_rank is None)
    assert absent.vector_rank is not None
    assert absent.disagreement == pytest.approx((21 - absent.vector_rank) / 21)


@pytest.mark.parametrize("config", ["words", "meaning"])
def test_one_lane_alone_has_no_disagreement(indexed: Workspace, config: str) -> None:
    assert {hit.disagreement for hit in indexed.engine().search(QUERY, config).hits} == {None}
