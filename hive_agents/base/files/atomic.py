"""Files that survive a crash: atomic writes and locks between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hive_agents.base.errors import HiveError
from hive_agents.base.files.guarded import make_folder, opened, parent_of, read_bytes, remove, unlinked

_SILENT_SECONDS = 1.0
_POLL_SECONDS = 0.05
_SAME_PROCESS = "another thread of this process"


def atomic_write(path: Path, data: bytes | Iterable[bytes], *, mode: int | None = None) -> None:
    """Replace the file as a whole: a reader sees the old bytes or the new ones, never a part.

    Parts are written one by one, so that large files need little memory.

    Raises: HIVE-403 when the disk is full or the folder can't be written, HIVE-114 for a link below a workspace.
    """
    with disk_errors(path), parent_of(path, make=0o777) as (folder, name):
        if mode is None:
            mode = _mode_of(path, folder, name)
        with _written(folder, name, data, mode) as temporary:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)


def atomic_create(path: Path, data: bytes, *, mode: int) -> None:
    """Make the file as a whole in a folder that there is, unless another process makes it first.

    Raises: as `atomic_write`, and HIVE-403 where the disk has no hard links.
    """
    with disk_errors(path), parent_of(path) as (folder, name), _written(folder, name, data, mode) as temporary:
        with suppress(FileExistsError):
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.unlink(temporary, dir_fd=folder)


@contextmanager
def _written(folder: int, name: str, data: bytes | Iterable[bytes], mode: int) -> Iterator[str]:
    """Yield the name of a temporary file beside `name` with these bytes; after an error it is removed."""
    temporary = f".{name}.{secrets.token_hex(8)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        yield temporary
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def atomic_write_text(path: Path, text: str) -> None:
    atomic_write(path, text.encode("utf-8"))


def atomic_symlink(link: Path, target: str) -> None:
    """Point `link` at `target` in one step; raises OSError where links can't be made."""
    with parent_of(link) as (folder, name):
        temporary = f".{name}.{secrets.token_hex(8)}.tmp"
        os.symlink(target, temporary, dir_fd=folder)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def append_line(path: Path, line: str) -> None:
    """Append one line and wait until it is on disk."""
    with disk_errors(path):
        make_folder(path.parent)
        with os.fdopen(opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def locked(
    path: Path, what: str, timeout: float = 30.0, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock file `path`. Raises: HIVE-402 after `timeout` seconds.

    `what` describes the holder's work. `waiting` is called after a second of waiting with a description of the process
    that holds the lock, unless it is this one.
    """
    holder = path.with_suffix(".holder")

    with disk_errors(path):
        make_folder(path.parent, 0o700)
        patience = min(timeout, _SILENT_SECONDS) if waiting is not None else timeout
        lock = _acquired(path, patience)
        if lock is None and waiting is not None and patience < timeout:
            if not (description := _who_holds(holder, what)).startswith(_SAME_PROCESS):
                waiting(description)
            lock = _acquired(path, timeout - patience)
        if lock is None:
            raise HiveError.of(
                "HIVE-402",
                f"{_who_holds(holder, what)} (waited {timeout:.0f} s)",
                file=f"{path.parent.name}/{path.name}",
                fix="wait until it has finished, then run the command again",
            )
    try:
        with suppress(OSError, HiveError):  # only informative
            description = f"{what} (process {os.getpid()}, since {time.strftime('%H:%M:%S')})"
            with os.fdopen(opened(holder, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(description.encode())
        yield
    finally:
        with suppress(OSError, HiveError):
            remove(holder)
        fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked meanwhile has the descriptor, too
        os.close(lock)


def _acquired(path: Path, seconds: float) -> int | None:
    """Return a descriptor that holds the lock until it is closed; None where it isn't free within `seconds`."""
    until = time.monotonic() + seconds
    while True:
        lock = opened(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # a lock of a file that was removed since excludes nobody
                return lock
        except BlockingIOError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if time.monotonic() >= until:
            return None
        time.sleep(_POLL_SECONDS)


def _who_holds(holder: Path, what: str) -> str:
    """Return a description of a lock's holder."""
    try:
        description = read_bytes(holder).decode()
    except (OSError, UnicodeDecodeError, HiveError):
        description = ""
    who = _SAME_PROCESS if f"(process {os.getpid()}," in description else "another process"
    return f"{who} is {description or what}"


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raise the operating system's write errors as HIVE-403."""
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


def _mode_of(path: Path, folder: int, name: str) -> int:
    try:
        current = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISLNK(current):
        current = unlinked(path).stat().st_mode
    return current & 0o777
