"""Who holds leases: a process, known by a lock that the system lets go of when it dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.files import disk_errors, opened

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@dataclass
class _Mine:
    """`name` is this process's in one folder, `file` keeps its lock, `leases` counts what hangs on it."""

    pid: int
    name: str
    file: int
    leases: int = 0


_mine: dict[str, _Mine] = {}
_guard = threading.Lock()


def join(workspace: Workspace) -> str:
    """This process's name in the workspace, for one lease more; the lock behind it dies with the process."""
    folder = workspace.state_folder("holders")
    with _guard:
        found = _mine.get(str(folder))
        if found is None or found.pid != os.getpid() or not (folder / found.name).exists():
            found = _mine[str(folder)] = _made(folder)
        found.leases += 1
        return found.name


def leave(workspace: Workspace, name: str) -> None:
    """One lease less; after the last one nothing is left of the name."""
    folder = workspace.state / "holders"
    with _guard:
        found = _mine.get(str(folder))
        if found is None or (found.pid, found.name) != (os.getpid(), name):
            return
        found.leases -= 1
        if not found.leases:
            del _mine[str(folder)]
            (folder / name).unlink(missing_ok=True)
            os.close(found.file)


def is_alive(workspace: Workspace, holder: str) -> bool:
    """False where the process is certainly dead."""
    folder = workspace.state / "holders"
    found = _mine.get(str(folder))
    if found is not None and (found.pid, found.name) == (os.getpid(), holder):
        return True
    return _locked(folder / holder)


def _made(folder: Path) -> _Mine:
    name = uuid.uuid4().hex
    with disk_errors(folder / name):
        _sweep(folder)
        file = opened(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
    return _Mine(os.getpid(), name, file)


def _locked(path: Path) -> bool:
    try:
        file = opened(path, os.O_RDWR)
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
        with suppress(FileNotFoundError):  # somebody leaves just now
            # A file that was just made is locked a moment later.
            if path.stat().st_mtime < time.time() - 60.0 and not _locked(path):
                path.unlink()
