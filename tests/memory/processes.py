"""Python programs in processes of their own, to be killed or to compete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAD = """
import sys
from hive_agents.models.model import Message, ToolCall
from hive_agents.memory import *
from hive_agents import Workspace
workspace, argument = Workspace(sys.argv[1]), sys.argv[2]
"""


def start(program: str, workspace: Path, argument: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + program, str(workspace), argument]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each has printed; all must end well."""
    printed = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return printed


def killed_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """The lines printed until `kill -9`, at least `lines`: each says that something was promised."""
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(lines)]
    process.kill()
    rest = process.communicate(timeout=60)[0]
    # The last line may be cut, and then promises nothing.
    return seen + [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
