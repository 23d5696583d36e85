"""The composite action: its last step, run as a runner would, with the command of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runs_of import ten_queries

ROOT = Path(__file__).parents[2]


@pytest.fixture
def step() -> dict[str, Any]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    return dict(action["runs"]["steps"][-1])


def run(step: dict[str, Any], folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    command = folder / "runner" / "hive-gate" / "bin" / "hive"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hive_agents "$@"\n')
    command.chmod(0o755)
    names = {value.split("inputs.")[1].split(" ")[0]: name for name, value in step["env"].items()}
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(folder / "runner"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "output"),
        **dict.fromkeys(step["env"], ""),
        **{names[name]: value for name, value in inputs.items()},
    }
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_no_input_is_read_as_shell() -> None:
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.slow
def test_what_the_action_installs_is_enough_for_files(tmp_path: Path) -> None:
    """Both steps as a runner runs them, in an environment of their own."""
    install, gate = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-2:]
    _, before, _, after, _, qrels = ten_queries(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "EVERYTHING": "false",
        **dict.fromkeys(gate["env"], ""),
        "BEFORE": before,
        "AFTER": after,
        "QRELS": qrels,
    }
    for step in (install, gate):
        script = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
        ran = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "output").read_text() == "decision=passed\n"
    packages = list((tmp_path / "hive-gate").glob("lib/python*/site-packages/*.dist-info"))
    assert len(packages) < 35
    other = [tmp_path / "hive-gate" / "bin" / "hive", "verify", "receipt.json"]
    told = subprocess.run(other, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (told.returncode, "HIVE-411" in told.stderr, "Traceback" in told.stderr) == (3, True, False)


@pytest.mark.parametrize(("won", "code", "decision"), [(8, 0, "passed"), (2, 1, "inconclusive")])
def test_step_sets_the_decision_and_writes_the_summary(
    step: dict[str, Any], tmp_path: Path, won: int, code: int, decision: str
) -> None:
    _, before, _, after, _, qrels = ten_queries(tmp_path, won)
    ran = run(step, tmp_path, before=before, after=after, qrels=qrels, k="5", junit="j.xml")
    assert ran.returncode == code, ran.stderr
    assert (tmp_path / "output").read_text() == f"decision={decision}\n"
    assert f"Search gate: {decision}" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "j.xml").is_file()


def test_wrong_usage_fails_the_step_with_the_diagnostic(step: dict[str, Any], tmp_path: Path) -> None:
    _, before, _, after, _, qrels = ten_queries(tmp_path)
    ran = run(step, tmp_path, before=before, after=after, qrels=f"{qrels}; touch pwned")
    assert (ran.returncode, "HIVE-107" in ran.stdout) == (2, True)
    assert not (tmp_path / "pwned").exists()
