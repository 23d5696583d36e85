from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hive_agents.evaluation import Reach
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.judging.verdict import JudgmentAction
from hive_agents.optimizer.lane_cache import Scores
from hive_agents.optimizer.trial import GOAL, Measured, MeasuredTrial, TrialVerdict, evidence, judge_trials, refusal
from hive_agents.workspace.settings import Gate


def measured(train: list[float], validation: list[float], distractors: float = 0.0) -> Measured:
    values = np.array([*train, *validation])
    n = len(values)
    return Measured(scored(values, np.full(n, distractors)), len(train))


def scored(values: NDArray[np.float64], distractors: NDArray[np.float64], **readers: NDArray[np.float64]) -> Scores:
    n = len(values)
    answered, recall, first = (readers.get(name, np.ones(n)) for name in ("answered", "recall", "first"))
    return Scores(values, distractors, np.ones(n, np.int64), answered, recall, first, np.zeros(n))


def judge_trial(
    new: Measured, baseline: Measured, incumbent: Measured, tuning: GoldenSet, gate: Gate
) -> tuple[TrialVerdict, str]:
    """The verdict on the step that the rule would take."""
    return judge_trials([MeasuredTrial(new, taken=True)], baseline, incumbent, tuning, gate)[0]


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


def test_what_is_not_the_step_is_sent_back_with_its_gain() -> None:
    trial = MeasuredTrial(measured([0.6, 0.6], [0.6, 0.5], 1.0))
    verdict, feedback = judge_trials([trial], BASE, BASE, TAGS, Gate())[0]
    assert (verdict, feedback[:26]) == ("retry", "+0.075 on the open queries")
    assert "another step goes first" in feedback


def losing(name: str, share: float) -> Measured:
    """A hundred questions of which so many lose what they had."""
    n = 100
    values = np.where(np.arange(n) < share * n, 0.0, 1.0)
    return Measured(scored(np.full(n, 0.9), np.zeros(n), **{name: values}), n)


def test_what_readers_lose_is_sent_back_with_one_standard_error_to_spare() -> None:
    had, tuning = Measured(scored(np.full(100, 0.5), np.zeros(100)), 100), queries(["a"] * 100)
    for name in ("answered", "recall", "first"):
        verdict, feedback = judge_trial(losing(name, 0.04), had, had, tuning, Gate())
        assert (verdict, feedback) == ("retry", f"readers lose: {name} 1.000 -> 0.960")
        assert judge_trial(losing(name, 0.03), had, had, tuning, Gate())[0] == "accept"
    unanswerable = Measured(scored(np.full(100, 0.9), np.zeros(100), answered=np.full(100, np.nan)), 100)
    assert judge_trial(unanswerable, unanswerable, unanswerable, tuning, Gate())[0] == "accept"


def test_documents_out_of_reach_and_hidden_ones_are_sent_back() -> None:
    for reached, verdict in ((Reach((1.0, 0.96), 0), "retry"), (Reach((1.0, 0.98), 0), "accept"),
                             (Reach(None, 1), "retry")):  # fmt: skip
        new = Measured(scored(np.full(4, 0.9), np.zeros(4)), 2, reached)
        assert judge_trial(new, BASE, BASE, TAGS, Gate())[0] == verdict


def test_filters_are_for_a_person() -> None:
    better = measured([0.9, 0.9], [0.9, 0.9])
    verdict, feedback = judge_trials([MeasuredTrial(better, "status", taken=True)], BASE, BASE, TAGS, Gate())[0]
    assert (verdict, feedback) == ("retry", "it hides documents by status, which a person decides")


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
    scores = scored(np.full(4, 0.9), np.array([2.0, 2.0, 0.0, 0.0]))
    assert judge_trial(Measured(scores, 2), BASE, BASE, TAGS, Gate())[0] == "accept"


def test_a_refusal_names_everything_that_is_against_a_config() -> None:
    found = refusal(MeasuredTrial(Measured(scored(LOSES_OLD.nudcg, np.full(16, 0.5)), 8)), EVEN, MANY, Gate())
    assert found is not None
    assert (found.tags, found.more) == (("old",), True)
    assert 'tag "old"' in found.why
    assert "distractors rise from 0.00 to 0.50" in found.why


def test_a_config_that_does_no_harm_is_not_refused_though_it_gains_nothing() -> None:
    assert refusal(MeasuredTrial(BASE), BASE, TAGS, Gate()) is None


def test_what_was_measured_has_a_mean_for_each_split_and_one_for_both() -> None:
    found = measured([0.2, 0.4], [1.0])
    assert round(found.train_nudcg, 9) == 0.3
    assert found.validation_nudcg == 1.0
    assert round(found.mean, 9) == round(1.6 / 3, 9)
    assert measured([0.2], []).validation_nudcg is None


async def test_a_trial_is_judged_under_a_running_loop_too() -> None:
    assert judge_trials([MeasuredTrial(BASE)], BASE, BASE, TAGS, Gate())[0] == ("retry", "no gain there")


async def test_the_verdict_without_a_rule_is_one_of_evidence() -> None:
    judgment = await evidence(GOAL, {"gain": 0.1, "error": 0.0, "taken": True}, None)
    assert [(signal.source, signal.action) for signal in judgment.signals] == [("evidence", JudgmentAction.ACCEPT)]
