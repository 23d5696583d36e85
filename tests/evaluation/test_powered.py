"""Few labels of people and many cheap ones: valid whatever the cheap ones say, and narrower where they are right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hive_agents.evaluation import powered_difference
from hive_agents.evaluation.powered import FEWEST, _half_width
from hive_agents.evaluation.statistics import paired_difference

VALUES = np.array([-1.0, -0.63, -0.37, 0.37, 0.63, 1.0])
"""Differences of nUDCG as they are: most queries don't change, the others jump. Their mean is 0."""


def draw(
    random: np.random.Generator, n: int, right: float, gain: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Differences by people and by cheap labels, of which a share `right` are what people say, the others chance."""

    def differences() -> NDArray[np.float64]:
        return np.where(random.random(n) < 0.5, 0.0, random.choice(VALUES, n)) + gain

    people = differences()
    return people, np.where(random.random(n) < right, people, differences())


def sampled(seed: int, n: int, right: float, more: int = 400, gain: float = 0.0) -> tuple[list[float], ...]:
    random = np.random.default_rng(seed)
    people, cheap = draw(random, n, right, gain)
    return people.tolist(), cheap.tolist(), draw(random, more, right, gain)[1].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("right", [0.0, 0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("n", [2, 5, FEWEST, 60])
def test_interval_is_never_wider_than_by_people_alone(n: int, right: float) -> None:
    for seed in range(40):
        found = powered_difference(*sampled(seed, n, right))
        low, high = found.ci95
        assert high - low <= found.people_ci95[1] - found.people_ci95[0] + 1e-12


def test_cheap_labels_that_are_mostly_right_make_the_interval_narrower() -> None:
    ratios = []
    for seed in range(30):
        found = powered_difference(*sampled(seed, 40, 0.9))
        ratios.append((found.ci95[1] - found.ci95[0]) / (found.people_ci95[1] - found.people_ci95[0]))
    assert np.median(ratios) < 0.7


def test_with_fewer_labels_than_can_be_weighed_people_alone_decide() -> None:
    people, cheap, others = sampled(3, FEWEST - 1, 1.0)
    found = powered_difference(people, cheap, others)
    assert (found.weight, found.ci95) == (0.0, found.people_ci95)


def test_cheap_labels_that_all_agree_say_nothing() -> None:
    people, _, _ = sampled(4, 30, 1.0)
    found = powered_difference(people, [0.0] * 30, [0.0] * 100)
    plain = paired_difference([0.0] * 30, people)
    assert found.weight == 0.0
    assert found.difference == pytest.approx(plain.difference)
    assert found.p_value == pytest.approx(plain.p_value, abs=0.02)


def test_cheap_labels_that_say_the_contrary_get_no_weight() -> None:
    people, cheap, others = sampled(5, 40, 1.0)
    found = powered_difference(people, [-value for value in cheap], [-value for value in others])
    assert found.weight == 0.0


def test_cheap_labels_that_are_all_too_kind_change_no_estimate() -> None:
    """A judge that likes everything by .5 more shifts both kinds of queries alike, and so nothing."""
    people, cheap, others = sampled(6, 40, 0.8)
    found = powered_difference(people, cheap, others)
    kind = powered_difference(people, [value + 0.5 for value in cheap], [value + 0.5 for value in others])
    assert kind.difference == pytest.approx(found.difference)
    assert kind.ci95 == pytest.approx(found.ci95)


@pytest.mark.parametrize("degrees", [10, 18, 40, 200])
def test_quantile_is_students(degrees: int) -> None:
    assert _half_width(1.0, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-4)


@pytest.mark.parametrize(
    ("people", "cheap", "others"),
    [([0.1], [0.1], [0.1, 0.2]), ([0.1, 0.2], [0.1], [0.1, 0.2]), ([0.1, float("nan")], [0.1, 0.2], [0.1, 0.2])],
)
def test_what_nothing_follows_from_is_refused(people: list[float], cheap: list[float], others: list[float]) -> None:
    with pytest.raises(ValueError, match=r"quer|finite"):
        powered_difference(people, cheap, others)


@pytest.mark.slow
@pytest.mark.parametrize("right", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n", [FEWEST, 40, 80])
def test_over_many_worlds_the_interval_covers_and_the_test_keeps_its_level(n: int, right: float) -> None:
    worlds = 1000
    covered = passed = people_covered = 0
    for seed in range(worlds):
        found = powered_difference(*sampled(seed, n, right))
        covered += found.ci95[0] <= 0.0 <= found.ci95[1]
        people_covered += found.people_ci95[0] <= 0.0 <= found.people_ci95[1]
        passed += found.p_value <= 0.05
    error = 2.33 * (0.05 * 0.95 / worlds) ** 0.5
    shares = f"covers {covered / worlds:.1%} (people {people_covered / worlds:.1%}), passes {passed / worlds:.1%}"
    print(f"n {n}, right {right:.0%}: {shares}")
    assert covered / worlds >= 0.95 - error
    assert passed / worlds <= 0.05 + error


@pytest.mark.slow
def test_a_gain_is_shown_more_often() -> None:
    shown = {"people": 0, "powered": 0}
    for seed in range(400):
        people, cheap, others = sampled(seed, 40, 0.9, gain=0.15)
        shown["people"] += paired_difference([0.0] * 40, people).p_value <= 0.0304
        shown["powered"] += powered_difference(people, cheap, others).p_value <= 0.0304
    print(shown)
    assert shown["powered"] > 1.2 * shown["people"]
