"""Cron and interval triggers: due and missed ticks, and one run per tick that counts."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hive_agents.access import LOCAL_TENANT, service_principal
from hive_agents.base import HiveError
from hive_agents.triggers.files import all_triggers
from hive_agents.triggers.firing import Fire, is_refusal, key_of, kind_of
from hive_agents.triggers.schedule import Ticks, ticks_between
from hive_agents.triggers.spec import ScheduledSpec, is_scheduled
from hive_agents.triggers.store import TriggerState, TriggerStore, iso

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

GRACE = dt.timedelta(seconds=60)
"""A tick that is found later than this is missed; until then its run starts."""
POLL_SECONDS = 5.0
"""The longest time until a changed file, a changed clock or the end of a fault is noticed."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The result of a trigger's due ticks.

    "fired" has a run. "missed" started none. "refused": the agent doesn't accept the input; the tick is done. "failed":
    any other fault; the tick is tried again until it is missed.
    """

    trigger: str
    status: Literal["fired", "missed", "refused", "failed"]
    scheduled: dt.datetime
    missed: int = 0
    run_id: str | None = None


@dataclass(frozen=True)
class _Due:
    spec: ScheduledSpec
    state: TriggerState
    last: dt.datetime
    missed: Ticks
    fires: bool
    tenant: str


class Scheduler:
    """Fires the schedules of a workspace, each tick once, also after crashes and clock changes.

    `fire` starts a run, once per tick's key. Several processes may have a scheduler each.
    """

    def __init__(
        self, workspace: Workspace, fire: Fire, *, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    ) -> None:
        self.workspace, self._fire, self._now = workspace, fire, now
        self._store = TriggerStore(workspace)
        self._faults: dict[str, str] = {}

    async def run(self) -> None:
        """Tick for ever; faults are logged."""
        while True:
            wait = POLL_SECONDS
            try:
                now = self._now()
                outcomes = await self.tick(now)
                if not any(outcome.status == "failed" for outcome in outcomes):
                    wait = await asyncio.to_thread(self._until_next, self._now())
            except Exception as error:
                _log.warning("triggers: a tick failed: %s", kind_of(error))
            await asyncio.sleep(wait)

    async def tick(self, now: dt.datetime) -> list[Outcome]:
        """Process every tick up to `now`; an earlier time than the last one changes nothing.

        Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
        """
        return [await self._settle(due) for due in await asyncio.to_thread(self._due, now)]

    async def _settle(self, due: _Due) -> Outcome:
        id, run_id, missed = due.spec.id, None, due.missed.count
        if due.fires:
            at = iso(due.last)
            try:
                run_id = await self._fire(due.spec, dict(due.spec.input), key=key_of(id, at), scheduled=at)
            except Exception as error:  # the other triggers must not miss their ticks
                _log.warning("trigger %s at %s: %s", id, at, kind_of(error))
                if not isinstance(error, HiveError) or not is_refusal(error):
                    return Outcome(id, "failed", due.last)
        # After firing: a process that dies before this fires the same key again, which starts nothing.
        remember = (due.state, due.last, due.missed, run_id)
        await asyncio.to_thread(self._store.ticked, *remember, policy=due.spec.missed, tenant=due.tenant)
        if not due.fires:
            return Outcome(id, "missed", due.last, missed)
        return Outcome(id, "fired" if run_id is not None else "refused", due.last, missed, run_id)

    def _due(self, now: dt.datetime) -> list[_Due]:
        found = []
        for spec in self._watched():
            try:
                due = self._due_of(spec, now)
            except HiveError:  # of the database, which concerns all triggers
                raise
            except Exception as error:
                _log.warning("trigger %s: %s", spec.id, kind_of(error))
                continue
            if due is not None:
                found.append(due)
        return found

    def _due_of(self, spec: ScheduledSpec, now: dt.datetime) -> _Due | None:
        state = self._store.begin(spec, now)
        ticks = ticks_between(spec, state.seen_until, now, since=state.since)
        if ticks.last is None:
            return None
        late = now - ticks.last > GRACE
        before = ticks.last - dt.timedelta(microseconds=1)
        missed = ticks if late else ticks_between(spec, state.seen_until, before, since=state.since)
        fires = spec.missed == "once" or not late
        return _Due(spec, state, ticks.last, missed, fires, self._tenant(spec))

    def _until_next(self, now: dt.datetime) -> float:
        """Return the seconds until a tick is due, at most `POLL_SECONDS`."""
        horizon = now + dt.timedelta(seconds=POLL_SECONDS)
        first = horizon
        for spec in self._watched():
            state = self._store.begin(spec, now)
            # Not next_tick: a schedule may tick once in years, and only the next seconds matter.
            soon = ticks_between(spec, state.seen_until, horizon, since=state.since)
            first = min(first, soon.first or horizon)
        return max(0.01, (first - now).total_seconds())

    def _watched(self) -> list[ScheduledSpec]:
        sound, faulty = all_triggers(self.workspace)
        for id, error in faulty.items():
            if self._faults.get(id) != str(error):  # once, and not every few seconds
                _log.warning("trigger %s is left out: %s", id, kind_of(error))
        self._faults = {id: str(error) for id, error in faulty.items()}
        return [spec for spec in sound if spec.enabled and is_scheduled(spec)]

    def _tenant(self, spec: ScheduledSpec) -> str:
        try:
            return service_principal(self.workspace, spec.service).tenant
        except HiveError:
            return LOCAL_TENANT
