"""How a SQLite file is opened, kept open, told from another one, changed, and what its failures mean."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from hive_agents.errors import Busy, HiveError, NewerRelease
from hive_agents.files import locked, unlinked
from hive_agents.store.schema import MIGRATIONS

BUSY_SECONDS = 10.0
T = TypeVar("T")
KEPT = 4
"""Connections that a thread keeps open in between, each to another file: those used last."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a new connection in autocommit mode, with the newest schema; transactions are explicit.

    Raises: HIVE-402 locked, HIVE-403 not writable, HIVE-407 corrupt.
    """
    with database_errors(path):
        file = unlinked(path)
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version < len(MIGRATIONS):
                _migrate(connection, path)
            elif version > len(MIGRATIONS):
                raise NewerRelease.of(
                    "HIVE-407",
                    f"{path.name} was written by a newer release (schema {version})",
                    file=f".hive/{path.name}",
                    fix="upgrade hive-agents",
                    exit_code=3,
                )
        except BaseException:
            connection.close()
            raise
        return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite doesn't wait for a lock while it changes the journal mode.
    with locked(path.with_name("migration.lock"), "preparing the database", BUSY_SECONDS):
        connection.execute("PRAGMA journal_mode = WAL")
    path.chmod(0o600)
    connection.execute("BEGIN EXCLUSIVE")
    with _rolled_back(connection):
        # Read again under the lock: another process may have migrated meanwhile.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


class connected:
    """A `with` block that has this thread's connection, for short work.

    It is kept open in between, and `opened`, by default by `connect`, anew where the file was replaced.

    With `rows`, selected rows are `sqlite3.Row`. A use inside another one gets a connection of its own.

    Raises: as `connect`; SQLite's errors in the body become diagnostics, too.
    """

    # No generator: a run enters hundreds of these.
    __slots__ = ("_kept", "_opened", "_path", "_rows")

    def __init__(
        self, path: Path, *, rows: bool = False, opened: Callable[[Path], sqlite3.Connection] | None = None
    ) -> None:
        self._path, self._rows, self._opened = path, rows, opened

    def __enter__(self) -> sqlite3.Connection:
        path = self._path
        found, file = _local.kept.pop(str(path), None), file_identity(path)
        if found is not None and found.file != file:
            _close(found)
            found = None
        if found is None:
            connection = (self._opened or connect)(path)
            found = _Kept(connection, file or file_identity(path))
        self._kept = found
        connection = found.connection
        if found.waits is _local.at_once:
            found.waits = not found.waits
            connection.execute(f"PRAGMA busy_timeout = {int(found.waits * BUSY_SECONDS * 1_000)}")
        connection.row_factory = sqlite3.Row if self._rows else None
        return connection

    @property
    def file(self) -> tuple[int, int, int] | None:
        """Which file it is, as `file_identity` tells."""
        return self._kept.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        key, connection, kept = str(self._path), self._kept.connection, _local.kept
        if error is not None:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise _explained(error, self._path) from error
        elif key in kept or connection.in_transaction:  # an inner use has its own; a transaction was left open
            connection.close()
        else:
            kept[key] = self._kept
            if len(kept) > KEPT:
                _close(kept.pop(next(iter(kept))))


def disconnect(path: Path) -> None:
    """Close the connection that this thread keeps open; the next use opens it again."""
    found = _local.kept.pop(str(path), None)
    if found is not None:
        _close(found)


async def briefly(work: Callable[[], T]) -> T:
    """Return what short work on databases gives, without letting the event loop wait for another writer.

    It is done here, and once more in a thread where somebody else is writing at that moment. So it has to begin with
    the transaction that may fail. A thread for each would cost more than the work, and writers in many threads wait
    for each other.

    Raises: HIVE-402 after as long a wait as ever, and what the work raises.
    """
    try:
        _local.at_once = True
        try:
            return work()
        finally:
            _local.at_once = False
    except Busy:
        return await asyncio.to_thread(work)


@dataclass
class _Kept:
    """`waits` says whether the connection waits for other writers."""

    connection: sqlite3.Connection
    file: tuple[int, int, int] | None
    waits: bool = True


class _Local(threading.local):
    """What a thread keeps; `at_once` while it may not wait for other writers."""

    def __init__(self) -> None:
        self.kept: dict[str, _Kept] = {}
        self.at_once = False


def _close(kept: _Kept) -> None:
    if kept.file is not None and kept.file[2] != os.getpid():
        _inherited.append(kept)  # to close it in a child would drop the parent's locks
    else:
        kept.connection.close()


_local = _Local()
_inherited: list[_Kept] = []


def file_identity(path: Path) -> tuple[int, int, int] | None:
    """Return device, inode and this process, None for a file that is gone.

    A restored or rebuilt database is another file under the same name, and a process can't use its parent's connection.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, os.getpid()


class transaction:
    """A `with` block that is committed as a whole or not at all; it waits for other writers, then raises HIVE-402."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            with _rolled_back(self._connection):
                self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


@contextmanager
def _rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's failures into diagnostics that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path) from error


def _explained(error: sqlite3.Error, path: Path) -> HiveError:
    name = getattr(error, "sqlite_errorname", "") or ""
    file = f".hive/{path.name}"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        fix = "wait until the other process has finished, then run the command again"
        return HiveError.of("HIVE-402", "the database is locked by another process", file=file, fix=fix)
    if name.startswith("SQLITE_FULL"):
        fix = "free some space, then run the command again; nothing was lost"
        return HiveError.of("HIVE-403", "the disk is full", file=file, fix=fix)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR")):
        fix = "make the workspace's .hive folder writable and check the disk"
        return HiveError.of("HIVE-403", f"cannot open or write the database: {error} ({name})", file=file, fix=fix)
    fix = "run `hive index`: it sets the damaged file aside and rebuilds the index from the documents"
    if path.name != "hive.db":  # which is the one that `hive index` looks after
        fix = f"move {file}, and {path.name}-wal and -shm where they are, out of .hive, then run the command again"
    return HiveError.of("HIVE-407", f"the database is damaged: {error}", file=file, fix=fix)
