"""The stored state of triggers: since when each is watched, its last tick, its missed ticks."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_agents.events import Event, EventLog, EventType, derived_id
from hive_agents.store import RecordsConnection, connected, transaction
from hive_agents.triggers.schedule import next_tick
from hive_agents.triggers.spec import is_scheduled

if TYPE_CHECKING:
    from hive_agents.triggers.schedule import Ticks
    from hive_agents.triggers.spec import TriggerSpec
    from hive_agents.workspace import Workspace

ID_DAY = dt.timedelta(hours=24)


def iso(moment: dt.datetime) -> str:
    """Return a time in UTC in the format of the database, events and keys."""
    return moment.astimezone(dt.UTC).isoformat()


@dataclass(frozen=True)
class TriggerState:
    """`since` is when this version of the file was first seen; `last_at` the last tick or event that was dealt with."""

    id: str
    digest: str
    since: dt.datetime
    last_at: dt.datetime | None = None
    missed: int = 0
    last_event_id: str | None = None
    last_run_id: str | None = None

    @property
    def seen_until(self) -> dt.datetime:
        """The time up to which all ticks are processed."""
        return max(self.since, self.last_at or self.since)


class TriggerStore:
    """The table `triggers` of a workspace; any process may write it.

    Methods raise HIVE-402 when the database is locked, HIVE-403 when it can't be written, HIVE-407 when it is damaged.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def get(self, id: str) -> TriggerState | None:
        with connected(self.workspace.records, rows=True) as connection:
            return _state(connection, id)

    def begin(self, spec: TriggerSpec, now: dt.datetime) -> TriggerState:
        """Return the trigger's state; a new or changed trigger is watched from now on."""
        with connected(self.workspace.records, rows=True) as connection:
            found = _state(connection, spec.id)
            if found is None or found.digest != spec.digest:
                with transaction(connection):
                    connection.execute(
                        "INSERT INTO triggers (id, hash, since) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE"
                        " SET hash = excluded.hash, since = excluded.since WHERE triggers.hash != excluded.hash",
                        (spec.id, spec.digest, iso(now)),
                    )
                found = _state(connection, spec.id)
            assert found is not None
            return found

    def ticked(
        self, state: TriggerState, last: dt.datetime, missed: Ticks, run_id: str | None, *, policy: str, tenant: str
    ) -> bool:
        """Record that every tick up to `last` was processed, with events of the missed ones, in one transaction.

        Return False where another process was first or the file has changed, so that nothing is counted twice.
        """
        values = (iso(last), missed.count, run_id, state.id, state.digest, state.last_at and iso(state.last_at))
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            changed = connection.execute(
                "UPDATE triggers SET last_at = ?, missed = missed + ?, last_run_id = coalesce(?, last_run_id)"
                " WHERE id = ? AND hash = ? AND last_at IS ?",
                values,
            )
            if changed.rowcount == 1 and missed.count:
                EventLog.record(connection, [_missed_event(state, missed, policy, tenant)])
            return changed.rowcount == 1

    def fired(self, id: str, run_id: str | None, *, at: dt.datetime | None = None, event_id: str | None = None) -> None:
        """Record a run that no schedule started; without a run, an event that the agent doesn't accept.

        Without `at`, for manual firing, a schedule's ticks don't change.
        """
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            connection.execute(
                "UPDATE triggers SET last_at = coalesce(?, last_at), last_run_id = coalesce(?, last_run_id),"
                " last_event_id = coalesce(?, last_event_id) WHERE id = ?",
                (iso(at) if at else None, run_id, event_id, id),
            )

    def forget(self, id: str) -> None:
        with connected(self.workspace.records, rows=True) as connection, transaction(connection):
            connection.execute("DELETE FROM triggers WHERE id = ?", (id,))

    def key_of(self, tenant: str, key: str, now: dt.datetime) -> tuple[str, str | None]:
        """Return (the key to start a run with, the run that has it already).

        An id is the same for 24 hours after its run was started, then a new one.
        """
        query, first = "SELECT run_id, started_at FROM runs WHERE tenant = ? AND key = ?", key
        with connected(self.workspace.records, rows=True) as connection:
            while (found := connection.execute(query, (tenant, key)).fetchone()) is not None:
                if now - dt.datetime.fromisoformat(found["started_at"]) < ID_DAY:
                    return key, str(found["run_id"])
                key = f"{first}#{found['run_id']}"
        return key, None


def _state(connection: RecordsConnection, id: str) -> TriggerState | None:
    found = connection.execute("SELECT * FROM triggers WHERE id = ?", (id,)).fetchone()
    if found is None:
        return None
    value: dict[str, Any] = dict(found)
    since = dt.datetime.fromisoformat(value.pop("since"))
    last_at = value.pop("last_at")
    last = dt.datetime.fromisoformat(last_at) if last_at else None
    return TriggerState(digest=value.pop("hash"), since=since, last_at=last, **value)


def _missed_event(state: TriggerState, missed: Ticks, policy: str, tenant: str) -> Event:
    assert missed.first is not None
    assert missed.last is not None
    span = {"first": iso(missed.first), "last": iso(missed.last)}
    id = derived_id("ticks_missed", state.id, *span.values())
    payload = {"trigger": state.id, "count": missed.count, **span, "policy": policy}
    return Event(EventType.TRIGGER_MISSED, tenant=tenant, payload=payload, id=id)


def trigger_row(workspace: Workspace, spec: TriggerSpec) -> dict[str, Any]:
    """Return {id, type, agent, enabled, next_at, last_at, missed, last_run_id} of a trigger, as lists show it."""
    state = TriggerStore(workspace).get(spec.id)
    return {
        "id": spec.id,
        "type": spec.type,
        "agent": spec.agent,
        "enabled": spec.enabled,
        "next_at": next((at.isoformat() for at in coming(workspace, spec, 1)), None),
        "last_at": state.last_at.isoformat() if state is not None and state.last_at else None,
        "missed": state.missed if state is not None else 0,
        "last_run_id": state.last_run_id if state is not None else None,
    }


def coming(workspace: Workspace, spec: TriggerSpec, count: int) -> list[dt.datetime]:
    """Return the next times of a schedule, at most `count`; none of what is no schedule, or rests."""
    state, now = TriggerStore(workspace).get(spec.id), dt.datetime.now(dt.UTC)
    known = state if state is not None and state.digest == spec.digest else None
    ticks: list[dt.datetime] = []
    after = max(known.seen_until, now) if known is not None else now
    while spec.enabled and is_scheduled(spec) and len(ticks) < count:
        at = next_tick(spec, after, since=known.since if known is not None else now)
        if at is None:
            break
        ticks.append(at)
        after = at
    return ticks
