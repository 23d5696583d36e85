from __future__ import annotations

import numpy as np

from hive_agents.optimizer.selection import Candidate, ConfigChange, step


def changes(*paths: str) -> list[ConfigChange]:
    return [{"path": path, "a": None, "b": 1} for path in paths]


STEADY = np.tile([0.09, 0.11], 20)
NOISY = np.tile([1.0, -0.7], 20)


def one(name: str, gain: np.ndarray, distractors: float = 0.0, *, boost: bool = False) -> Candidate:
    return Candidate(changes(name), gain, distractors, boost)


def test_the_highest_mean_gain_is_the_step() -> None:
    best = one("best", STEADY + 0.01)
    assert step([one("other", STEADY), best]) is best


def test_a_noisy_gain_may_be_the_step_and_no_gain_never_is() -> None:
    noisy = one("noisy", NOISY)
    assert step([noisy, one("none", np.zeros(40)), one("worse", -STEADY)]) is noisy
    assert step([one("none", np.zeros(40)), one("worse", -STEADY)]) is None
    assert step([]) is None


def test_a_boost_within_one_standard_error_of_the_best_goes_first() -> None:
    best, near, far = one("top_k", NOISY), one("near", STEADY, boost=True), one("far", STEADY - 0.2, boost=True)
    assert step([best, near, far]) is near
    steady = one("steady", STEADY + 0.05)
    assert step([steady, near]) is steady  # the same on each question, so nothing is left to chance


def test_ties_go_to_fewer_changes_then_to_fewer_distractors() -> None:
    two, one_change = Candidate(changes("a", "b"), STEADY), one("c", STEADY, 0.4)
    fewer = one("d", STEADY, 0.1)
    assert step([two, one_change]) is one_change
    assert step([one_change, fewer, two]) is fewer


def test_a_second_step_has_to_gain_three_standard_errors_beyond_the_first() -> None:
    first = one("first", STEADY)
    error = NOISY.std(ddof=1) / 40**0.5
    spread = NOISY - NOISY.mean()
    for errors, taken in ((2.9, False), (3.1, True)):
        second = Candidate(changes("first", "second"), STEADY + spread + errors * error)
        assert (step([second], first) is second) == taken
