"""Two processes that write to one file take turns: neither loses what the other wrote."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.turns import JOBS, NAMES, place_of

ROOT = Path(__file__).parents[1]
COVERED = {
    "hive_agents/access/keys.py",
    "hive_agents/workspace/credentials/store.py",
    "hive_agents/models/abilities.py",
    "hive_agents/memory/accepted.py",
    "hive_agents/memory/adapt.py",
    "hive_agents/memory/data_files.py",
    "hive_agents/store/audit_lines.py",
    "hive_agents/store/edits.py",
    "hive_agents/workspace/workspace.py",
}
ELSEWHERE = {
    "hive_agents/access/tokens.py": "tests/access/test_revocations.py",
    "hive_agents/copilot/feedback.py": "tests/cli/test_feedback.py",
    "hive_agents/sources/removing.py": "tests/sources/test_removing.py",
    "hive_agents/sources/running.py": "tests/sources/test_schedule.py",
    "hive_agents/store/database.py": "tests/runs/test_processes.py",
}
"""Where others are tried."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("turns")
    done = subprocess.run([sys.executable, "-m", "tests.turns", str(root)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("job", JOBS)
def test_what_two_processes_write_at_once_is_all_there(written: Path, job: str) -> None:
    assert sorted(JOBS[job].found(place_of(written, job))) == NAMES


def test_whoever_takes_a_lock_is_tried() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "hive_agents").rglob("*.py")}
    callers = {name for name, text in sources.items() if re.search(r"(?<![_\w.])locked\(", text)}
    assert callers - {"hive_agents/base/files/atomic.py"} <= COVERED | set(ELSEWHERE)
