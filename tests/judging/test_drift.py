from __future__ import annotations

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.judging.drift import ALARM, e_value, forget, observe, states
from hive_agents.store import audit, connected


def test_two_early_errors_alarm_and_one_does_not(text_workspace: Workspace) -> None:
    assert not observe(text_workspace, "summary", False).alarmed
    second = observe(text_workspace, "summary", False)
    assert second.new
    assert second.e_value == pytest.approx(23.04)
    assert not observe(text_workspace, "summary", True).new
    assert states(text_workspace)["summary"].alarmed
    assert [entry["goal_type"] for entry in audit.entries(text_workspace, "judge.drift")] == ["summary"]


def test_goal_types_are_watched_apart_and_forgotten(text_workspace: Workspace) -> None:
    for _ in range(2):
        observe(text_workspace, "summary", False)
    observe(text_workspace, "security", True)
    assert [state.alarmed for state in states(text_workspace).values()] == [False, True]
    with connected(text_workspace.records) as connection:
        forget(connection, ["summary"])
    assert set(states(text_workspace)) == {"security"}


def test_a_judge_within_its_target_is_rarely_alarmed_and_a_bad_one_is_found() -> None:
    rng = np.random.default_rng(3)

    def alarms(rate: float) -> int:
        found = 0
        for _ in range(400):
            value, reached = 1.0, False
            for error in rng.random(200) < rate:
                value = e_value([bool(error)], start=value)
                reached = reached or value >= ALARM
            found += reached
        return found

    assert alarms(0.05) <= 0.05 * 400 * 1.6
    assert alarms(0.3) >= 390
