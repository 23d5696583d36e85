"""Distributes events to all open streams, with one reader of the event log for all of them.

The log is read when this process emits an event, or when the database was written to; idle streams cost no reading.
A server of records doesn't tell who wrote: there it is read again and again, while a stream is open.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.access import proofs
from hive_agents.base import HiveError
from hive_agents.events import DURABLE, Bell, EventLog, EventType
from hive_agents.store import Writes

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.events import Event
    from hive_agents.host import Host

BATCH = 500
POLL_SECONDS = 1.0
"""How often the feed checks for writes by other processes; those of this one wake it at once."""
REMOTE_POLL_SECONDS = 0.25
"""How often the feed reads a log that is on a server."""
COUNTED_SECONDS = 10
"""How often the number of open streams is recorded while it stays the same."""
MOST_QUEUED = 1000
"""Events queued for one client; a slower one is cut off, and reconnects with its Last-Event-ID."""
TRANSIENT = frozenset(EventType) - DURABLE
_log = logging.getLogger("hive_agents.server")


class Watch:
    """The events of one run, or of all, for one client: a user of a tenant."""

    def __init__(self, who: Principal) -> None:
        self.who = (who.tenant, who.user)
        self._queue: deque[Event] = deque()
        self._rung = asyncio.Event()
        self.lost = False
        """Whether the watch ended: the client was too slow, or the server ends."""

    def offer(self, event: Event) -> None:
        if len(self._queue) >= MOST_QUEUED:
            self.end()
        else:
            self._queue.append(event)
            self._rung.set()

    def end(self) -> None:
        self.lost = True
        self._queue.clear()
        self._rung.set()

    async def next(self, seconds: float) -> Event | None:
        """Return the next event; None where none came within `seconds`, or the watch ended."""
        if not self._queue and not self.lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._rung.wait()
        if self._queue:
            event = self._queue.popleft()
            if not self._queue and not self.lost:
                self._rung.clear()
            return event
        return None


class Feed:
    """Delivers logged events to the watches in the order of the log, and transient ones after those logged before."""

    def __init__(self, host: Host) -> None:
        self._host, self._events = host, EventLog(host.workspace)
        self._watches: dict[str | None, set[Watch]] = {}
        self._task: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._closed = False
        self._seq = 0
        self._early: deque[Event] = deque()
        self._id, self._told, self._tell_at = uuid.uuid4().hex, Counter[tuple[str, str]](), 0.0

    @asynccontextmanager
    async def watch(self, who: Principal, run_id: str | None = None) -> AsyncIterator[Watch]:
        """Yield a watch of the events from now on, in one run or in all; older ones are to be read inside of it."""
        watch = Watch(who)
        self._watches.setdefault(run_id, set()).add(watch)
        if self._closed:
            watch.end()
        elif self._task is None:
            self._begun = asyncio.Event()
            self._task = asyncio.create_task(self._read(), name="feed")
        try:
            if not self._closed:
                await self._begun.wait()  # else events logged before the feed begins would be missed
            yield watch
        finally:
            watches = self._watches[run_id]
            watches.discard(watch)
            if not watches:
                del self._watches[run_id]
            if not self._watches and self._task is not None:
                self._task.cancel()
                self._task = None
                if self._told:
                    asyncio.get_running_loop().run_in_executor(None, self._tell, Counter())

    @property
    def watching(self) -> int:
        return sum(map(len, self._watches.values()))

    def close(self) -> None:
        """End every stream, when the server ends."""
        self._closed = True
        self._begun.set()
        for watches in self._watches.values():
            for watch in watches:
                watch.end()

    async def _read(self) -> None:
        self._seq, self._early = await self._end_of_log(), deque()
        self._begun.set()
        self._tell_at = asyncio.get_running_loop().time() + POLL_SECONDS
        bus, records = self._host.bus, self._events.workspace.records
        writes = Writes(records) if isinstance(records, Path) else None
        poll = REMOTE_POLL_SECONDS if writes is None else POLL_SECONDS
        subscription = bus.subscribe(self._pass_on, types=TRANSIENT, overflow="drop_oldest")
        try:
            with Bell(bus, DURABLE) as bell:
                while True:
                    try:
                        events = await asyncio.to_thread(self._events.replay, self._seq, types=DURABLE, limit=BATCH)
                    except HiveError as error:
                        _log.warning("the event log can't be read: %s", error.diagnostics[0].message)
                        events = []
                        await asyncio.sleep(POLL_SECONDS)
                    for event in events:
                        self._deliver(event)
                        self._seq = event.seq or self._seq
                    while self._early and (self._early[0].seq or 0) <= self._seq:
                        self._deliver(self._early.popleft())
                    if len(events) < BATCH:
                        await self._count()
                        while not await bell.wait(poll) and not _written(writes):
                            await self._count()
        finally:
            if writes is not None:
                writes.close()
            bus.unsubscribe(subscription)

    async def _end_of_log(self) -> int:
        while True:
            try:
                return await asyncio.to_thread(self._events.last_seq)
            except HiveError as error:
                _log.warning("the event log can't be read: %s", error.diagnostics[0].message)
                await asyncio.sleep(POLL_SECONDS)

    async def _count(self) -> None:
        """Record how many streams each user has open, for those who end a person; not of streams of a second."""
        now = asyncio.get_running_loop().time()
        if now < self._tell_at:
            return
        open = Counter(watch.who for watches in self._watches.values() for watch in watches)
        self._tell_at = now + (COUNTED_SECONDS if open == self._told and open else POLL_SECONDS)
        if open != self._told or open:
            await asyncio.to_thread(self._tell, open)

    def _tell(self, open: Counter[tuple[str, str]]) -> None:
        self._told = open
        with suppress(HiveError):  # only their number is missing
            proofs.tell_streams(self._host.workspace, self._id, open, 3 * COUNTED_SECONDS)

    def _pass_on(self, event: Event) -> None:
        if (event.seq or 0) <= self._seq and not self._early:
            self._deliver(event)
        else:
            self._early.append(event)

    def _deliver(self, event: Event) -> None:
        for watch in [*self._watches.get(event.run_id, ()), *self._watches.get(None, ())]:
            watch.offer(event)


def _written(writes: Writes | None) -> bool:
    try:
        return writes is None or writes.since_last_look()
    except HiveError:  # reading the log reports why
        return True
