from __future__ import annotations

import numpy as np
import pytest

from hive_agents import DriftDetector, Workspace
from hive_agents.judging.drift import DriftState, forget, observe, states
from hive_agents.store import audit, connected


def alarm(workspace: Workspace, goal_type: str) -> DriftState:
    """Enter disagreements until the type is alarmed."""
    while not (state := observe(workspace, goal_type, False)).alarmed:
        pass
    return state


def test_four_errors_at_first_alarm_and_three_do_not(text_workspace: Workspace) -> None:
    for _ in range(3):
        assert not observe(text_workspace, "summary", False).alarmed
    fourth = observe(text_workspace, "summary", False)
    assert fourth.new
    assert fourth.e_value == pytest.approx(4579.46, rel=1e-3)
    assert not observe(text_workspace, "summary", True).new
    assert states(text_workspace)["summary"].alarmed
    assert [entry["goal_type"] for entry in audit.entries(text_workspace, "judge.drift")] == ["summary"]


def test_goal_types_are_watched_apart_and_forgotten(text_workspace: Workspace) -> None:
    alarm(text_workspace, "summary")
    observe(text_workspace, "security", True)
    assert [state.alarmed for state in states(text_workspace).values()] == [False, True]
    with connected(text_workspace.records) as connection:
        forget(connection, ["summary"])
    assert set(states(text_workspace)) == {"security"}


def test_the_records_hold_what_the_detector_does(text_workspace: Workspace) -> None:
    """The seven numbers, and not their mean alone, go on with the next audit."""
    detector = DriftDetector(0.05)
    for error in [False, True, False, False, True] * 3:
        value = detector.observe(error)
        assert observe(text_workspace, "summary", not error).e_value == value


def test_damaged_numbers_begin_anew(text_workspace: Workspace) -> None:
    observe(text_workspace, "summary", False)
    for text in ("nonsense", "[1, 2]", "7", '{"a": 1}', "[-1, 0, 0, 0, 0, 0, 0]"):
        with connected(text_workspace.records) as connection:
            connection.execute("UPDATE drift SET numbers = ?", (text,))
        assert observe(text_workspace, "summary", False).e_value == DriftDetector().observe(True)


def test_settings_say_the_target_and_how_rare_false_alarms_are(text_workspace: Workspace) -> None:
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\nalpha = 0.3\naverage_run = 100000\n")
    place, detector = Workspace(text_workspace.root), DriftDetector(0.3, 100_000)
    while not detector.alarmed:
        value = detector.observe(True)
        state = observe(place, "summary", False)
        assert (state.e_value, state.alarmed) == (value, detector.alarmed)


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, float("nan")])
def test_a_target_that_is_no_share_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="target"):
        DriftDetector(target)


def audits_to_alarm(good: int, rate: float, seed: int, runs: int = 200) -> float:
    """Return the median of the audits from a jump to `rate` to the alarm, `good` ones at 2 % before it."""
    rng, delays = np.random.default_rng([seed, good]), []
    for _ in range(runs):
        detector = DriftDetector()
        for error in rng.random(good) < 0.02:
            detector.observe(bool(error))
            if detector.alarmed:
                detector.restart()
        delay = 0
        while not detector.alarmed:
            detector.observe(bool(rng.random() < rate))
            delay += 1
        delays.append(delay)
    return float(np.median(delays))


@pytest.mark.parametrize("good", [0, 100, 1000])
def test_good_audits_do_not_hide_a_jump(good: int) -> None:
    assert audits_to_alarm(good, 0.30, seed=3) <= 20
    assert audits_to_alarm(good, 0.10, seed=3) <= 130


def test_false_alarms_are_the_average_run_apart() -> None:
    """At exactly the target; the bound is 1,000, and 1,629 is what simulation gives."""
    rng, runs = np.random.default_rng(5), []
    for _ in range(120):
        detector, n = DriftDetector(), 0
        while not detector.alarmed:
            detector.observe(bool(rng.random() < 0.05))
            n += 1
        runs.append(n)
    assert 1200 <= float(np.mean(runs)) <= 2100


def test_any_target_has_its_own_rates() -> None:
    for target in (0.001, 0.2, 0.5, 0.9):
        rng, detector = np.random.default_rng(1), DriftDetector(target, 1e6)
        for error in rng.random(3000) < target * 0.8:
            detector.observe(bool(error))
        assert not detector.alarmed
        for _ in range(400):
            detector.observe(True)
        assert detector.alarmed
