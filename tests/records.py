"""A workspace's records as a test pokes at them, whichever database keeps them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.host.moving import move_records
from hive_agents.store import audit, connected, database, postgres, transaction
from hive_agents.store.copying import clear_records, record_tables
from hive_agents.workspace.workspace import RemoteDatabase


def copied(made: Path, root: Path) -> Workspace:
    """A copy of a workspace that was made with records in files: with its history in the database of this test."""
    shutil.copytree(made, root, symlinks=True)
    target = Workspace(root).records
    if isinstance(target, RemoteDatabase):
        with pytest.MonkeyPatch.context() as before:
            before.delenv("HIVE_STORAGE__URL")
            move_records(Workspace(root), target, progress=lambda *_: None)
    return Workspace(root)


def lose_records(place: Workspace) -> None:
    """Let all of them be gone, and the index with them where both are in one file; the audit log stays."""
    for file in place.state.glob("hive.db*"):
        file.unlink()
    if isinstance(place.records, RemoteDatabase):
        with connected(place.records) as connection:
            clear_records(connection)


def lose_log(place: Workspace) -> None:
    """Let the audit log be gone."""
    if isinstance(place.records, Path):
        (place.root / audit.FILE).unlink()
    else:
        rewrite_log(place, [])


def execute(place: Workspace, statement: str, *values: object) -> None:
    with connected(place.records) as connection:
        connection.execute(statement, values)


def alter_json(
    place: Workspace, table: str, column: str, change: Callable[[Any], object], *, id: str | None = None
) -> None:
    """Let `change` edit the JSON in a column of each row, or of one."""
    with connected(place.records) as connection:
        found = connection.execute(f"SELECT id, {column} FROM {table} WHERE coalesce(?, id) = id", (id,)).fetchall()
        for row, text in found:
            value = json.loads(text)
            change(value)
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (json.dumps(value), row))


@contextmanager
def held(place: Workspace) -> Iterator[None]:
    """Somebody else is writing while the block lasts."""
    with connected(place.records) as other, transaction(other):
        yield


def be_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on new connections don't wait long for others that write."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(postgres, "LOCK_SECONDS", 1)


def all_records(place: Workspace) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each table of records that has any."""
    with connected(place.records) as connection:
        found = {table.name: list(table.rows(connection)) for table in record_tables()}
    return {name: rows for name, rows in found.items() if rows}


def log_lines(place: Workspace) -> list[str]:
    """The lines of the audit log."""
    return audit.lines_beside(place, place.records).decode().splitlines()


def rewrite_log(place: Workspace, lines: list[str]) -> None:
    """Let the audit log hold these lines instead, whatever they say."""
    if isinstance(place.records, Path):
        (place.root / audit.FILE).write_text("".join(f"{line}\n" for line in lines))
        return
    with connected(place.records) as connection:
        connection.execute("DELETE FROM audit_lines")
        for number, line in enumerate(lines, start=1):
            connection.execute("INSERT INTO audit_lines (seq, line) VALUES (?, ?)", (number, line))
