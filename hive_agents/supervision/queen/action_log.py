"""The queen's own actions: a row per ticket and severity, written before and after each action."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.store import RecordsConnection, SelectedRow, audit, connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

EntryStatus = Literal["begun", "done"]


@dataclass(frozen=True)
class ActionEntry:
    """`detail` has the ticket as it was at the decision, and the progress since."""

    key: str
    at: str
    ticket_id: str | None
    tenant: str
    run_id: str | None
    action: str
    status: EntryStatus
    detail: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the row of a list."""
        names = ("key", "at", "ticket_id", "tenant", "run_id", "action", "status")
        return {name: getattr(self, name) for name in names} | {"approval_id": self.detail.get("approval_id")}


class ActionLog:
    """The table `queen_actions`. Methods raise HIVE-402, HIVE-403 and HIVE-407 from the database."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def begin(
        self,
        key: str,
        action: str,
        *,
        tenant: str,
        run_id: str | None,
        ticket_id: str | None,
        detail: Mapping[str, Any],
    ) -> ActionEntry:
        """Record an action before it begins; an earlier one of the same key stays."""
        row = (key, audit.now(), ticket_id, tenant, run_id, action, "begun", json.dumps(detail))
        with connected(self.workspace.records, rows=True) as connection:
            connection.execute("INSERT INTO queen_actions VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
            return _entry(connection.execute("SELECT * FROM queen_actions WHERE key = ?", (key,)).fetchone())

    def find(self, key: str) -> ActionEntry | None:
        found = self._select("key = ?", key)
        return found[0] if found else None

    def note(self, entry: ActionEntry, status: EntryStatus | None = None, **detail: Any) -> ActionEntry:
        """Record the progress of an action, and return the entry."""
        after = entry.detail | detail
        with connected(self.workspace.records, rows=True) as connection:
            update = "UPDATE queen_actions SET status = ?, detail = ? WHERE key = ?"
            connection.execute(update, (status or entry.status, json.dumps(after), entry.key))
        return self._select("key = ?", entry.key)[0]

    def of_ticket(self, ticket_id: str) -> Sequence[ActionEntry]:
        """Return the entries of a ticket, oldest first."""
        return self._select("ticket_id = ?", ticket_id)

    def unfinished(self, run_id: str | None = None) -> Sequence[ActionEntry]:
        """Return the unfinished actions, oldest first; of one run, or of all."""
        where = "status = 'begun'"
        return self._select(where) if run_id is None else self._select(f"{where} AND run_id = ?", run_id)

    def newest(self, tenant: str | None = None, limit: int = 100) -> Sequence[ActionEntry]:
        """Return the last entries, newest first."""
        found = self._select("TRUE") if tenant is None else self._select("tenant = ?", tenant)
        return found[: -limit - 1 : -1]

    @staticmethod
    def forget(connection: RecordsConnection, before: str) -> None:
        """Delete the completed actions from before a moment, in the transaction of whoever keeps house."""
        connection.execute("DELETE FROM queen_actions WHERE at < ? AND status = 'done'", (before,))

    def _select(self, where: str, *values: Any) -> list[ActionEntry]:
        with connected(self.workspace.records, rows=True) as connection:
            found = connection.execute(f"SELECT * FROM queen_actions WHERE {where} ORDER BY rowid", values)
            return [_entry(row) for row in found]


def _entry(row: SelectedRow) -> ActionEntry:
    return ActionEntry(**{**dict(row), "detail": json.loads(row["detail"])})
