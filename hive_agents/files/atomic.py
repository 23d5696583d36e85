"""Files that survive a crash: atomic writes and locks between processes."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hive_agents.errors import HiveError

_SILENT_SECONDS = 1.0


def atomic_write(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace the file as a whole: a reader sees the old bytes or the new ones, never a part.

    Raises: HIVE-403 when the disk is full or the folder can't be written.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode if mode is not None else _mode_of(path))
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def atomic_write_text(path: Path, text: str) -> None:
    atomic_write(path, text.encode("utf-8"))


def atomic_symlink(link: Path, target: str) -> None:
    """Point `link` at `target` in one step; raises OSError where links can't be made."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.tmp")
    with suppress(FileNotFoundError):
        temporary.unlink()
    os.symlink(target, temporary)
    os.replace(temporary, link)
    _sync_folder(link.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line and wait until it is on disk."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def locked(
    path: Path, what: str, timeout: float = 30.0, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock file `path`; a second process gets HIVE-402 after its wait.

    `what` is what the holder does. `waiting` is called, once a wait takes over a second, with who holds the lock.
    """
    from filelock import FileLock, Timeout

    holder = path.with_suffix(".holder")

    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path, mode=0o600)
        try:
            patience = min(timeout, _SILENT_SECONDS) if waiting is not None else timeout
            try:
                lock.acquire(timeout=patience)
            except Timeout:
                if waiting is None or patience == timeout:
                    raise
                waiting(_told(holder, what))
                lock.acquire(timeout=timeout - patience)
        except Timeout:
            raise HiveError.of(
                "HIVE-402",
                f"{_told(holder, what)} (waited {timeout:.0f} s)",
                file=f"{path.parent.name}/{path.name}",
                fix="wait until it has finished, then run the command again",
            ) from None
    try:
        with suppress(OSError):  # it is told, no more
            holder.write_text(f"{what} (process {os.getpid()}, since {time.strftime('%H:%M:%S')})", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


def _told(holder: Path, what: str) -> str:
    """Return who holds a lock, as its holder wrote it."""
    try:
        doing = holder.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        doing = ""
    return f"another process is {doing or what}"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write into HIVE-403."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message, fix = "the disk is full", "free some space, then run the command again; nothing was lost"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message, fix = "no permission to write here", "make the folder writable, or work on a copy"
        else:
            message = error.strerror or str(error)
            fix = "check that every folder on the way is a folder, and that the disk works"
        raise HiveError.of("HIVE-403", f"cannot write {path.name}: {message}", file=path.name, fix=fix) from error


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
