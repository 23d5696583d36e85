"""A history of decisions in the audit log, mirrored by rows of a table.

An entry is a line of the log and a row of the table; after a crash between the two, the line decides. A row that is
lost or differs from its line is restored from the log, if the log's chain is intact. A row without a line is never
valid, and without any line the history is an error: the row may be forged, or the line cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar

from hive_agents.base import HiveError
from hive_agents.store import audit
from hive_agents.store.database import RecordsConnection, connected, last_number, transaction
from hive_agents.workspace import Workspace


class LedgerRow(Protocol):
    """A frozen dataclass with the columns of a table; `id` numbers the entries, `evaluation` is kept as JSON."""

    @property
    def id(self) -> int: ...
    @property
    def evaluation(self) -> dict[str, Any] | None: ...


R = TypeVar("R", bound=LedgerRow)


@dataclass(frozen=True)
class LedgerHistory(Generic[R]):
    """`rows` are the valid ones, `unlogged` those after the log's last entry: forged, or the log was cut.

    Both are newest first. `doubt` is why the log's chain doesn't hold, so that later entries may be missing; "" where
    it does.
    """

    rows: list[R]
    unlogged: list[R]
    doubt: str = ""


@dataclass(frozen=True)
class Ledger(Generic[R]):
    """The entries of one kind in the audit log, and the table that mirrors them.

    `logged_as` gives the names of columns in the log where they differ; a column `at` without such a name is the
    time of the line itself, which is slightly later. `subject` is the column that separates the histories of one
    table. `name` names a row in messages.
    """

    row: type[R]
    table: str
    kind: str
    name: Callable[[R], str]
    logged_as: Mapping[str, str] = field(default_factory=dict)
    subject: str | None = None

    def history(self, workspace: Workspace, subject: str | None = None) -> LedgerHistory[R]:
        """Return the entries, of one subject where the table holds several; lost rows are restored.

        Raises: HIVE-413 where there are rows, or the log is broken, and it vouches for none.
        """
        # Rows before the log: an entry is logged before its row is committed, so that none looks like a forgery.
        rows = self._rows(workspace, subject)
        entries, verdict = audit.intact(workspace, self.kind)
        logged_rows = (self._of_entry(entry) for entry in entries if self._is_about(entry, subject))
        logged = {row.id: row for row in logged_rows}
        unlogged = [row for id, row in sorted(rows.items(), reverse=True) if id > max(logged, default=0)]
        if not logged:
            # An entry may have existed: its line may be the one that was cut or edited.
            if not verdict.ok:
                raise audit.broken(verdict)
            if unlogged:
                raise self._forged(unlogged[0])
            return LedgerHistory([], [])
        lost = [row for row in logged.values() if not self._agree(rows.get(row.id), row)]
        if lost and verdict.ok:
            with connected(workspace.records) as connection, transaction(connection):
                for row in lost:
                    self._write(connection, row)
        restored = rows | {row.id: row for row in lost}
        return LedgerHistory([restored[id] for id in sorted(logged, reverse=True)], unlogged, verdict.reason)

    def append(
        self,
        workspace: Workspace,
        make: Callable[[int], R],
        also: Callable[[RecordsConnection, R], object] | None = None,
    ) -> R:
        """Add the entry that `make` returns for its number, and what `also` writes in the same transaction.

        To be called under `workspace.exclusive`.
        """
        with connected(workspace.records) as connection, transaction(connection):
            row = make(self._next_id(workspace, connection))
            self._write(connection, row)
            values = {self._logged_name(name): getattr(row, name) for name in self._columns}
            values.pop("at", None)
            audit.append(workspace, self.kind, **values)
            if also is not None:
                also(connection, row)
        return row

    def _rows(self, workspace: Workspace, subject: str | None) -> dict[int, R]:
        if not workspace.records.exists():
            return {}
        where, values = ("TRUE", ()) if subject is None else (f"{self.subject} = ?", (subject,))
        select = f"SELECT {', '.join(self._columns)} FROM {self.table} WHERE {where} ORDER BY id"
        with connected(workspace.records) as connection:
            return {row[0]: self._of_row(row) for row in connection.execute(select, values)}

    def _of_row(self, row: Sequence[Any]) -> R:
        values = dict(zip(self._columns, row, strict=True))
        values["evaluation"] = json.loads(values["evaluation"]) if values["evaluation"] else None
        return self.row(**values)

    def _of_entry(self, entry: Mapping[str, Any]) -> R:
        lacking = [name for name in map(self._logged_name, self._columns) if name not in entry]
        if lacking:
            why = f"an entry in the audit log has no {lacking[0]} at line {entry['seq']}"
            raise self._broken(why, entry["seq"])
        return self.row(**{name: entry[self._logged_name(name)] for name in self._columns})

    def _is_about(self, entry: Mapping[str, Any], subject: str | None) -> bool:
        return subject is None or (self.subject is not None and entry.get(self.subject) == subject)

    def _agree(self, row: R | None, logged: R) -> bool:
        compared = (name for name in self._columns if self._logged_name(name) != "at")
        return row is not None and all(getattr(row, name) == getattr(logged, name) for name in compared)

    def _write(self, connection: RecordsConnection, row: R) -> None:
        values = {name: getattr(row, name) for name in self._columns}
        values["evaluation"] = None if row.evaluation is None else json.dumps(row.evaluation)
        marks = ", ".join("?" * len(values))
        changed = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
        insert = (
            f"INSERT INTO {self.table} ({', '.join(values)}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {changed}"
        )
        connection.execute(insert, tuple(values.values()))

    def _next_id(self, workspace: Workspace, connection: RecordsConnection) -> int:
        """Return a number that is new to both the database and the log: a logged entry may lack its row."""
        logged = [int(entry[self._logged_name("id")]) for entry in audit.recorded(workspace, self.kind)]
        return max([*logged, last_number(connection, self.table, "id")]) + 1

    @property
    def _columns(self) -> list[str]:
        return [column.name for column in fields(self.row)]  # type: ignore[arg-type]

    def _logged_name(self, column: str) -> str:
        return self.logged_as.get(column, column)

    def _forged(self, row: R) -> HiveError:
        return self._broken(f"the database has {self.name(row)}, and the audit log knows of none", None)

    @staticmethod
    def _broken(why: str, line: int | None) -> HiveError:
        fix = "restore audit/log.jsonl from version control or a backup"
        return HiveError.of("HIVE-413", why, file=audit.FILE, path="$", line=line, fix=fix, exit_code=1)


def made_by(rows: Iterable[R], approval_id: str) -> R | None:
    """Return the newest row made by an approval, None where there is none."""
    return next((row for row in rows if row.evaluation and row.evaluation.get("approval_id") == approval_id), None)
