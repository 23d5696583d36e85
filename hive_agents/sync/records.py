"""Records of imports: remembered sources, and the document of each file."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hive_agents.store import audit, transaction

NAMED = "source:"


@dataclass(frozen=True)
class RememberedSource:
    """A remembered source; `place` is its folder below `documents/`, "" for `documents/` itself.

    `brings` are the settings of its readers. The path of a source that the settings name is `NAMED` and its name.
    """

    number: int
    path: Path
    pattern: str
    place: str
    rev: str | None
    metadata: Mapping[str, Any]
    at: str
    brings: frozenset[str] = frozenset()

    @property
    def named(self) -> bool:
        return str(self.path).startswith(NAMED)

    @property
    def shown(self) -> str:
        where = str(self.path / self.pattern) if self.pattern else str(self.path)
        return f"{where} at {self.rev}" if self.rev is not None else where


@dataclass(frozen=True)
class Record:
    """One file of a source.

    `written` is the text of the last completed write, `pending` that of an unfinished one. `moved_from` is the file's
    earlier name while its document is moved. `refused` is the reason why the file could not be imported; `doc_id` is
    None if it never was. `left_out` counts by kind what the file has and its document hasn't.
    """

    file: str
    doc_id: str | None
    file_hash: str | None
    recipe: str | None
    written: str | None = None
    pending: str | None = None
    moved_from: str | None = None
    refused: str | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)


class Records:
    """The tables `import_sources` and `imports`; writers hold the workspace's lock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def sources(self) -> list[RememberedSource]:
        """Return the sources that `hive import` remembers, without those that the settings name."""
        return [source for source in self._all() if not source.named]

    def source_named(self, name: str) -> RememberedSource | None:
        return next((source for source in self._all() if str(source.path) == NAMED + name), None)

    def _all(self) -> list[RememberedSource]:
        rows = self._connection.execute(
            "SELECT source, path, pattern, place, rev, metadata, at, brings FROM import_sources ORDER BY source"
        )
        return [
            RememberedSource(
                *(number, Path(path), pattern, place, rev, json.loads(metadata), at), frozenset(brings.split())
            )
            for number, path, pattern, place, rev, metadata, at, brings in rows
        ]

    def remember(
        self,
        path: Path,
        pattern: str,
        place: str,
        rev: str | None,
        metadata: Mapping[str, Any],
        brings: Set[str] = frozenset(),
    ) -> RememberedSource:
        """Add a source, or update its revision, metadata and settings; return it."""
        self._connection.execute(
            "INSERT INTO import_sources (path, pattern, place, rev, metadata, at, brings) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET rev = excluded.rev, metadata = excluded.metadata, brings = excluded.brings",
            (
                *(str(path), pattern, place, rev, json.dumps(dict(metadata), sort_keys=True)),
                *(audit.now(), " ".join(sorted(brings))),
            ),
        )
        key = (path, pattern, place)
        return next(source for source in self._all() if (source.path, source.pattern, source.place) == key)

    def count(self, source: RememberedSource) -> int:
        """Return the number of the source's files that became documents."""
        sql = "SELECT count(doc_id) FROM imports WHERE source = ?"
        return int(self._connection.execute(sql, (source.number,)).fetchone()[0])

    def forget(self, source: RememberedSource) -> None:
        with transaction(self._connection):
            self._connection.execute("DELETE FROM imports WHERE source = ?", (source.number,))
            self._connection.execute("DELETE FROM import_sources WHERE source = ?", (source.number,))

    def synced(self, source: RememberedSource) -> None:
        self._connection.execute("UPDATE import_sources SET at = ? WHERE source = ?", (audit.now(), source.number))

    def of(self, source: RememberedSource) -> dict[str, Record]:
        """Return the source's records by file."""
        rows = self._connection.execute(
            "SELECT file, doc_id, file_hash, recipe, written, pending, moved_from, refused, left_out FROM imports"
            " WHERE source = ? ORDER BY file",
            (source.number,),
        )
        return {
            file: Record(
                *(file, doc_id, file_hash, recipe, _text(written), _text(pending), moved_from, refused),
                left_out=json.loads(left_out or "{}"),
            )
            for file, doc_id, file_hash, recipe, written, pending, moved_from, refused, left_out in rows
        }

    def hashes(self, source: RememberedSource) -> dict[str, str]:
        """Return the hash of each of the source's files that became a document."""
        sql = "SELECT file, file_hash FROM imports WHERE source = ? AND doc_id IS NOT NULL AND file_hash IS NOT NULL"
        return dict(self._connection.execute(sql, (source.number,)).fetchall())

    def doc_ids(self) -> set[str]:
        """Return the doc_ids of all sources."""
        return {row[0] for row in self._connection.execute("SELECT doc_id FROM imports WHERE doc_id IS NOT NULL")}

    def change(self, source: RememberedSource, put: Iterable[Record] = (), drop: Iterable[str] = ()) -> None:
        """Remove the records of the files in `drop` and write those in `put`, in one transaction."""
        with transaction(self._connection):
            self._connection.executemany(
                "DELETE FROM imports WHERE source = ? AND file = ?", [(source.number, file) for file in drop]
            )
            self._connection.executemany(
                "INSERT OR REPLACE INTO imports (source, file, doc_id, file_hash, recipe, written, pending, moved_from,"
                " refused, left_out, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        source.number,
                        record.file,
                        record.doc_id,
                        record.file_hash,
                        record.recipe,
                        _blob(record.written),
                        _blob(record.pending),
                        record.moved_from,
                        record.refused,
                        json.dumps(dict(record.left_out)) if record.left_out else None,
                        audit.now(),
                    )
                    for record in put
                ],
            )


def _blob(text: str | None) -> bytes | None:
    return None if text is None else zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def _text(blob: bytes | None) -> str | None:
    return None if blob is None else zlib.decompress(blob).decode("utf-8", "surrogatepass")
