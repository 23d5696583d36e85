from __future__ import annotations

import numpy as np

from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.judging.verdict import JudgmentAction
from hive_agents.optimizer.lane_cache import Scores
from hive_agents.optimizer.trial import GOAL, Measured, by_folds, evidence, judge_trial, simplest
from hive_agents.settings import Gate


def measured(train: list[float], validation: list[float], distractors: float = 0.0) -> Measured:
    def scores(values: list[float]) -> Scores:
        return Scores(np.array(values), np.full(len(values), distractors), np.ones(len(values), np.int64))

    return Measured(scores(train), scores(validation))


def queries(tags: list[str]) -> GoldenSet:
    listed = [GoldenQuery.model_validate({"id": f"q{n}", "query": "x", "tags": [tag]}) for n, tag in enumerate(tags)]
    return GoldenSet("knowledge-base", 10, tuple(listed), "evals/golden.json", "hash")


BASE = measured([0.5, 0.5], [0.5, 0.5], distractors=1.0)
TAGS = queries(["a", "b", "a", "b"])


def test_a_gain_on_both_splits_is_accepted() -> None:
    verdict, feedback = judge_trial(measured([0.6, 0.6], [0.6, 0.5], 1.0), BASE, BASE, TAGS, Gate())
    assert verdict == "accept"
    assert "+0.100" in feedback


def test_a_tag_that_falls_is_sent_back_whatever_the_mean() -> None:
    verdict, feedback = judge_trial(measured([0.2, 1.0], [0.5, 1.0], 1.0), BASE, BASE, TAGS, Gate())
    assert verdict == "retry"
    assert 'tag "a"' in feedback


def test_more_distractors_are_sent_back() -> None:
    verdict, feedback = judge_trial(measured([0.9, 0.9], [0.9, 0.9], 1.5), BASE, BASE, TAGS, Gate())
    assert (verdict, "distractors rise" in feedback) == ("retry", True)


def test_a_loss_on_validation_beyond_its_error_is_sent_back() -> None:
    verdict, feedback = judge_trial(measured([0.6, 0.6], [0.42, 0.42], 1.0), BASE, BASE, TAGS, Gate())
    assert (verdict, "validation" in feedback) == ("retry", True)


def test_the_simplest_config_within_one_error_of_the_best_is_chosen() -> None:
    truth = np.linspace(0.2, 0.8, 40)
    noise = np.tile([0.1, -0.1], 20)
    best = (6, truth + noise + 0.01, "complicated")  # 0.01 better, give or take 0.016
    near = (1, truth, "simple")
    far = (0, truth - 0.3, "naive")
    assert simplest([best, near, far]) == "simple"


def test_of_equally_simple_configs_the_better_one_is_chosen() -> None:
    scores = np.linspace(0.2, 0.8, 20)
    assert simplest([(1, scores - 0.001, "a"), (1, scores, "b")]) == "b"


def test_cross_validated_selection_does_not_hang_on_one_query() -> None:
    steady = np.full(20, 0.6)
    lucky = np.full(20, 0.5)
    lucky[3] = 3.0
    assert by_folds([(1, steady, "steady"), (2, lucky, "lucky")]) == "steady"


async def test_a_trial_is_judged_under_a_running_loop_too() -> None:
    assert judge_trial(BASE, BASE, BASE, TAGS, Gate()) == ("retry", "no gain on the training queries")


async def test_the_verdict_without_a_rule_is_one_of_evidence() -> None:
    figures = {"gain": 0.1, "validation": 0.0, "validation_error": 0.0}
    judgment = await evidence(GOAL, figures, None)
    assert [(signal.source, signal.action) for signal in judgment.signals] == [("evidence", JudgmentAction.ACCEPT)]
