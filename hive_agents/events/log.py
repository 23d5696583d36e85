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
from hive_agents.store import (
    RecordsConnection,
    briefly,
    connected,
    disconnect,
    last_number,
    notify,
    take_turn,
    transaction,
    written_at_once,
)

if TYPE_CHECKING:
    from hive_agents.events.protocols import Bus
    from hive_agents.workspace import Workspace

_COLUMNS = "id, type, time, tenant, run_id, thread_id, node_id, stream_id, payload"
# Not ON CONFLICT DO NOTHING: it uses up a number when it does nothing.
_INSERT = (
    f"INSERT INTO events ({_COLUMNS}) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?"
    " WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = ?) RETURNING seq"
)
_PRUNED_AT_ONCE = 5000
_TURN = "events"
"""So that events show in the order of their numbers: the next number is given after the last one's commit."""


class EventLog:
    """The log of one workspace; safe to use from several threads and processes.

    Methods raise HIVE-402 when the database is locked, HIVE-403 when the disk is full or can't be written and
    HIVE-407 when the database is damaged.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._lock = threading.Lock()

    def append(self, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        """Record all of them or none, in one transaction; each comes back with its seq, and whether it is new.

        An event whose id is in the log already is not recorded again: the recorded one comes back.

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
            given = written_at_once(connection, _TURN, statements, waking=waking)
            return [
                _outcome(connection, event, found[0] if found else None)
                for event, found in zip(events, given, strict=True)
            ]

    @staticmethod
    def record(connection: RecordsConnection, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        """`append` inside the caller's own transaction: what it does and that it is told of happen together.

        Whoever listens in this process hears of it by `Consumer`, which reads the log, or by `Bus.announce`.
        """
        rows = [_row(event) for event in events]
        take_turn(connection, _TURN)
        outcomes = []
        for event, row in zip(events, rows, strict=True):
            given = connection.execute(*_insertion(event, row)).fetchone()
            outcomes.append(_outcome(connection, event, given))
            if given is not None and event.type in WAKING:
                notify(connection)
        return outcomes

    def recorded(self, id: str) -> Event | None:
        """Return the event of that id with its seq; None where the log has none."""
        query = f"SELECT seq, {_COLUMNS} FROM events WHERE id = ?"
        with connected(self.workspace.records, rows=True) as connection:
            found = connection.execute(query, (id,)).fetchone()
        return None if found is None else _event(found)

    async def tell(self, bus: Bus, event: Event) -> None:
        """Publish an event on a bus over this log, without a thread where nobody else writes to the database just then.

        For those who tell of much and wait for each, such as the nodes of an agent. Raises: as `Bus.publish`.
        """
        if event.type not in DURABLE:
            await bus.publish(event)
            return
        row = _row(event)
        ((recorded, new),) = await briefly(partial(self._appended, [event], [row]))
        if new:
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
            return last_number(connection, "events", "seq")

    def prune(self, before: dt.datetime) -> int:
        """Forget what happened before that moment, in short transactions; returns how many events went."""
        limit = before.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        delete = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE time < ? ORDER BY seq LIMIT ?)"
        gone = 0
        while True:
            with self._lock, connected(self.workspace.records) as connection, transaction(connection):
                deleted = connection.execute(delete, (limit, _PRUNED_AT_ONCE)).rowcount
            gone += deleted
            if deleted < _PRUNED_AT_ONCE:
                return gone

    def close(self) -> None:
        """Close the connection that this thread keeps; the next use opens it again."""
        disconnect(self.workspace.records)


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


def _outcome(connection: RecordsConnection, event: Event, given: Sequence[int] | None) -> tuple[Event, bool]:
    """Return the event with the number that it was given, or as it had been recorded before."""
    if given is not None:
        return event.numbered(given[0]), True
    found = connection.execute(f"SELECT seq, {_COLUMNS} FROM events WHERE id = ?", (event.id,)).fetchone()
    return _event(dict(zip(("seq", *_COLUMNS.split(", ")), found, strict=True))), False


def _event(row: Mapping[str, Any]) -> Event:
    return Event.from_json({**dict(row), "payload": json.loads(row["payload"])})
