import itertools
import json
import random
from math import ceil, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from hive_agents.evaluation.statistics import (
    PairedDifference,
    is_measurable,
    needed_queries,
    one_sided_p_value,
    paired_difference,
    spent_alpha,
)

tenths = st.integers(-20, 10).map(lambda n: n / 10)


def compare(differences: list[float], seed: int = 0) -> PairedDifference:
    return paired_difference([0.0] * len(differences), differences, seed=seed)


def brute_force_p(tenths_won: list[int]) -> float:
    """In integers, so that equal sums are equal."""
    nonzero = [abs(value) for value in tenths_won if value]
    sums = [sum(s * v for s, v in zip(signs, nonzero, strict=True)) for signs in signs_of(len(nonzero))]
    return sum(total >= sum(tenths_won) for total in sums) / len(sums)


def signs_of(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((1, -1), repeat=n))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=9))
def test_exact_p_equals_enumeration_in_integers(tenths_won: list[int]) -> None:
    before = [0.1 * n for n in range(len(tenths_won))]
    after = [score + won / 10 for score, won in zip(before, tenths_won, strict=True)]
    assert paired_difference(before, after).p_value == pytest.approx(brute_force_p(tenths_won), abs=1e-12)


def test_exact_p_equals_scipys_permutation_test() -> None:
    dice = np.random.default_rng(3)
    for n in (2, 5, 9, 12):
        before, after = dice.normal(0.5, 0.2, n), dice.normal(0.55, 0.2, n)
        theirs = stats.permutation_test(
            (after, before),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            alternative="greater",
            n_resamples=10_000,  # above 2**12, so exact
            vectorized=True,
        )
        assert paired_difference(list(before), list(after)).p_value == pytest.approx(theirs.pvalue)


def test_sixteen_differences_are_enumerated_and_seventeen_sampled() -> None:
    assert compare([0.1] * 16).p_value == 1 / 2**16
    assert compare([0.1] * 17).p_value == 1 / 10_000
    assert compare([0.1] * 16 + [0.0] * 50).p_value == 1 / 2**16


def test_sampled_p_is_close_to_the_exact_one() -> None:
    wins = [1] * 11 + [-1] * 7
    exact = stats.binomtest(11, 18, alternative="greater").pvalue
    # Five standard errors of 9,999 flips.
    assert compare([0.1 * w for w in wins]).p_value == pytest.approx(exact, abs=5 * sqrt(exact * (1 - exact) / 9_999))


def test_the_observed_assignment_counts_itself_despite_rounding() -> None:
    # .1 + .2 - .3 and the like differ from 0 in the last bit, in an order that depends on the signs.
    before = [0.1, 0.2, 0.3, 0.7, 1.1]
    after = [0.4, 0.5, 0.6, 1.0, 1.4]
    for order in itertools.permutations(range(5)):
        result = paired_difference([before[i] for i in order], [after[i] for i in order])
        assert result.p_value == 1 / 32


def test_noise_below_a_trillionth_is_a_tie() -> None:
    result = paired_difference([0.3, 0.5, 0.7], [0.1 + 0.2, 0.5 + 1e-13, 0.7 - 1e-13])
    assert (result.wins, result.losses, result.ties) == (0, 0, 3)
    assert (result.difference, result.p_value, result.ci95, result.mde) == (0.0, 1.0, (0.0, 0.0), 0.0)


def test_a_loss_is_never_evidence_for_b() -> None:
    assert compare([-0.1] * 8).p_value == 1.0
    assert compare([-0.1] * 30).p_value == 1.0


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(tenths, tenths), min_size=1, max_size=40))
def test_result_is_consistent_for_any_scores(pairs: list[tuple[float, float]]) -> None:
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    result = paired_difference(a, b)
    assert result.n == result.wins + result.losses + result.ties == len(pairs)
    assert result.difference == pytest.approx(sum(b) / len(b) - sum(a) / len(a), abs=1e-9)
    assert min(y - x for x, y in pairs) - 1e-9 <= result.ci95[0] <= result.ci95[1]
    assert 0 < result.p_value <= 1
    back = paired_difference(b, a)
    assert (back.wins, back.losses) == (result.losses, result.wins)
    assert back.difference == pytest.approx(-result.difference)


def test_same_scores_and_seed_give_the_same_result() -> None:
    dice = random.Random(1)
    differences = [dice.gauss(0.02, 0.3) for _ in range(40)]
    assert compare(differences) == compare(differences)
    assert compare(differences, seed=1).ci95 != compare(differences, seed=2).ci95


def test_the_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    differences = np.random.default_rng(5).normal(0.05, 0.3, 60)
    theirs = stats.bootstrap(
        (differences,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert compare(list(differences)).ci95 == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_minimum_detectable_effect_follows_its_formula() -> None:
    differences = [0.1, -0.2, 0.3, 0.0, 0.25]
    spread = float(np.std(differences, ddof=1))
    assert compare(differences).mde == pytest.approx((stats.norm.ppf(0.95) + 0.842) * spread / sqrt(5))
    strict = paired_difference([0.0] * 5, differences, alpha=0.01)
    assert strict.mde == pytest.approx((stats.norm.ppf(0.99) + 0.842) * spread / sqrt(5))


def test_a_single_query_has_no_minimum_detectable_effect() -> None:
    result = compare([0.4])
    assert result.mde is None
    assert result.ci95 == (0.4, 0.4)
    assert result.p_value == 0.5


@pytest.mark.slow
def test_a_true_difference_of_the_minimum_detectable_size_is_found_four_times_in_five() -> None:
    dice = np.random.default_rng(17)
    n, spread = 30, 0.35
    shift = (stats.norm.ppf(0.95) + 0.842) * spread / sqrt(n)
    found = sum(compare(list(dice.normal(shift, spread, n))).p_value <= 0.05 for _ in range(200))
    # The formula is normal; five standard errors of 200 trials and a little for that.
    assert found / 200 == pytest.approx(0.80, abs=5 * sqrt(0.8 * 0.2 / 200) + 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 30])
def test_level_holds_when_nothing_is_better(n: int) -> None:
    dice = np.random.default_rng(n)
    trials = 300
    false = sum(compare(list(dice.normal(0.0, 0.35, n))).p_value <= 0.05 for _ in range(trials))
    assert false / trials <= 0.05 + 3 * sqrt(0.05 * 0.95 / trials)
    assert false > 0, "a test that never rejects is no test"


def test_spent_alpha_never_sums_above_the_whole() -> None:
    assert spent_alpha(1) == pytest.approx(0.3 / pi**2)
    assert 0.0499 < sum(spent_alpha(j) for j in range(1, 10_001)) < 0.05
    assert sum(spent_alpha(j, alpha=0.2) for j in range(1, 11)) < 0.2


def test_uses_count_from_one() -> None:
    with pytest.raises(ValueError, match="count from 1"):
        spent_alpha(0)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([], [], "nothing to compare"),
        ([0.1], [0.1, 0.2], "1 against 2"),
        ([0.1, 0.2], [0.1, float("nan")], "pair 2 of 2"),
        ([float("inf")], [float("inf")], "pair 1 of 1"),
    ],
)
def test_scores_that_cannot_be_paired_are_refused(a: list[float], b: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_difference(a, b)


def test_json_names_the_difference_nudcg() -> None:
    written = json.loads(json.dumps(compare([0.5, -0.25]).to_json()))
    assert list(written) == ["n", "nudcg", "ci95", "p_value", "wins", "losses", "ties", "mde"]
    assert (written["n"], written["nudcg"], written["wins"], written["losses"]) == (2, 0.125, 1, 1)
    assert written["ci95"] == [-0.25, 0.5]


def needed(differences: list[float], alpha: float = 0.05) -> int | None:
    found = paired_difference([0.0] * len(differences), differences, alpha=alpha)
    return needed_queries(found, alpha)


@pytest.mark.parametrize("alpha", [0.05, 0.0076])
def test_needed_queries_are_those_of_the_formula(alpha: float) -> None:
    differences = [0.4, -0.3, 0.0, 0.2, -0.1, 0.3, 0.0, 0.1, -0.2, 0.1]
    spread = np.std(differences, ddof=1)
    z = stats.norm.ppf(1 - alpha) + 0.842
    in_all = ceil((z * spread / np.mean(differences)) ** 2)
    assert in_all > 100
    assert needed(differences, alpha) == in_all - len(differences)


@pytest.mark.slow
def test_so_many_queries_more_show_the_gain_in_about_four_cases_of_five() -> None:
    """The sample is taken as the population from which the further queries come."""
    differences, draw = np.array([0.5, -0.3, 0.0, 0.4, -0.2, 0.3, 0.0, 0.1]), np.random.default_rng(5)
    more = needed(differences.tolist())
    assert more is not None
    shown = 0
    for _ in range(300):
        found = draw.choice(differences, size=len(differences) + more)
        shown += one_sided_p_value([0.0] * len(found), found.tolist()) <= 0.05
    assert 0.7 <= shown / 300 <= 0.95


def test_without_a_gain_or_with_one_that_is_shown_no_queries_are_needed() -> None:
    assert needed([-0.5, 0.2, 0.1]) is None
    assert needed([0.0, 0.0]) is None
    assert needed([0.5, -0.5]) is None
    assert needed([0.1, 0.2, -0.3 + 1e-16]) is None  # no gain, but for rounding
    assert needed([0.5]) is None
    assert needed([0.2] * 5) is None


@pytest.mark.parametrize(("alpha", "enough"), [(0.05, 5), (1 / 32, 5), (0.0304, 6), (0.0003, 12)])
def test_gains_that_hardly_vary_need_as_many_queries_as_the_test_can_count(alpha: float, enough: int) -> None:
    assert needed([0.2] * 3, alpha) == enough - 3
    assert is_measurable(compare([0.2] * enough), alpha)
    assert not is_measurable(compare([0.2, *[-0.2] * (enough - 2), 0.0]), alpha)


def test_nothing_that_differs_is_not_measurable() -> None:
    assert not is_measurable(compare([0.0] * 50), 0.05)
