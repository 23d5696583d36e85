"""The workspace's SQLite file: one schema with forward migrations, short transactions, clear failures."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hive_agents.errors import HiveError, NewerRelease
from hive_agents.files import locked
from hive_agents.migrations import MIGRATIONS

BUSY_SECONDS = 10.0
KEPT = 4
"""Connections that a thread keeps open in between, each to another file: those used last."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode with the newest schema; transactions are explicit.

    Raises: HIVE-402 locked, HIVE-403 not writable, HIVE-407 corrupt.
    """
    with database_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
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
    with rolled_back(connection):
        # Read again under the lock: another process may have migrated meanwhile.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """This thread's connection, for short work: kept open in between, and opened anew where the file was replaced.

    Raises: as `connect`; what SQLite says against the work itself is a diagnostic, too.
    """
    held: dict[str, _Held] = _local.__dict__.setdefault("held", {})
    found = held.pop(str(path), None)
    if found is not None and found.file != _file_id(path):
        _close(found)
        found = None
    if found is None:
        connection = connect(path)
        found = _Held(connection, _file_id(path))
    try:
        with database_errors(path):
            yield found.connection
    except BaseException:
        found.connection.close()
        raise
    found.connection.row_factory = None
    if str(path) in held or found.connection.in_transaction:  # work inside has its own; a transaction was left open
        found.connection.close()
    else:
        held[str(path)] = found
        if len(held) > KEPT:
            _close(held.pop(next(iter(held))))


@dataclass(frozen=True)
class _Held:
    connection: sqlite3.Connection
    file: tuple[int, int, int] | None


def _close(held: _Held) -> None:
    if held.file is not None and held.file[2] != os.getpid():
        _inherited.append(held)  # to close it in a child would drop the parent's locks
    else:
        held.connection.close()


_local = threading.local()
_inherited: list[_Held] = []


def _file_id(path: Path) -> tuple[int, int, int] | None:
    """Device, inode and this process; None for a file that is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, os.getpid()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; waits for other writers, then HIVE-402."""
    connection.execute("BEGIN IMMEDIATE")
    with rolled_back(connection):
        yield
        connection.execute("COMMIT")


@contextmanager
def rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
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
