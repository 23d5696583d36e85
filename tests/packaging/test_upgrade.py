"""An installation of an earlier commit is upgraded while it has work under way, and refuses to go back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EARLIER = "01df084f092f"
"""A commit of version 0.1.0, whose databases lack some of today's migrations."""


def wheel_of(source: Path, into: Path) -> Path:
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", into, source], check=True)
    return next(into.glob("*.whl"))


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The sources of the earlier commit."""
    archive = tmp_path / "earlier.tar"
    command = ["git", "archive", "-o", str(archive), EARLIER]
    if shutil.which("git") is None or subprocess.run(command, cwd=ROOT, capture_output=True).returncode:
        pytest.skip(f"commit {EARLIER} isn't here: a shallow clone, or no clone; `git fetch --unshallow` brings it")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier"


class Machine:
    """An environment, in which one release after another is installed, and a home."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", with_pip=True)
        self._bin = folder / "env" / "bin"
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HIVE_")} | {
            "HIVE_HOME": str(folder / "home"),
            "HIVE_MODELS__CHAT": '["scripted:scripts/optimizer.jsonl"]',
        }
        self._environment.pop("PYTHONPATH", None)

    def install(self, wheel: Path) -> None:
        command = [self._bin / "pip", "install", "-q", "-c", ROOT / "constraints.txt", "--upgrade", wheel]
        subprocess.run(command, check=True)

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(self._bin / "hive"), *arguments]
        ran = subprocess.run(command, cwd=cwd, env=self._environment, capture_output=True, text=True)
        assert "Traceback" not in ran.stdout + ran.stderr, ran.stderr
        return ran

    def told(self, *arguments: str, cwd: Path, codes: tuple[int, ...] = (0,)) -> Any:
        ran = self.run(*arguments, "--json", cwd=cwd)
        assert ran.returncode in codes, ran.stdout + ran.stderr
        return json.loads(ran.stdout)


@pytest.mark.slow
def test_work_under_way_goes_on_after_an_upgrade_and_the_way_back_is_the_backup(earlier: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = wheel_of(earlier, tmp_path / "old"), wheel_of(ROOT, tmp_path / "new")
    machine = Machine(tmp_path)

    machine.install(old)
    assert machine.run("init", "ws", cwd=tmp_path).returncode == 0
    place = tmp_path / "ws"
    assert machine.run("index", "--quiet", cwd=place).returncode == 0
    machine.told("optimize", cwd=place, codes=(0, 1))  # deploys, or asks a person
    asked = machine.told("chat", "how do I rotate a key", "--as", "dana", cwd=place)
    given = '{"request": "fewer distractors"}'
    waiting = machine.told("run", "optimizer", "--input", given, "--as", "root", cwd=place)
    (request,) = waiting["approval_ids"]
    (tmp_path / "safe").mkdir()
    assert machine.run("backup", "../safe", cwd=place).returncode == 0

    machine.install(new)
    assert machine.run("doctor", cwd=place).returncode == 0
    runs = {run["run_id"]: run["status"] for run in machine.told("runs", "list", cwd=place)["runs"]}
    assert (runs[waiting["run_id"]], runs[asked["run_id"]]) == ("waiting", "done")
    assert request in [one["id"] for one in machine.told("approvals", "list", cwd=place)["items"]]
    found = machine.told("query", "how do I rotate a key", cwd=place)
    assert found["hits"]
    again = machine.told("chat", "how do I rotate a key", "--as", "dana", cwd=place)
    assert again["thread_id"] != asked["thread_id"]
    assert again["results"]
    assert machine.run("approvals", "approve", "--as", "dana", request, cwd=place).returncode == 0
    runs = {run["run_id"]: run["status"] for run in machine.told("runs", "list", cwd=place)["runs"]}
    assert runs[waiting["run_id"]] == "done"

    machine.install(old)
    before = (place / ".hive" / "hive.db").read_bytes()
    for command in (("runs", "list"), ("query", "how do I rotate a key"), ("approvals", "list")):
        refused = machine.run(*command, cwd=place)
        assert (refused.returncode, "HIVE-407" in refused.stderr) == (3, True), refused.stdout + refused.stderr
        assert "newer release" in refused.stderr
    assert (place / ".hive" / "hive.db").read_bytes() == before
    (back,) = (tmp_path / "safe").glob("*.tar.gz")
    with tarfile.open(back) as file:
        file.extractall(tmp_path / "back", filter="data")
    assert request in [one["id"] for one in machine.told("approvals", "list", cwd=tmp_path / "back")["items"]]
