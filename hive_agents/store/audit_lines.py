"""Storage of the audit log's lines, in a file or in a table that hosts share, and the parsing of a line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hive_agents.base.files import atomic, atomic_write, disk_errors, locked, opened, read_bytes, unlinked
from hive_agents.store.moved import MOVED, moved
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

_Write = Callable[[int, str], object]
"""Writes the line of a number."""


@dataclass(frozen=True)
class FileLines:
    """A log in a file; `name` is for diagnostics, `home` the workspace that it belongs to."""

    path: Path
    name: str
    home: Workspace | None = field(default=None, compare=False)

    @contextmanager
    def writing(self, *, long: bool = False) -> Iterator[_Write]:
        beside = self.path.with_name(f".{self.path.name}.lock")
        with locked(self.home.state / "audit.lock" if self.home else beside, "writing the audit log"):
            _mend_last_line(self.path)
            yield lambda _, line: atomic.append_line(self.path, line)

    def require_here(self) -> None:
        """Raise HIVE-403 where the log was moved away with the records."""
        if self.home is not None:
            with suppress(FileNotFoundError):
                raise moved(read_bytes(self.home.state / MOVED).decode(), self.name)

    def data(self) -> bytes:
        try:
            return read_bytes(self.path)
        except FileNotFoundError:
            return b""

    def stamp(self) -> tuple[int, ...] | None:
        """Return a stamp that changes with the log; None where there is none."""
        try:
            status = unlinked(self.path).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def replace(self, data: bytes) -> None:
        beside = self.path.with_name(f".{self.path.name}.lock")
        with locked(self.home.state / "audit.lock" if self.home else beside, "writing the audit log"):
            atomic_write(self.path, data)


@dataclass(frozen=True)
class TableLines:
    """A log that hosts share, in their database."""

    place: RemoteDatabase

    @property
    def name(self) -> str:
        return self.place.name

    @contextmanager
    def writing(self, *, long: bool = False) -> Iterator[_Write]:
        """Write in another transaction than the row that mirrors the line, which is committed later."""
        from hive_agents.store.database import connected

        # A head is recorded after its line was committed; the lock keeps the heads of a host in order.
        lock = locked(Workspace(self.place.root).state / "audit.head.lock", "writing the audit log")
        with lock, connected(self.place) as found:
            connection = cast("PostgresConnection", found)
            connection.begin("audit", long=long)

            def write(number: int, line: str) -> None:
                connection.execute("INSERT INTO audit_lines (seq, line) VALUES (?, ?)", (number, line))
                connection.commit()

            try:
                yield write
            finally:
                if connection.in_transaction:  # nothing was written
                    with suppress(Exception):
                        connection.execute("ROLLBACK")

    def data(self) -> bytes:
        from hive_agents.store.database import connected

        with connected(self.place) as connection:
            rows = connection.execute("SELECT line FROM audit_lines ORDER BY seq").fetchall()
        return b"".join(line.encode() + b"\n" for (line,) in rows)

    def stamp(self) -> tuple[int, ...] | None:
        from hive_agents.store.database import connected

        query = "SELECT count(*), max(seq), max(CAST(CAST(xmin AS text) AS bigint)) FROM audit_lines"
        with connected(self.place) as connection:
            row = connection.execute(query).fetchone()
        return None if not row[0] else tuple(row)

    def replace(self, data: bytes) -> None:
        from hive_agents.store.database import connected

        # Not splitlines: texts may contain other line separators.
        lines = data.decode().removesuffix("\n").split("\n") if data else []
        with connected(self.place) as found:
            connection = cast("PostgresConnection", found)
            connection.begin("audit")
            connection.execute("DELETE FROM audit_lines")
            insert = "INSERT INTO audit_lines (seq, line) VALUES (?, ?)"
            connection.executemany(insert, list(enumerate(lines, start=1)))
            connection.commit()


LogLines = FileLines | TableLines


def entry_in(line: bytes) -> dict[str, Any] | None:
    """Return the entry in a line; None where it is invalid or truncated."""
    try:
        entry = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    types = {"seq": int, "kind": str, "digest": str}
    sound = all(isinstance(entry.get(name), kind) for name, kind in types.items())
    return entry if sound else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises: ValueError for a repeated key, which readers would resolve differently."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def _mend_last_line(path: Path) -> None:
    """Drop an entry that a crash truncated; one that only lacks its newline is kept, since readers have seen it."""
    path = unlinked(path)
    if not path.exists():
        return
    data = read_bytes(path)
    start = data.rfind(b"\n") + 1
    if start == len(data):
        return
    with disk_errors(path), os.fdopen(opened(path, os.O_RDWR), "r+b") as file:
        if entry_in(data[start:]) is None:
            file.truncate(start)
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
