from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hive_agents.ranking import cutoff

PUBLISHED = [0.0328, 0.0318, 0.0307, 0.0295, 0.0281, 0.0266, 0.0198]


def dynamic_k(scores: Sequence[float], factor: float, least: int, most: int, **constants: Any) -> int:
    upto = np.array([min(most, len(scores))])
    return int(cutoff.dynamic_k(np.array([scores], np.float64), upto, factor, least, **constants)[0])


def test_the_published_example_returns_six() -> None:
    assert dynamic_k(PUBLISHED, 3.0, 1, 10) == 6


def test_the_mean_is_over_the_gaps_before_the_rank_alone() -> None:
    # Gaps .0010 .0011 .0012 .0014 .0015 .0068: the last is 5.5 times the mean before it, 3.1 times the mean with it.
    assert dynamic_k(PUBLISHED, 5.4, 1, 10) == 6
    assert dynamic_k(PUBLISHED, 5.5, 1, 10) == 7


def test_the_first_gap_never_ends_the_list() -> None:
    assert dynamic_k([0.03, 0.001, 0.0009], 0.1, 0, 10) == 3


def test_a_tie_at_the_top_does_not_cut_the_list_at_two() -> None:
    tie = [1 / 61 + 1 / 62, 1 / 62 + 1 / 61, 2 / 63, 2 / 64, 2 / 65]
    assert dynamic_k(tie, 3.0, 1, 10) == 5


def test_the_floor_of_the_mean_follows_the_weights() -> None:
    scores = [10 / 61, 10 / 61, 10 / 61 - 0.002]
    assert dynamic_k(scores, 3.0, 1, 10, weights=[1, 1]) == 2
    assert dynamic_k(scores, 3.0, 1, 10, weights=[10, 10]) == 3


@pytest.mark.parametrize(("least", "expected"), [(0, 6), (6, 6), (7, 7), (9, 7)])
def test_min_results_are_returned_where_there_are_as_many(least: int, expected: int) -> None:
    assert dynamic_k(PUBLISHED, 3.0, least, 10) == expected


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (3, 3), (6, 6), (7, 6)])
def test_max_results_cap_the_list(most: int, expected: int) -> None:
    assert dynamic_k(PUBLISHED, 3.0, 1, most) == expected


def test_short_lists_are_returned_whole() -> None:
    assert [dynamic_k(PUBLISHED[:n], 3.0, 1, 10) for n in range(3)] == [0, 1, 2]


def test_a_gap_of_just_the_factor_ends_no_list() -> None:
    """More than the factor does."""
    scores = [10.0, 8.0, 6.0]
    assert dynamic_k([*scores, 0.0], 3.0, 1, 10) == 4
    assert dynamic_k([*scores, -0.001], 3.0, 1, 10) == 3


@given(
    st.lists(st.floats(0, 1), max_size=20).map(lambda scores: sorted(scores, reverse=True)),
    st.floats(0.1, 10),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_the_length_is_between_min_and_max(scores: list[float], factor: float, least: int, most: int) -> None:
    count = dynamic_k(scores, factor, least, most)
    assert min(least, most, len(scores)) <= count <= min(most, len(scores))
    assert count >= min(2, most, len(scores))


@given(st.lists(st.floats(0, 1), max_size=20).map(lambda scores: sorted(scores, reverse=True)), st.floats(0.1, 5))
def test_a_larger_factor_never_returns_less(scores: list[float], factor: float) -> None:
    assert dynamic_k(scores, factor, 1, 20) <= dynamic_k(scores, factor * 2, 1, 20)


@given(
    st.lists(st.tuples(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 20)), min_size=1, max_size=5),
    st.floats(0.1, 10),
    st.integers(0, 20),
)
def test_each_list_of_many_has_its_own_length(lists: list[tuple[list[float], int]], factor: float, least: int) -> None:
    scores = np.full((len(lists), 20), -7.0)
    for row, (values, _) in enumerate(lists):
        scores[row, : len(values)] = sorted(values, reverse=True)
    upto = np.array([min(most, len(values)) for values, most in lists])
    alone = [dynamic_k(sorted(values, reverse=True), factor, least, most) for values, most in lists]
    assert cutoff.dynamic_k(scores, upto, factor, least).tolist() == alone
