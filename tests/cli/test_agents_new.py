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
    written = ["agents/desk.json", "goals/desk.json", "tools/desk.py", "scripts/desk.jsonl", "hive.toml"]
    assert (made.json["files"], made.json["trusted"]) == (written, True)
    codes = []
    for step in made.json["next"]:
        ran = hive(*shlex.split(step)[1:], "-w", root, "--json")
        codes.append((step.split()[1:3], ran.code))
    assert [code for _, code in codes] == [0, 0, 0], codes
    assert json.loads(ran.out)["outputs"]["answer"].startswith("Thirty days")
    assert hive("agents", "graph", "desk", "-w", root).code == 0
    assert (root / "tools" / "desk-sent.txt").read_text().endswith("to ada: Thirty days after it was delivered.\n")
    assert (root / "hive.toml").read_text() == '[models]\nembedding = "none"\n\n[tools]\npython = ["tools/*.py"]\n'


def test_a_second_agent_has_tools_of_its_own(root: Path) -> None:
    assert hive("agents", "new", "desk", "-w", root).code == 0
    made = hive("agents", "new", "my-desk.2", "-w", root, "--json")
    assert (made.code, "hive.toml" in made.json["files"], made.json["trusted"]) == (0, False, True)
    for name in ("desk", "my-desk.2"):
        ran = hive("agents", "eval", name, "-w", root, "--json")
        assert (ran.code, ran.json["passed"], ran.json["of"], "HIVE" in ran.err) == (0, 2, 2, False)


def test_what_else_waits_for_trust_is_not_trusted_along_with_it(root: Path) -> None:
    (root / "tools").mkdir()
    (root / "tools" / "strange.py").write_text("raise SystemExit('loaded')\n")
    (root / "hive.toml").write_text('[tools]\npython = ["tools/*.py"]\n')
    made = hive("agents", "new", "desk", "-w", root, "--json")
    assert (made.code, made.json["trusted"], made.json["next"][:2]) == (0, False, ["hive trust --diff", "hive trust"])
    assert hive("agents", "validate", "desk", "-w", root).code == 1
    (root / "tools" / "strange.py").unlink()
    assert hive("trust", "-w", root).code == 0
    assert hive("agents", "validate", "desk", "-w", root).code == 0


def test_settings_that_name_other_tools_are_left_as_they_are(root: Path) -> None:
    (root / "hive.toml").write_text('[tools]\npython = ["mine/*.py"]\n')
    made = hive("agents", "new", "desk", "-w", root, "--json")
    assert (made.code, made.json["diagnostics"][0]["code"]) == (1, "HIVE-105")
    assert "tools/*.py" in made.json["diagnostics"][0]["fix"]
    assert not (root / "agents").exists()


def test_nothing_is_written_over(root: Path) -> None:
    assert hive("agents", "new", "desk", "-w", root).code == 0
    before = (root / "agents/desk.json").read_bytes()
    ran = hive("agents", "new", "desk", "-w", root, "--json")
    assert (ran.code, ran.json["diagnostics"][0]["code"]) == (2, "HIVE-409")
    assert (root / "agents/desk.json").read_bytes() == before


@pytest.mark.parametrize("name", ["../desk", "Desk it", ""])
def test_a_name_that_none_can_have_is_refused(root: Path, name: str) -> None:
    ran = hive("agents", "new", name, "-w", root, "--json")
    assert ran.code == 1
    assert [one["code"] for one in ran.json["diagnostics"]] == ["HIVE-113"]
    assert not (root / "agents").exists()
