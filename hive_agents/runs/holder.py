"""Who holds leases: a process, known by a lock that the system lets go of when it dies."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.files import disk_errors

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_mine: dict[str, tuple[int, str, int]] = {}
"""By folder: the process, its name there, and the open file that keeps its lock."""


def holder_of(workspace: Workspace) -> str:
    """This process's name in the workspace; the lock behind it lasts as long as the process."""
    folder = workspace.state_folder("holders")
    found = _mine.get(str(folder))
    if found is not None and found[0] == os.getpid() and (folder / found[1]).exists():
        return found[1]
    name = uuid.uuid4().hex
    with disk_errors(folder / name):
        _sweep(folder)
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
    _mine[str(folder)] = os.getpid(), name, file
    return name


def is_alive(workspace: Workspace, holder: str) -> bool:
    """False where the process is certainly dead."""
    folder = workspace.state / "holders"
    found = _mine.get(str(folder))
    if found is not None and found[:2] == (os.getpid(), holder):
        return True
    return _locked(folder / holder)


def _locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # another user's: its expiry decides
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _sweep(folder: Path) -> None:
    """Remove what dead processes left."""
    for path in folder.iterdir():
        # A file that was just made is locked a moment later.
        if path.stat().st_mtime < time.time() - 60.0 and not _locked(path):
            path.unlink(missing_ok=True)
