"""Copying records from one database to another, in order, and digests that show that both hold the same."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from math import isfinite
from typing import Any

from hive_agents.base import HiveError
from hive_agents.store.database import RecordsConnection, last_number, transaction
from hive_agents.store.schema import INDEX_TABLES, MIGRATIONS, SEALS

_LARGEST = 100_000_000
"""Bytes, or characters, of one value: twice the size of the largest document, which is the largest value."""
BATCH = 500
"""Rows that are read, or written and committed, at once."""
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,), "BLOB": (bytes,)}
_OTHER_COLUMNS = (
    ("audit_lines", "seq", "line"),
    ("checkpoint_blobs", "thread_id", "blob"),
    ("checkpoint_writes", "thread_id", "blob"),
    ("checkpoints", "thread_id", "checkpoint"),
    ("checkpoints", "thread_id", "metadata"),
)
"""Large columns of a server's other tables: the table, a column that names the row, and the large column."""
Progress = Callable[[str, int, int], None]
"""Called with the table, the number of rows copied, and their total."""


@dataclass(frozen=True)
class RecordTable:
    """A table of records: `columns` with their types, `order` the columns that its rows are sorted by.

    `numbered` is the column that the database numbers, "" where there is none.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    numbered: str

    def rows(self, connection: RecordsConnection) -> Iterator[tuple[Any, ...]]:
        """Yield the rows in their order."""
        keys, width, last = ", ".join(self.order), len(self.order), None
        columns = ", ".join(name for name, _ in self.columns)
        while True:
            after = f" WHERE ({keys}) > ({', '.join('?' * width)})" if last is not None else ""
            query = f"SELECT {keys}, {columns} FROM {self.name}{after} ORDER BY {keys} LIMIT {BATCH}"
            batch = [tuple(row) for row in connection.execute(query, last or ()).fetchall()]
            if not isinstance(connection, sqlite3.Connection):
                self._require_next(batch, last)
            yield from (row[width:] for row in batch)
            if len(batch) < BATCH:
                return
            last = batch[-1][:width]

    def _require_next(self, batch: Sequence[tuple[Any, ...]], last: tuple[Any, ...] | None) -> None:
        """Raise HIVE-407 for rows that aren't the next ones: a broken server might send them without end."""
        width = len(self.order)
        keys = [*filter(None, [last]), *(row[:width] for row in batch)]
        try:
            ordered = all(key < following for key, following in pairwise(keys))
        except TypeError:
            ordered = False
        if not ordered or len(batch) > BATCH or any(len(row) != width + len(self.columns) for row in batch):
            raise wrong_answers(self.name)

    def count(self, connection: RecordsConnection) -> int:
        (rows,) = connection.execute(f"SELECT count(*) FROM {self.name}").fetchone() or (None,)
        if not isinstance(rows, int):
            raise wrong_answers(self.name)
        return rows

    def digest(self, connection: RecordsConnection) -> str:
        """Return the SHA-256 of the rows in their order and of the last number that was given."""
        digest = hashlib.sha256(str(last_number(connection, self.name, self.numbered) if self.numbered else 0).encode())
        for row in self.rows(connection):
            values = [value.hex() if isinstance(value, bytes) else value for value in row]
            digest.update(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()

    def is_begun(self, source: RecordsConnection, target: RecordsConnection) -> bool:
        """Return whether the target's rows are the first of the source's."""
        source_rows = self.rows(source)
        return all(next(source_rows, None) == row for row in self.rows(target))

    def copy(self, source: RecordsConnection, target: RecordsConnection, progress: Progress) -> None:
        """Add the rows that follow those that the target has.

        Raises: HIVE-407 for a value that no release writes and the target can't hold.
        """
        done, total = self.count(target), self.count(source)
        missing = islice(self.rows(source), done, None)
        columns = ", ".join(name for name, _ in self.columns)
        insert = f"INSERT INTO {self.name} ({columns}) VALUES ({', '.join('?' * len(self.columns))})"
        while batch := list(islice(missing, BATCH)):
            if done + len(batch) > total:
                raise wrong_answers(self.name)
            for row in batch:
                self._require_sound(row)
            with transaction(target):
                target.executemany(insert, batch)
            done += len(batch)
            progress(self.name, done, total)
        if self.numbered:
            with transaction(target):
                _number_on(target, self, last_number(source, self.name, self.numbered))

    def _require_sound(self, row: Sequence[Any]) -> None:
        for (name, type), value in zip(self.columns, row, strict=True):
            damaged = value is not None and not (isinstance(value, _TYPES[type]) and _fits(value))
            if damaged or (isinstance(value, str) and "\0" in value):
                content = "the character NUL" if not damaged else f"something else than {type}"
                message = (
                    f"a row of {self.name} that begins with {str(row[0])[:40]!r} holds {content} in its column {name}"
                )
                raise HiveError.of("HIVE-407", message, fix="mend or delete that row, then run the command again")


def _fits(value: object) -> bool:
    """Return whether both databases can hold a value exactly, if it is a number."""
    return not isinstance(value, (int, float)) or (abs(value) < 2**63 if isinstance(value, int) else isfinite(value))


def _number_on(target: RecordsConnection, table: RecordTable, last: int) -> None:
    """Let the target continue the numbers after `last`."""
    if isinstance(target, sqlite3.Connection):
        target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last))
    else:
        sequence = f"CAST(pg_get_serial_sequence('{table.name}', '{table.numbered}') AS regclass)"
        target.execute(f"SELECT setval({sequence}, {max(last, 1)}, {str(last > 0).lower()})")


def wrong_answers(about: str) -> HiveError:
    """Return HIVE-407 for a server whose answers can't be PostgreSQL's."""
    message = f"the server's answers about {about} aren't those of a PostgreSQL that holds records"
    return HiveError.of("HIVE-407", message, fix="see whether [storage] url leads to your own server")


@cache
def record_tables() -> tuple[RecordTable, ...]:
    """Return the tables of records, referenced tables first."""
    tables = []
    with closing(sqlite3.connect(":memory:")) as model:
        for script in MIGRATIONS:
            model.executescript(script)
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        for name, sql in model.execute(query).fetchall():
            if name in INDEX_TABLES or name.startswith("sqlite_"):
                continue
            info = model.execute(f"PRAGMA table_info({name})").fetchall()
            key = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
            numbered = key[0] if "AUTOINCREMENT" in sql else ""
            order = key if numbered or re.search(r"WITHOUT ROWID\s*$", sql) else ("rowid",)
            tables.append(RecordTable(name, tuple((row[1], row[2]) for row in info), order, numbered))
    return tuple(tables)


def clear_records(connection: RecordsConnection) -> None:
    """Delete all records, referencing tables first."""
    with transaction(connection):
        for table in reversed(record_tables()):
            connection.execute(f"DELETE FROM {table.name}")


def require_own_objects(connection: RecordsConnection) -> None:
    """Raise HIVE-407 for what no release makes: a view or trigger, which could forge answers or act; sequences that
    aren't integers; values so large that a few of them fill the memory."""
    if isinstance(connection, sqlite3.Connection):
        _require_own_views(connection)
        for (name,) in connection.execute("SELECT name FROM sqlite_sequence WHERE typeof(seq) <> 'integer'").fetchall():
            message = f"the last number of {str(name)[:60]!r} is no number"
            raise HiveError.of("HIVE-407", message, fix="mend its row of sqlite_sequence, then run the command again")
    for table, key, column, size in _sizes(connection):
        large = f"WHERE {size} > {_LARGEST} LIMIT 1"
        for (row,) in connection.execute(f"SELECT {key} FROM {table} {large}").fetchall():
            message = f"row {str(row)[:40]!r} of {table} holds over {_LARGEST // 1_000_000} MB in {column}"
            raise HiveError.of("HIVE-407", message, fix="delete that row, then run the command again")


def _sizes(connection: RecordsConnection) -> Iterator[tuple[str, str, str, str]]:
    """Yield each column that may be large: its table, a column that names the row, its name, and its size in SQL."""
    is_file = isinstance(connection, sqlite3.Connection)
    for table in record_tables():
        for column, type in table.columns:
            if is_file or type in ("TEXT", "BLOB"):
                size = f"length(CAST({column} AS BLOB))" if is_file else f"octet_length({column})"
                yield table.name, table.order[0], column, size
    for name, key, column in () if is_file else _OTHER_COLUMNS:
        if connection.execute("SELECT to_regclass(?)", (name,)).fetchone()[0] is not None:
            size = f"octet_length({column})" if column in ("line", "blob") else f"octet_length(CAST({column} AS text))"
            yield name, key, column, size


def _require_own_views(connection: sqlite3.Connection) -> None:
    seals = {name for name, _ in connection.execute(SEALS).fetchall()}
    query = "SELECT name, type FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY name"
    for name, kind in connection.execute(query).fetchall():
        if name not in seals:
            message = f"the {kind} {str(name)[:60]!r} is none of this program's, and could answer or do anything"
            raise HiveError.of("HIVE-407", message, fix="find out who made it; then drop it, and run this again")


def require_references(connection: RecordsConnection) -> None:
    """Raise HIVE-407 for a reference to a missing row, which SQLite permits and a server refuses."""
    if isinstance(connection, sqlite3.Connection):
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchall():
            if table in INDEX_TABLES:
                continue
            message = f"row {row} of {table} refers to a row of {parent} that isn't there"
            raise HiveError.of("HIVE-407", message, fix="delete that row, then run the command again")
