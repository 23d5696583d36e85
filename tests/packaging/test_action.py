"""The composite action: its last step, run as a runner would, with the command of this checkout."""

from __future__ import annotations

import os
import re
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
    command = folder / "runner" / "hive-gate" / "bin" / "python"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    names = {value.split("inputs.")[1].split(" ")[0]: name for name, value in step["env"].items()}
    environment = os.environ | {
        "PYTHONPATH": ".",  # as many a workflow sets it
        "RUNNER_TEMP": str(folder / "runner"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "output"),
        **dict.fromkeys(step["env"], ""),
        **{names[name]: value for name, value in inputs.items()},
    }
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]], cwd=folder, env=environment, capture_output=True, text=True
    )


SHADOWING = ["json", "venv", "pip", "sitecustomize", "usercustomize", "hive_agents", "typer", "ensurepip", "runpy"]


def shadowed(folder: Path) -> Path:
    """Put modules into the checkout that say who imported them, and return where they say it."""
    told = folder / "imported"
    for name in SHADOWING:
        says = f"open({str(told)!r}, 'a').write('{name} ')\n"
        (folder / f"{name}.py").write_text(says)
    (folder / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:1/\n")
    (folder / "setup.cfg").write_text("[install]\nprefix = /nowhere\n")
    (folder / "pyvenv.cfg").write_text("home = /nowhere\n")
    return told


def test_nothing_is_imported_from_the_checkout(step: dict[str, Any], tmp_path: Path) -> None:
    _, before, _, after, _, qrels = ten_queries(tmp_path, 2)
    told = shadowed(tmp_path)
    ran = run(step, tmp_path, before=before, after=after, qrels=qrels)
    assert (ran.returncode, told.exists()) == (1, False), ran.stdout + ran.stderr
    assert (tmp_path / "output").read_text() == "decision=inconclusive\n"


def test_every_python_of_the_action_is_isolated() -> None:
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        lines = [line for line in step.get("run", "").splitlines() if not line.strip().startswith("#")]
        for line in lines:
            assert "bin/pip" not in line
            assert "bin/hive" not in line
            for started in re.finditer(r"(?:^|[\s/(])python\"?\s", line):
                assert line[started.end() :].startswith("-I"), line


def test_no_input_is_read_as_shell() -> None:
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.slow
def test_what_the_action_installs_is_enough_for_files(tmp_path: Path) -> None:
    """Both steps as a runner runs them, in an environment of their own."""
    install, gate = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-2:]
    _, before, _, after, _, qrels = ten_queries(tmp_path)
    told = shadowed(tmp_path)
    for name in ("bin", "runner"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": ".",
        "RUNNER_TEMP": str(tmp_path / "runner"),
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
    assert not told.exists()
    assert (tmp_path / "output").read_text() == "decision=passed\n"
    packages = list((tmp_path / "runner" / "hive-gate").glob("lib/python*/site-packages/*.dist-info"))
    assert len(packages) < 35
    other = [tmp_path / "runner" / "hive-gate" / "bin" / "hive", "verify", "receipt.json"]
    del environment["PYTHONPATH"]
    refused = subprocess.run(other, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (refused.returncode, "HIVE-411" in refused.stderr, "Traceback" in refused.stderr) == (3, True, False)


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
