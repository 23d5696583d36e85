"""What is known of sources: their items with revisions, failures and access, their runs, and which are paused."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents.base.files import atomic_write, read_bytes
from hive_agents.sources.contract import SourceAccess
from hive_agents.store import audit, transaction

MOST_TRIES = 6
FIRST_RETRY, LONGEST_RETRY = 60.0, 6 * 3600.0
KEPT_RUNS = 200


@dataclass
class ItemState:
    """An item as it was fetched last: `revision` None is one that never was. `failure` is why it can't be now."""

    revision: str | None = None
    access: SourceAccess | None = None
    failure: str | None = None
    attempts: int = 0
    retry_at: float | None = None

    @property
    def given_up(self) -> bool:
        """Whether only a person's run tries it again."""
        return self.attempts >= MOST_TRIES


def pause_after(failures: int) -> float:
    """Return the seconds before the next try.

    >>> [pause_after(number) for number in (1, 2, 3, 20)]
    [60.0, 120.0, 240.0, 21600.0]
    """
    return float(min(FIRST_RETRY * 2.0 ** min(failures - 1, 30), LONGEST_RETRY))


class SourceStates:
    """The tables of one source; the content of items is in files below `folder`."""

    def __init__(self, connection: sqlite3.Connection, name: str, folder: Path) -> None:
        self._connection, self.name, self._folder = connection, name, folder / "items"

    def items(self) -> dict[str, ItemState]:
        rows = self._connection.execute(
            "SELECT key, revision, access, failure, attempts, retry_at FROM source_items WHERE source = ? ORDER BY key",
            (self.name,),
        )
        return {key: ItemState(revision, SourceAccess.parsed(access), *rest) for key, revision, access, *rest in rows}

    def put(self, key: str, state: ItemState) -> None:
        access = state.access.to_json() if state.access is not None else None
        row = (self.name, key, state.revision, access, state.failure, state.attempts, state.retry_at)
        self._connection.execute("INSERT OR REPLACE INTO source_items VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def failed(self, key: str, state: ItemState, why: str) -> None:
        """Record a failure, and when to try again."""
        state.failure, state.attempts = why, state.attempts + 1
        state.retry_at = time.time() + pause_after(state.attempts)
        self.put(key, state)

    def path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    def content(self, key: str) -> bytes | None:
        try:
            return read_bytes(self.path(key), 1 << 40)
        except FileNotFoundError:
            return None

    def keep(self, key: str, content: bytes) -> None:
        atomic_write(self.path(key), content, mode=0o600)

    def drop(self, keys: list[str]) -> None:
        """Forget items that are gone, and what was fetched of them."""
        with transaction(self._connection):
            self._connection.executemany(
                "DELETE FROM source_items WHERE source = ? AND key = ?", [(self.name, key) for key in keys]
            )
        for key in keys:
            self.path(key).unlink(missing_ok=True)

    def begin(self) -> int:
        """Record a run that begins, and those that were killed; return its number."""
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE source_runs SET status = 'interrupted', ended_at = ? WHERE source = ? AND status = 'running'",
                (audit.now(), self.name),
            )
            self._connection.execute("DELETE FROM source_runs WHERE source = ? AND status = 'asked'", (self.name,))
            number = self._insert("running")
            self._connection.execute(
                "DELETE FROM source_runs WHERE source = ? AND id <="
                " (SELECT id FROM source_runs WHERE source = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (self.name, self.name, KEPT_RUNS),
            )
        return number

    def _insert(self, status: str) -> int:
        row = self._connection.execute(
            "INSERT INTO source_runs (source, started_at, status, counts) VALUES (?, ?, ?, '{}')",
            (self.name, audit.now(), status),
        )
        return row.lastrowid or 0

    def ask(self) -> None:
        """Record that a run is asked for, once, until one begins."""
        with transaction(self._connection):
            if not self.asked:
                self._insert("asked")

    @property
    def asked(self) -> bool:
        sql = "SELECT 1 FROM source_runs WHERE source = ? AND status = 'asked'"
        return self._connection.execute(sql, (self.name,)).fetchone() is not None

    def end(self, number: int, status: str, counts: dict[str, int], message: str | None) -> None:
        self._connection.execute(
            "UPDATE source_runs SET ended_at = ?, status = ?, counts = ?, message = ? WHERE id = ?",
            (audit.now(), status, json.dumps(counts), message, number),
        )

    def runs(self, most: int = 20) -> list[dict[str, Any]]:
        """Return the last runs, newest first."""
        rows = self._connection.execute(
            "SELECT id, started_at, ended_at, status, counts, message FROM source_runs"
            " WHERE source = ? AND status != 'asked' ORDER BY id DESC LIMIT ?",
            (self.name, most),
        )
        names = ("id", "started_at", "ended_at", "status")
        return [
            {**dict(zip(names, row, strict=False)), **json.loads(row[4]), "message": row[5]} for row in rows
        ]

    def forget(self) -> None:
        """Forget all of the source but the files."""
        with transaction(self._connection):
            for statement in (
                "DELETE FROM source_items WHERE source = ?",
                "DELETE FROM source_runs WHERE source = ?",
                "DELETE FROM source_pauses WHERE source = ?",
            ):
                self._connection.execute(statement, (self.name,))

    @property
    def paused(self) -> bool:
        row = self._connection.execute("SELECT 1 FROM source_pauses WHERE source = ?", (self.name,)).fetchone()
        return row is not None

    def pause(self, paused: bool) -> None:
        if paused:
            self._connection.execute("INSERT OR IGNORE INTO source_pauses VALUES (?, ?)", (self.name, audit.now()))
        else:
            self._connection.execute("DELETE FROM source_pauses WHERE source = ?", (self.name,))
