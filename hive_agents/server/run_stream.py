"""A run as a stream: its logged events after the client's position, then those that follow, until it ends."""

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
"""Logged events that are projected in one call to the thread pool."""
NumberedGroup: TypeAlias = "tuple[int | None, EventGroup]"


class RunStream:
    """The groups of a run's events after a position: (number of logged events, messages of its agent).

    Numbers count the run's own events: those of the log would reveal the activity of other tenants.

    With `until_rest` it also ends while the run waits for a person's decision. `resumed` leaves out events before the
    run's next start, which belong to the stream before.
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
        self._seq = self._count = self._waits_since = 0
        self._until_rest = until_rest
        self._awaits_start = resumed

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the frames of each group, its id on the last one: a client that reconnects within a group gets the
        whole group."""
        async for numbered in self.groups():
            if numbered is None:
                yield BEAT
                continue
            number, group = numbered
            if self._awaits_start and not any(event.type == EventType.RUN_STARTED for event in group.events):
                continue
            self._awaits_start = False
            for place, event in enumerate(group.events, start=1):
                last = place == len(group.events) and number is not None
                yield frame(text_of(event), f"{number}-{group.messages}" if last else None)

    async def groups(self) -> AsyncIterator[NumberedGroup | None]:
        """Yield (number of the logged event, or None for a transient one; its group), and None for each heartbeat."""
        async with self._feed.watch(self._call.principal, self._row.run_id) as watch:
            with self._call.host.dispatcher.precedence.first():
                remaining, groups = await run_in_threadpool(self._begin)
            for group in groups:
                yield group
            while remaining:
                remaining, groups = await run_in_threadpool(self._next, remaining)
                for group in groups:
                    yield group
            if await self._ended():
                return
            async for event in live(self._call, watch, lambda: self._seq):
                if event is None:
                    yield None
                    continue
                for group in await run_in_threadpool(self._projected, event):
                    yield group
                if await self._ended():
                    return

    async def _ended(self) -> bool:
        waits = self._until_rest and self._projection.waits and self._waits_since > self._after
        return self._projection.over or (waits and await run_in_threadpool(self._asks))

    def _asks(self) -> bool:
        return ApprovalStore(self._call.workspace).asks(self._row.run_id)

    def _begin(self) -> tuple[list[Event], list[NumberedGroup]]:
        """Read the run's log. Return as `_next`."""
        return self._next(EventLog(self._call.workspace).replay(run_id=self._row.run_id, types=DURABLE))

    def _next(self, logged: list[Event]) -> tuple[list[Event], list[NumberedGroup]]:
        """Return the logged events after the next batch, and the groups of the batch; of the last one also those of
        later messages, and of an end that the log lacks."""
        groups = [group for event in logged[:BATCH] for group in self._projected(event)]
        if len(logged) <= BATCH:
            groups += [*self._messages_told(), *self._missing_end()]
        return logged[BATCH:], groups

    def _projected(self, event: Event) -> list[NumberedGroup]:
        """Return an event's groups without those that the client has; the projection needs every event."""
        logged = event.type in DURABLE and event.seq is not None
        known = logged and self._count < self._after
        groups = self._messages_told(known)
        if logged:
            self._seq, self._count = max(self._seq, event.seq or 0), self._count + 1
        waited = self._projection.waits
        group = self._projection.group(event)
        if self._projection.waits and not waited:
            self._waits_since = self._count
        if group is not None and not known:
            groups.append((self._count if logged else None, group))
        return groups

    def _messages_told(self, known: bool = False) -> list[NumberedGroup]:
        """Return the groups of new messages, numbered as the event before them. Before an event that is `known` to the
        client there are no messages but those that the client has: others were written later."""
        groups = self._projection.messages(self._messages if known else None)
        return [(self._count, group) for group in groups if group.messages > self._messages]

    def _missing_end(self) -> list[NumberedGroup]:
        """Return the groups of an end that the log lacks, under the number of its last event."""
        groups = [self._projection.group(event) for event in self._projection.missing()]
        return [(self._count, group) for group in groups if group is not None and self._after < max(1, self._count)]


def text_of(event: BaseEvent) -> str:
    """Return an event in AG-UI's wire format."""
    return event.model_dump_json(by_alias=True)
