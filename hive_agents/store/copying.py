"""Copying records from one database to another: rows in their order, and what says that both hold the same."""

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

from hive_agents.errors import HiveError
from hive_agents.store.database import RecordsConnection, last_number, transaction
from hive_agents.store.schema import INDEX_TABLES, MIGRATIONS, SEALS

_LARGEST = 100_000_000
"""Bytes, or characters, of one value: a document has half as many at most, and nothing else comes near."""
BATCH = 500
"""Rows that are read, or written and committed, at once."""
_TYPES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,), "BLOB": (bytes,)}
_BESIDE = (
    ("audit_lines", "seq", "line"),
    ("checkpoint_blobs", "thread_id", "blob"),
    ("checkpoint_writes", "thread_id", "blob"),
    ("checkpoints", "thread_id", "checkpoint"),
    ("checkpoints", "thread_id", "metadata"),
)
"""What else stands in a server's schema: tables, a column that names the row, and one that may hold much."""
Progress = Callable[[str, int, int], None]
"""Told what is copied, how many rows are there, and how many there will be."""


@dataclass(frozen=True)
class RecordTable:
    """A table of records: `columns` with their types, `order` the columns that its rows are in the order of.

    `numbered` is the column whose numbers the database gives, "" where people give them.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    numbered: str

    def rows(self, connection: RecordsConnection) -> Iterator[tuple[Any, ...]]:
        """Yield the rows in their order, each with its columns' values."""
        keys, width, last = ", ".join(self.order), len(self.order), None
        columns = ", ".join(name for name, _ in self.columns)
        while True:
            after = f" WHERE ({keys}) > ({', '.join('?' * width)})" if last is not None else ""
            query = f"SELECT {keys}, {columns} FROM {self.name}{after} ORDER BY {keys} LIMIT {BATCH}"
            found = [tuple(row) for row in connection.execute(query, last or ()).fetchall()]
            if not isinstance(connection, sqlite3.Connection):
                self._require_next(found, last)
            yield from (row[width:] for row in found)
            if len(found) < BATCH:
                return
            last = found[-1][:width]

    def _require_next(self, found: Sequence[tuple[Any, ...]], last: tuple[Any, ...] | None) -> None:
        """Raise HIVE-407 for rows that no server gives which was asked for the next ones: they might never end."""
        width = len(self.order)
        keys = [*filter(None, [last]), *(row[:width] for row in found)]
        try:
            ordered = all(one < other for one, other in pairwise(keys))
        except TypeError:
            ordered = False
        if not ordered or len(found) > BATCH or any(len(row) != width + len(self.columns) for row in found):
            raise wrong_answers(self.name)

    def count(self, connection: RecordsConnection) -> int:
        (found,) = connection.execute(f"SELECT count(*) FROM {self.name}").fetchone() or (None,)
        if not isinstance(found, int):
            raise wrong_answers(self.name)
        return found

    def digest(self, connection: RecordsConnection) -> str:
        """Return the SHA-256 of the rows, of their order, and of the number that the next one gets."""
        found = hashlib.sha256(str(last_number(connection, self.name, self.numbered) if self.numbered else 0).encode())
        for row in self.rows(connection):
            values = [value.hex() if isinstance(value, bytes) else value for value in row]
            found.update(json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
        return found.hexdigest()

    def is_begun(self, source: RecordsConnection, target: RecordsConnection) -> bool:
        """Return whether the target's rows are the first of the source's."""
        here = self.rows(source)
        return all(next(here, None) == row for row in self.rows(target))

    def copy(self, source: RecordsConnection, target: RecordsConnection, progress: Progress) -> None:
        """Add the rows that the target lacks, which are those after the ones that it has.

        Raises: HIVE-407 for a value that no release writes, and that the target doesn't take.
        """
        done, total = self.count(target), self.count(source)
        here = islice(self.rows(source), done, None)
        columns = ", ".join(name for name, _ in self.columns)
        insert = f"INSERT INTO {self.name} ({columns}) VALUES ({', '.join('?' * len(self.columns))})"
        while batch := list(islice(here, BATCH)):
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
                what = "the character NUL" if not damaged else f"something else than {type}"
                message = (
                    f"a row of {self.name} that begins with {str(row[0])[:40]!r} holds {what} in its column {name}"
                )
                raise HiveError.of("HIVE-407", message, fix="mend or delete that row, then run the command again")


def _fits(value: object) -> bool:
    """Return whether both databases hold a number as it is."""
    return not isinstance(value, (int, float)) or (abs(value) < 2**63 if isinstance(value, int) else isfinite(value))


def _number_on(target: RecordsConnection, table: RecordTable, last: int) -> None:
    """Let the target give numbers from there on."""
    if isinstance(target, sqlite3.Connection):
        target.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last))
    else:
        sequence = f"CAST(pg_get_serial_sequence('{table.name}', '{table.numbered}') AS regclass)"
        target.execute(f"SELECT setval({sequence}, {max(last, 1)}, {str(last > 0).lower()})")


def wrong_answers(about: str) -> HiveError:
    """Return HIVE-407 for a server that answers otherwise than PostgreSQL would."""
    message = f"the server's answers about {about} aren't those of a PostgreSQL that holds records"
    return HiveError.of("HIVE-407", message, fix="see whether [storage] url leads to your own server")


@cache
def record_tables() -> tuple[RecordTable, ...]:
    """Return the tables of records, those that are referred to first."""
    found = []
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
            found.append(RecordTable(name, tuple((row[1], row[2]) for row in info), order, numbered))
    return tuple(found)


def clear_records(connection: RecordsConnection) -> None:
    """Delete all records, those that refer to others first."""
    with transaction(connection):
        for table in reversed(record_tables()):
            connection.execute(f"DELETE FROM {table.name}")


def require_own_objects(connection: RecordsConnection) -> None:
    """Raise HIVE-407 for what no release makes: a view or trigger, which would be asked instead of a table, or act;
    numbers that are none; values that are so large that a few of them fill the memory."""
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
    """Yield each column that may hold much: its table, a column that names the row, its name, and what its size is."""
    here = isinstance(connection, sqlite3.Connection)
    for table in record_tables():
        for column, type in table.columns:
            if here or type in ("TEXT", "BLOB"):
                size = f"length(CAST({column} AS BLOB))" if here else f"octet_length({column})"
                yield table.name, table.order[0], column, size
    for name, key, column in () if here else _BESIDE:
        if connection.execute("SELECT to_regclass(?)", (name,)).fetchone()[0] is not None:
            size = f"octet_length({column})" if column in ("line", "blob") else f"octet_length(CAST({column} AS text))"
            yield name, key, column, size


def _require_own_views(connection: sqlite3.Connection) -> None:
    seals = {name for name, _ in connection.execute(SEALS).fetchall()}
    found = "SELECT name, type FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY name"
    for name, kind in connection.execute(found).fetchall():
        if name not in seals:
            message = f"the {kind} {str(name)[:60]!r} is none of this program's, and could answer or do anything"
            raise HiveError.of("HIVE-407", message, fix="find out who made it; then drop it, and run this again")


def require_references(connection: RecordsConnection) -> None:
    """Raise HIVE-407 for a row that refers to one that isn't there, which SQLite lets stand and a server refuses."""
    if isinstance(connection, sqlite3.Connection):
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchall():
            if table in INDEX_TABLES:
                continue
            message = f"row {row} of {table} refers to a row of {parent} that isn't there"
            raise HiveError.of("HIVE-407", message, fix="delete that row, then run the command again")
