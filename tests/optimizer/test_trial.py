from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.judging.verdict import JudgmentAction
from hive_agents.optimizer.lane_cache import Scores
from hive_agents.optimizer.trial import GOAL, Measured, TrialVerdict, evidence, judge_trials, refusal
from hive_agents.workspace.settings import Gate


def measured(train: list[float], validation: list[float], distractors: float = 0.0) -> Measured:
    values = np.array([*train, *validation])
    n = len(values)
    return Measured(Scores(values, np.full(n, distractors), np.ones(n, np.int64), np.zeros(n)), len(train))


def judge_trial(
    new: Measured, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> tuple[TrialVerdict, str]:
    return judge_trials([new], baseline, incumbent, tuning, gate)[0]


def queries(tags: list[str]) -> GoldenSet:
    listed = [GoldenQuery.model_validate({"id": f"q{n}", "query": "x", "tags": [tag]}) for n, tag in enumerate(tags)]
    return GoldenSet("knowledge-base", 10, tuple(listed), "evals/golden.json", "hash")


BASE = measured([0.5, 0.5], [0.5, 0.5], distractors=1.0)
TAGS = queries(["a", "b", "a", "b"])
MANY = queries(["old"] * 8 + ["new"] * 8)
LOSES_OLD = measured([0.3] * 8, [1.0] * 8)
EVEN = measured([0.5] * 8, [0.5] * 8)


def test_a_gain_over_all_open_queries_is_accepted() -> None:
    verdict, feedback = judge_trial(measured([0.6, 0.6], [0.6, 0.5], 1.0), BASE, BASE, TAGS, Gate())
    assert verdict == "accept"
    assert "+0.075 on the open queries" in feedback


def test_a_loss_on_the_validation_queries_alone_stops_nobody() -> None:
    base, new = measured([0.5] * 8, [0.5] * 4), measured([0.8] * 8, [0.42] * 4)
    assert judge_trial(new, base, base, queries(["a", "b"] * 6), Gate())[0] == "accept"


def test_a_gain_on_the_training_queries_that_the_others_lose_again_is_sent_back() -> None:
    verdict, feedback = judge_trial(measured([0.6, 0.6], [0.3, 0.3], 1.0), BASE, BASE, TAGS, Gate())
    assert (verdict, "-0.050 on the open queries" in feedback) == ("retry", True)


def test_a_gain_that_is_small_beside_its_noise_is_sent_back() -> None:
    noisy = measured([1.4, -0.3], [1.3, -0.3], 1.0)
    verdict, feedback = judge_trial(noisy, BASE, BASE, TAGS, Gate())
    assert (verdict, feedback[:26]) == ("retry", "+0.025 on the open queries")
    assert "too little to build on" in feedback


def test_a_gain_of_less_than_one_and_a_half_standard_errors_is_sent_back() -> None:
    # The best of a sweep's steps stands out by about so much where all are as good as the incumbent.
    base, spread = measured([0.5] * 16, []), np.array([0.1, -0.1] * 8)
    gains = {
        times: judge_trial(gaining(spread, times), base, base, queries(["a"] * 16), Gate())[0] for times in (1.4, 1.6)
    }
    assert gains == {1.4: "retry", 1.6: "accept"}


def gaining(spread: NDArray[np.float64], errors: float) -> Measured:
    """Measured 0.5 and the spread, plus so many of its standard errors."""
    error = spread.std(ddof=1) / len(spread) ** 0.5
    return measured((0.5 + spread + errors * error).tolist(), [])


def test_a_tag_that_is_shown_to_lose_is_sent_back_whatever_the_mean() -> None:
    verdict, feedback = judge_trial(LOSES_OLD, EVEN, EVEN, MANY, Gate())
    assert verdict == "retry"
    assert 'tag "old" falls 0.50 -> 0.30 (n = 8' in feedback


def test_a_tag_of_two_queries_that_falls_stops_nobody() -> None:
    tuning, base, new = queries(["a"] * 2 + ["b"] * 8), measured([0.5] * 10, []), measured([0.3] * 2 + [0.9] * 8, [])
    assert judge_trial(new, base, base, tuning, Gate())[0] == "accept"
    assert judge_trial(new, base, base, tuning, Gate(tag_evidence="any"))[0] == "retry"


def test_more_distractors_are_sent_back() -> None:
    verdict, feedback = judge_trial(measured([0.9, 0.9], [0.9, 0.9], 1.5), BASE, BASE, TAGS, Gate())
    assert (verdict, "distractors rise from 1.00 to 1.50" in feedback) == ("retry", True)


def test_distractors_count_over_all_open_queries() -> None:
    scores = Scores(np.full(4, 0.9), np.array([2.0, 2.0, 0.0, 0.0]), np.ones(4, np.int64), np.zeros(4))
    assert judge_trial(Measured(scores, 2), BASE, BASE, TAGS, Gate())[0] == "accept"


def test_a_refusal_names_everything_that_is_against_a_config() -> None:
    worse = Measured(Scores(LOSES_OLD.nudcg, np.full(16, 0.5), np.ones(16, np.int64), np.zeros(16)), 8)
    found = refusal(worse, EVEN, MANY, Gate())
    assert found is not None
    assert (found.tags, found.more) == (("old",), True)
    assert 'tag "old"' in found.why
    assert "distractors rise from 0.00 to 0.50" in found.why


def test_a_config_that_does_no_harm_is_not_refused_though_it_gains_nothing() -> None:
    assert refusal(BASE, BASE, TAGS, Gate()) is None


def test_what_was_measured_has_a_mean_for_each_split_and_one_for_both() -> None:
    found = measured([0.2, 0.4], [1.0])
    assert round(found.train_nudcg, 9) == 0.3
    assert found.validation_nudcg == 1.0
    assert round(found.mean, 9) == round(1.6 / 3, 9)
    assert measured([0.2], []).validation_nudcg is None


async def test_a_trial_is_judged_under_a_running_loop_too() -> None:
    assert judge_trial(BASE, BASE, BASE, TAGS, Gate()) == ("retry", "no gain on the open queries")


async def test_the_verdict_without_a_rule_is_one_of_evidence() -> None:
    judgment = await evidence(GOAL, {"gain": 0.1, "error": 0.0}, None)
    assert [(signal.source, signal.action) for signal in judgment.signals] == [("evidence", JudgmentAction.ACCEPT)]
