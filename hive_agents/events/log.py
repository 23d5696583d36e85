"""The event log among the workspace's records."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hive_agents.events.types import DURABLE, WAKING, Event, EventType
from hive_agents.store import RecordsConnection, briefly, connected, database, notices, transaction

if TYPE_CHECKING:
    from hive_agents.events.protocols import Bus
    from hive_agents.workspace import Workspace

_COLUMNS = "id, type, time, tenant, run_id, thread_id, node_id, stream_id, payload"
# Not ON CONFLICT DO NOTHING, which would use up a number.
_INSERT = (
    f"INSERT INTO events ({_COLUMNS}) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"
    " WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = ?) RETURNING seq"
)
_PRUNED_AT_ONCE = 5000
_TURN = "events"
"""Serialises writers, so that events become visible in the order of their numbers."""


class EventLog:
    """The log of one workspace; safe to use from several threads and processes.

    Methods raise HIVE-402 when the database is locked, HIVE-403 when the disk is full or can't be written and
    HIVE-407 when the database is damaged.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._lock = threading.Lock()

    def append(self, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        """Record all of them or none, in one transaction; return each with its seq, and whether it is new.

        An event whose id is in the log already is not recorded again: the recorded one is returned.

        Raises: ValueError when a payload isn't plain JSON.
        """
        rows = [_row(event) for event in events]
        if not rows:
            return []
        with self._lock:
            return self._appended(events, rows)

    def _appended(self, events: Sequence[Event], rows: Sequence[tuple[str | None, ...]]) -> list[tuple[Event, bool]]:
        statements = [_insertion(event, row) for event, row in zip(events, rows, strict=True)]
        waking = any(event.type in WAKING for event in events)
        with connected(self.workspace.records) as connection:
            inserted = database.written_at_once(connection, _TURN, statements, waking=waking)
            return [
                _outcome(connection, event, rows[0] if rows else None)
                for event, rows in zip(events, inserted, strict=True)
            ]

    @staticmethod
    def record(connection: RecordsConnection, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        """Record events in the caller's transaction, together with what they report; return as `append` does.

        They reach subscribers by `Consumer`, which reads the log, or by `Bus.announce`.
        """
        rows = [_row(event) for event in events]
        database.take_turn(connection, _TURN)
        outcomes = []
        for event, row in zip(events, rows, strict=True):
            inserted = connection.execute(*_insertion(event, row)).fetchone()
            outcomes.append(_outcome(connection, event, inserted))
            if inserted is not None and event.type in WAKING:
                notices.notify(connection)
        return outcomes

    def recorded(self, id: str) -> Event | None:
        """Return the event of that id with its seq; None where the log has none."""
        query = f"SELECT seq, {_COLUMNS} FROM events WHERE id = ?"
        with connected(self.workspace.records, rows=True) as connection:
            row = connection.execute(query, (id,)).fetchone()
        return None if row is None else _event(row)

    async def tell(self, bus: Bus, events: Sequence[Event]) -> None:
        """Log events in one transaction and deliver them on a bus over this log; faster than `Bus.publish` for one
        event after another. Those that have their number are logged already.

        Raises: as `Bus.publish`.
        """
        due = [event for event in events if event.type in DURABLE and event.seq is None]
        logged = await briefly(partial(self._appended, due, [_row(event) for event in due])) if due else []
        outcomes = {event.id: outcome for event, outcome in zip(due, logged, strict=True)}
        for event in events:
            recorded, new = outcomes.get(event.id, (event, True))
            if event.type not in DURABLE:
                await bus.publish(event)
            elif new:
                await bus.announce(recorded)

    def replay(
        self,
        after_seq: int = 0,
        *,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return the events after `after_seq`, oldest first, whichever process appended them; at most `limit`.

        Types that only a newer release knows are left out.
        """
        wanted = [EventType(type).value for type in (EventType if types is None else types)]
        clauses = ["seq > ?", f"type IN ({', '.join('?' * len(wanted))})"]
        values: list[Any] = [after_seq, *wanted]
        for column, value in (("run_id", run_id), ("tenant", tenant)):
            if value is not None:
                clauses.append(f"{column} = ?")
                values.append(value)
        query = f"SELECT seq, {_COLUMNS} FROM events WHERE {' AND '.join(clauses)} ORDER BY seq LIMIT ?"
        with connected(self.workspace.records, rows=True) as connection:
            return [
                _event(row) for row in connection.execute(query, (*values, sys.maxsize if limit is None else limit))
            ]

    def last_seq(self) -> int:
        """Return the highest seq ever given, 0 in a new log. Pruning doesn't lower it."""
        with connected(self.workspace.records, rows=True) as connection:
            return database.last_number(connection, "events", "seq")

    @staticmethod
    def forget(connection: RecordsConnection, of_runs: str, values: Sequence[str]) -> None:
        """Delete the events of the runs that a query names, in the caller's transaction."""
        connection.execute(f"DELETE FROM events WHERE run_id IN ({of_runs})", values)

    def prune(self, before: dt.datetime) -> int:
        """Delete the events before that moment, in short transactions; return their number."""
        limit = before.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        delete = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE time < ? ORDER BY seq LIMIT ?)"
        pruned = 0
        while True:
            with self._lock, connected(self.workspace.records) as connection, transaction(connection):
                deleted = connection.execute(delete, (limit, _PRUNED_AT_ONCE)).rowcount
            pruned += deleted
            if deleted < _PRUNED_AT_ONCE:
                return pruned

    def close(self) -> None:
        """Close the connection that this thread keeps; the next use opens it again."""
        database.disconnect(self.workspace.records)


def _row(event: Event) -> tuple[str | None, ...]:
    try:
        payload = json.dumps(dict(event.payload), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the payload of {event.type} must be plain JSON: {error}") from error
    return (
        event.id,
        EventType(event.type).value,
        event.time,
        event.tenant,
        event.run_id,
        event.thread_id,
        event.node_id,
        event.stream_id,
        payload,
    )


def _insertion(event: Event, row: tuple[str | None, ...]) -> tuple[str, tuple[str | None, ...]]:
    return _INSERT, (*row, event.id)


def _outcome(connection: RecordsConnection, event: Event, inserted: Sequence[int] | None) -> tuple[Event, bool]:
    """Return the event with its new number, or the recorded event where nothing was inserted."""
    if inserted is not None:
        return event.numbered(inserted[0]), True
    row = connection.execute(f"SELECT seq, {_COLUMNS} FROM events WHERE id = ?", (event.id,)).fetchone()
    return _event(dict(zip(("seq", *_COLUMNS.split(", ")), row, strict=True))), False


def _event(row: Mapping[str, Any]) -> Event:
    return Event.from_json({**dict(row), "payload": json.loads(row["payload"])})
