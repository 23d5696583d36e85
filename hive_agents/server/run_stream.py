"""A run as a stream: what the log holds after where the client stands, then what happens, until the run is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

from ag_ui.core import EventType
from starlette.concurrency import run_in_threadpool

from hive_agents.approvals import ApprovalStore
from hive_agents.events import DURABLE, EventLog
from hive_agents.server.protocols.agui_events import EventGroup, Projection
from hive_agents.server.streams import BEAT, frame, live

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

    from hive_agents.events import Event
    from hive_agents.runs import RunRow
    from hive_agents.server.auth import Call
    from hive_agents.server.feed import Feed

BATCH = 100
"""Logged events that are read at once."""
Told: TypeAlias = "tuple[int | None, EventGroup]"


class RunStream:
    """The groups of a run's events after a position: so many of its logged events, and messages of its agent.

    Numbers are the run's own: those of the log would tell how much happens elsewhere.

    With `until_rest` it ends also where people have to decide, and not only where the run is over: not where they have,
    and the run is about to go on. `resumed` leaves out
    what the run still told of its rest, after the stream before had ended.
    """

    def __init__(
        self,
        call: Call,
        feed: Feed,
        row: RunRow,
        after: tuple[int, int] = (0, 0),
        *,
        names: tuple[str, str] | None = None,
        until_rest: bool = False,
        resumed: bool = False,
    ) -> None:
        self._call, self._feed, self._row = call, feed, row
        self._projection = Projection(call, row, names)
        self._after, self._messages = after
        self._seen = self._count = self._waits_since = 0
        self._until_rest = until_rest
        self._awaits_start = resumed

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield each group with one id, on its last event: who comes back in the middle of a group gets the whole
        group."""
        async for found in self.groups():
            if found is None:
                yield BEAT
                continue
            number, group = found
            if self._awaits_start and not any(event.type == EventType.RUN_STARTED for event in group.events):
                continue
            self._awaits_start = False
            for place, event in enumerate(group.events, start=1):
                last = place == len(group.events) and number is not None
                yield frame(text_of(event), f"{number}-{group.messages}" if last else None)

    async def groups(self) -> AsyncIterator[tuple[int | None, EventGroup] | None]:
        """(number of the event, group), without a number for what is not logged; None for each heartbeat."""
        async with self._feed.watch(self._row.run_id) as watch:
            with self._call.host.dispatcher.precedence.first():
                later, told = await run_in_threadpool(self._begin)
            for one in told:
                yield one
            while later:
                later, told = await run_in_threadpool(self._next, later)
                for one in told:
                    yield one
            if await self._ended():
                return
            async for happening in live(self._call, watch, lambda: self._seen):
                if happening is None:
                    yield None
                    continue
                for one in await run_in_threadpool(self._of, happening):
                    yield one
                if await self._ended():
                    return

    async def _ended(self) -> bool:
        rests = self._until_rest and self._projection.waits and self._waits_since > self._after
        return self._projection.over or (rests and await run_in_threadpool(self._asks))

    def _asks(self) -> bool:
        return ApprovalStore(self._call.workspace).asks(self._row.run_id)

    def _begin(self) -> tuple[list[Event], list[Told]]:
        """Return what the log holds, less what its first events come to."""
        return self._next(EventLog(self._call.workspace).replay(run_id=self._row.run_id, types=DURABLE))

    def _next(self, logged: list[Event]) -> tuple[list[Event], list[Told]]:
        """Return what the next logged events come to; after the last of them the end of a run that the log doesn't
        tell of."""
        told = [one for event in logged[:BATCH] for one in self._of(event)]
        if len(logged) <= BATCH:
            told += self._rest()
        return logged[BATCH:], told

    def _of(self, event: Event) -> list[Told]:
        """Return what an event comes to, less what the client has; that is read all the same, for it is what the rest
        rests on."""
        logged = event.type in DURABLE and event.seq is not None
        if logged:
            self._seen, self._count = max(self._seen, event.seq or 0), self._count + 1
        waited = self._projection.waits
        groups = self._projection.groups(event)
        if self._projection.waits and not waited:
            self._waits_since = self._count
        number = self._count if logged else None
        fresh = [one for one in groups if not logged or self._count > self._after or one.messages > self._messages]
        return [(number, group) for group in fresh]

    def _rest(self) -> list[Told]:
        """Return the end of a run that the log doesn't tell of. Its events have the number of what the log told
        last."""
        found: list[Told] = []
        for event in self._projection.missing():
            groups = self._projection.groups(event)
            found += [(self._count, group) for group in groups if self._after == 0]
        return found


def text_of(event: BaseEvent) -> str:
    """Return an event as AG-UI has it on the wire."""
    return event.model_dump_json(by_alias=True)
