"""Where the audit log's lines stand, in a file or in a table that hosts share, and what an entry in a line is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hive_agents.files import append_line, atomic_write, disk_errors, locked, opened, read_bytes, unlinked
from hive_agents.store.elsewhere import moved
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

MOVED = "audit.moved"
"""In `.hive`: where the log is, where it was moved away with the records."""

_Write = Callable[[int, str], object]
"""Writes the line of a number."""


@dataclass(frozen=True)
class FileLines:
    """A log in a file; `told` is its name in diagnostics, `home` the workspace of which it is."""

    path: Path
    told: str
    home: Workspace | None = field(default=None, compare=False)

    @contextmanager
    def writing(self, *, long: bool = False) -> Iterator[_Write]:
        beside = self.path.with_name(f".{self.path.name}.lock")
        with locked(self.home.state / "audit.lock" if self.home else beside, "writing the audit log"):
            _mend_last_line(self.path)
            yield lambda _, line: append_line(self.path, line)

    def require_here(self) -> None:
        """Raise HIVE-403 where the log was moved away with the records."""
        if self.home is not None:
            with suppress(FileNotFoundError):
                raise moved(read_bytes(self.home.state / MOVED).decode(), self.told)

    def data(self) -> bytes:
        try:
            return read_bytes(self.path)
        except FileNotFoundError:
            return b""

    def stamp(self) -> tuple[int, ...] | None:
        """Return what changes with the log; None where there is none."""
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
    def told(self) -> str:
        return self.place.name

    @contextmanager
    def writing(self, *, long: bool = False) -> Iterator[_Write]:
        """A turn of its own: the row that follows the line waits to be committed meanwhile."""
        from hive_agents.store.database import connected

        # The head that remembers a line is written after it was committed; the lock keeps heads of a host in order.
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
                if connection.in_transaction:  # nothing was to be written, or it can't be
                    with suppress(Exception):
                        connection.execute("ROLLBACK")

    def data(self) -> bytes:
        from hive_agents.store.database import connected

        with connected(self.place) as connection:
            found = connection.execute("SELECT line FROM audit_lines ORDER BY seq").fetchall()
        return b"".join(line.encode() + b"\n" for (line,) in found)

    def stamp(self) -> tuple[int, ...] | None:
        from hive_agents.store.database import connected

        query = "SELECT count(*), max(seq), max(CAST(CAST(xmin AS text) AS bigint)) FROM audit_lines"
        with connected(self.place) as connection:
            found = connection.execute(query).fetchone()
        return None if not found[0] else tuple(found)

    def replace(self, data: bytes) -> None:
        from hive_agents.store.database import connected

        # A text in a line may hold what else ends one.
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
    """Return the entry in a line; None where it is none, cut short or damaged."""
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
    """Return a key that stands twice would be read as one and shown as the other."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def _mend_last_line(path: Path) -> None:
    """Drop what a crash left of an entry; a whole entry that only lacks its end is kept, as readers saw it."""
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
