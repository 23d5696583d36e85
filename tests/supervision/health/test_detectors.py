from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents.events.tickets import CAUSES
from hive_agents.supervision.health.detectors import DETECTORS, Thresholds, findings_of
from hive_agents.supervision.health.history import Repeated, RepeatedCalls
from hive_agents.supervision.health.summary import Fault, WorkerHealth

WELL: dict[str, Any] = {
    "run_id": "r1",
    "thread_id": "digest:r1",
    "tenant": "local",
    "agent": "digest",
    "node": "collect",
    "status": "running",
    "ended_at": None,
    "stopped_by": None,
    "error": None,
    "steps": 10,
    "verdicts": {},
    "retries": 0,
    "judged": 0,
    "feedback": None,
    "judged_node": None,
    "loop": None,
    "idle_seconds": 10.0,
    "spent": {"steps": 10.0, "tokens": 0.0, "usd": 0.0},
    "limits": {"steps": 200.0},
    "shares": {"steps": 0.05},
    "errors": [],
    "breaks": None,
    "lost_seconds": None,
}


def found(**changes: Any) -> list[tuple[str, str]]:
    return [(one.cause, one.severity) for one in findings_of(WorkerHealth.model_validate(WELL | changes))]


def loops(times: int, period: int = 1) -> dict[str, Any]:
    return {"loop": RepeatedCalls(node="collect", tools=["read_page"], period=period, times=times)}


def fails(count: int) -> dict[str, Any]:
    return {"errors": [Repeated(message="no such page", count=count), Repeated(message="timeout", count=1)]}


def ended(stopped_by: str | None, code: str | None = "HIVE-422", status: str = "failed") -> dict[str, Any]:
    error = Fault(code=code, message="why") if code else None
    return {"status": status, "stopped_by": stopped_by, "error": error, "idle_seconds": None}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        (loops(2), []),
        (loops(3), [("doom_loop", "high")]),
        (loops(3, period=3), [("doom_loop", "high")]),
        ({"idle_seconds": 899.9}, []),
        ({"idle_seconds": 900.0}, [("stall", "medium")]),
        ({"idle_seconds": 1_799.9}, [("stall", "medium")]),
        ({"idle_seconds": 1_800.0}, [("stall", "high")]),
        ({"retries": 5, "judged": 10}, []),
        ({"retries": 6, "judged": 10}, [("excessive_retries", "medium")]),
        ({"retries": 7, "judged": 10}, [("excessive_retries", "medium")]),
        ({"retries": 8, "judged": 10}, [("excessive_retries", "high")]),
        (fails(3), []),
        (fails(4), [("repeated_errors", "medium")]),
        (fails(7), [("repeated_errors", "medium")]),
        (fails(8), [("repeated_errors", "high")]),
        ({"shares": {"steps": 0.799}}, []),
        ({"shares": {"steps": 0.8}}, [("budget_burn", "medium")]),
        ({"shares": {"steps": 0.949}}, [("budget_burn", "medium")]),
        ({"shares": {"steps": 0.95}}, [("budget_burn", "high")]),
        ({"lost_seconds": 59.9}, []),
        ({"lost_seconds": 60.0}, [("crash", "high")]),
        ({"breaks": Repeated(message="disk full", count=2), "status": "queued"}, [("crash", "high")]),
        ({"breaks": Repeated(message="disk full", count=3)}, [("crash", "critical")]),
        (ended("doom_loop"), [("doom_loop", "critical")]),
        (ended("stalled"), [("stall", "critical")]),
        (ended("max_iterations"), [("excessive_retries", "critical")]),
        (ended("steps", "HIVE-423"), [("budget_burn", "critical")]),
        (ended("seconds", "HIVE-423"), [("budget_burn", "critical")]),
        (ended("max_tool_calls"), [("budget_burn", "critical")]),
        (ended("fault"), [("crash", "critical")]),
        (ended("fault", status="stopped"), [("crash", "critical")]),
        (ended("HIVE-403", "HIVE-403", "stopped"), [("crash", "high")]),
        (ended("model_error"), [("crash", "high")]),
        (ended("rejected"), []),
        (ended("user:dana", None, "stopped"), []),
        (ended("interrupted", None, "stopped"), []),
        (ended(None, None, "done"), []),
    ],
)
def test_findings_at_each_bound(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert found(**changes) == expected


def test_a_run_that_is_over_is_judged_by_its_end_only() -> None:
    assert found(**ended(None, None, "done"), **loops(9), retries=10, judged=10, shares={"steps": 1.0}) == []
    both = found(**ended("steps", "HIVE-423"), **loops(9), **fails(9))
    assert both == [("budget_burn", "critical")]


@pytest.mark.parametrize("why", [loops(5), {"retries": 9, "judged": 10}, fails(5), {"lost_seconds": 90.0}])
def test_what_explains_that_nothing_moves_is_told_instead_of_a_stall(why: dict[str, Any]) -> None:
    assert "stall" not in {cause for cause, _ in found(idle_seconds=4_000.0, **why)}


def test_evidence_stays_the_same_while_nothing_new_is_known() -> None:
    """An event is told when evidence changes: seconds in it would make one each tick."""

    def evidence(**changes: Any) -> list[str]:
        return [line for one in findings_of(WorkerHealth.model_validate(WELL | changes)) for line in one.evidence]

    assert evidence(idle_seconds=901.0) == evidence(idle_seconds=1_700.0) != evidence(idle_seconds=1_801.0)
    assert evidence(**loops(3)) == evidence(**loops(5)) != evidence(**loops(6))
    assert evidence(shares={"steps": 0.81}) == evidence(shares={"steps": 0.84}) != evidence(shares={"steps": 0.86})
    assert "80 %" in evidence(shares={"steps": 0.8})[0]


def test_each_cause_has_its_detector_and_stands_with_each_threshold_in_the_page() -> None:
    assert {detector.__name__ for detector in DETECTORS} == set(CAUSES)
    page = Path(__file__).parents[3].joinpath("docs", "health.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in (*CAUSES, *Thresholds.__dataclass_fields__))
