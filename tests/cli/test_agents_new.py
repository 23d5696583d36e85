"""`hive agents new`: what it writes is sound, passes its own case, and runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.conftest import make_workspace
from tests.sample import hive


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "ws", embedding=False).root


def test_a_new_agent_is_valid_passes_its_case_and_runs(root: Path) -> None:
    made = hive("agents", "new", "desk", "-w", root, "--json")
    assert made.code == 0
    assert made.json["files"] == ["agents/desk.json", "goals/desk.json", "scripts/desk.jsonl"]
    codes = []
    for step in made.json["next"]:
        ran = hive(*shlex.split(step)[1:], "-w", root, "--json")
        codes.append((step.split()[1:3], ran.code))
    assert [code for _, code in codes] == [0, 0, 0], codes
    assert json.loads(ran.out)["outputs"]["answer"].startswith("Thirty days")
    assert hive("agents", "graph", "desk", "-w", root).code == 0


def test_nothing_is_written_over(root: Path) -> None:
    assert hive("agents", "new", "desk", "-w", root).code == 0
    before = (root / "agents/desk.json").read_bytes()
    ran = hive("agents", "new", "desk", "-w", root, "--json")
    assert (ran.code, ran.json["diagnostics"][0]["code"]) == (2, "HIVE-409")
    assert (root / "agents/desk.json").read_bytes() == before


@pytest.mark.parametrize("name", ["../desk", "Desk it", ""])
def test_a_name_that_none_can_have_is_refused(root: Path, name: str) -> None:
    ran = hive("agents", "new", name, "-w", root, "--json")
    assert (ran.code, ran.json["diagnostics"][0]["code"]) == (1, "HIVE-113")
    assert not (root / "agents").exists()
