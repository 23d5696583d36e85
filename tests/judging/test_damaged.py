"""Damaged rows are left out and counted; where one held a threshold, it is never lower than before."""

from __future__ import annotations

import json

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.judging import audits
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.learning.mining import mine
from hive_agents.judging.stats import judge_stats
from hive_agents.judging.thresholds import apply_threshold, threshold_for
from hive_agents.store import connected
from tests.judging.test_calibration import put
from tests.sample import hive


def damage(workspace: Workspace, sql: str, *values: object) -> None:
    with connected(workspace.records) as connection:
        connection.execute(sql, values)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("judgment", "{"),
        ("judgment", "[]"),
        ("judgment", '{"signals": [{"source": "llm", "confidence": 0.9}]}'),
        ("judgment", '{"signals": [7]}'),
        ("judgment", '{"tried": []}'),
        ("judgment", "[" * 100_000),
        ("result", "no JSON"),
        pytest.param("confidence", "much", marks=pytest.mark.sqlite_file),
        ("action", "maybe"),
        pytest.param("usd", "nothing", marks=pytest.mark.sqlite_file),
        pytest.param("judge_hash", b"\x00", marks=pytest.mark.sqlite_file),
    ],
)
def test_a_damaged_decision_is_left_out_and_counted(text_workspace: Workspace, column: str, value: object) -> None:
    put(text_workspace, 2, labels=[])
    damage(text_workspace, f"UPDATE judge_decisions SET {column} = ? WHERE id = 1", value)
    log = DecisionLog(text_workspace)
    assert ([row.id for row in log.rows()], log.damaged) == ([2], 1)
    told = ["1 damaged rows of the decision log were left out"]
    assert calibrate(text_workspace).warnings[:1] == judge_stats(text_workspace)["warnings"] == told
    assert [item.id for item in audits.queue(text_workspace)] == [2]
    assert mine(log.rows()) == []
    with pytest.raises(HiveError, match="HIVE-409"):
        audits.answer(text_workspace, 1, "accept", "user:dee")


@pytest.mark.parametrize(
    ("column", "value", "left"),
    [("certificate", "{", 0.9), ("certificate", "{}", 0.9), ("threshold", None, 1.01),
     pytest.param("threshold", "x", 1.01, marks=pytest.mark.sqlite_file),
     ("threshold", -1, 1.01), ("expires_at", None, 0.9)],
)  # fmt: skip
def test_a_damaged_calibration_lowers_nothing(
    text_workspace: Workspace, column: str, value: object, left: float
) -> None:
    put(text_workspace, 45)
    calibrate(text_workspace)
    damage(text_workspace, f"UPDATE calibrations SET {column} = ?", value)
    found = threshold_for(text_workspace, "summary", "a")
    assert (found.value, found.status) == (left, "damaged")
    assert "the calibration of summary is damaged: calibrate again" in judge_stats(text_workspace)["warnings"]
    assert "damaged" in hive("judge", "stats", "-w", text_workspace.root).out
    assert calibrate(text_workspace).recommended_threshold == 0.9


def test_a_damaged_calibration_below_the_default_is_the_default(text_workspace: Workspace) -> None:
    put(text_workspace, 45)
    calibrate(text_workspace)
    damage(text_workspace, "UPDATE calibrations SET certificate = '{', threshold = 0.55")
    found = threshold_for(text_workspace, "summary", "a")
    assert (found.value, found.status) == (0.7, "damaged")


def test_a_damaged_certificate_is_not_put_in_force(cautious: Workspace) -> None:
    put(cautious, 60, confidence=0.7)
    number = calibrate(cautious, by="user:amira").awaiting_approval["summary"]
    damage(cautious, "UPDATE calibrations SET certificate = ?", json.dumps({"by": 7}))
    with pytest.raises(HiveError, match="is damaged"):
        apply_threshold(cautious, number, "user:bo")
