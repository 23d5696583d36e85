"""The health judge tells; it can't act: that is read off its imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.parsed import ROOT, nodes

pytestmark = pytest.mark.static

FORBIDDEN = (
    "hive_agents.supervision.queen",
    "graphs.queen",
    "hive_agents.approvals",
    "hive_agents.runs",
    "hive_agents.agents",
    "hive_agents.host",
)

NAMES = {"hive_agents.runs", "hive_agents.runs.ACTIVE", "hive_agents.runs.AGENT_GRAPH"}  # words for statuses


def imported(path: Path) -> set[str]:
    found = set()
    for one in nodes(path):
        if isinstance(one, ast.Import):
            found |= {alias.name for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module:
            found |= {one.module, *(f"{one.module}.{alias.name}" for alias in one.names)}
    return found


def test_the_judge_knows_no_queen_no_approvals_and_nothing_that_controls_runs() -> None:
    files = [*(ROOT / "hive_agents" / "supervision" / "health").glob("*.py"), ROOT / "graphs" / "judge.py"]
    assert len(files) > 5
    wrong = [
        (path.name, name)
        for path in files
        for name in imported(path)
        if name.startswith(FORBIDDEN) and name not in NAMES
    ]
    assert wrong == []


def test_the_loop_that_ticks_reads_runs_and_controls_none() -> None:
    names = imported(ROOT / "hive_agents" / "host" / "health.py")
    control = {"pause", "stop", "resume", "say", "control", "queen", "approvals"}
    assert not {name for name in names if control & set(name.split("."))}


def test_no_statement_of_the_judge_writes_to_the_database() -> None:
    """Its tickets go through the bus, its memory through the conversation store."""
    text = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "hive_agents" / "supervision" / "health").glob("*.py")
    ).upper()
    assert not [word for word in ("INSERT INTO", "UPDATE RUNS", "DELETE FROM", "SET STATUS") if word in text]
