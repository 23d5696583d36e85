"""A reader of the event log that remembers where it is: whatever dies, it misses nothing."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from hive_agents.events.bell import Bell
from hive_agents.events.types import Event, EventType
from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.events.log import EventLog
    from hive_agents.events.protocols import Bus

BATCH = 200
TRIES = 5
_log = logging.getLogger("hive_agents.events")


class Consumer:
    """Hands the events of a log to `handle` in order, at least once each, whichever process they happened in.

    How far it is stands in the log's database under `name`: a consumer that was killed goes on there, and comes by
    the event that it had in hand again. A new one begins at the log's `end`, or its `begin`. An event whose handler
    raises is tried again, with pauses of `pause` seconds and more; after five tries it is skipped, and logged.
    """

    def __init__(
        self,
        log: EventLog,
        name: str,
        handle: Callable[[Event], object],
        *,
        types: Iterable[EventType] | None = None,
        start: Literal["begin", "end"] = "end",
        pause: float = 0.2,
    ) -> None:
        self.name = name
        self._log, self._handle, self._start, self._pause = log, handle, start, pause
        self._types = frozenset(EventType if types is None else map(EventType, types))
        self._seq: int | None = None

    async def run(self, bus: Bus | None = None, *, poll: float = 1.0) -> None:
        """Read until cancelled: at once when the bus tells of an event, else every `poll` seconds."""
        with Bell(bus, self._types) as bell:
            while True:
                await self.catch_up()
                await bell.wait(poll)

    async def catch_up(self) -> int:
        """Handle what the log holds by now; how many events that were."""
        handled = 0
        if self._seq is None:
            self._seq = await asyncio.to_thread(self._begin)
        while True:
            # A process that starts anew finds events of other types behind it again: that costs a read, and no more.
            found = await asyncio.to_thread(self._log.replay, self._seq, types=self._types, limit=BATCH)
            for event in found:
                assert event.seq is not None
                await self._handled(event)
                self._seq = event.seq
                await asyncio.to_thread(self._remember, event.seq)
            handled += len(found)
            if len(found) < BATCH:
                return handled

    async def _handled(self, event: Event) -> None:
        for attempt in range(TRIES):
            try:
                result = self._handle(event)
                if inspect.isawaitable(result):
                    await result
                return
            except Exception as error:
                # Messages may hold what people wrote: the kind of fault says enough here.
                _log.warning("%s: %s at event %s (%s)", self.name, type(error).__name__, event.seq, event.type)
                await asyncio.sleep(self._pause * 2**attempt)
        _log.error("%s skips event %s (%s) after %d tries", self.name, event.seq, event.type, TRIES)

    def _begin(self) -> int:
        with connected(self._log.workspace.records) as connection:
            found = connection.execute("SELECT seq FROM consumers WHERE name = ?", (self.name,)).fetchone()
        if found is not None:
            return int(found[0])
        seq = self._log.last_seq() if self._start == "end" else 0
        self._remember(seq)
        return seq

    def _remember(self, seq: int) -> None:
        upsert = "INSERT INTO consumers (name, seq) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq"
        with connected(self._log.workspace.records) as connection:
            connection.execute(upsert, (self.name, seq))
