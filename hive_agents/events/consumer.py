"""A reader of the event log that stores its position, so that it misses no event after a crash."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from hive_agents.base import Busy
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
    """Calls `handle` with each event of a log in order, at least once, whichever process wrote it.

    Its position is stored in the log's database under `name`; after a crash the last event may be handled again. A new
    consumer begins at the log's `end` or `begin`. If the handler raises, it is called again after `pause` seconds, then
    after twice as many each time; after five tries the event is skipped with an error in the log. While the records or
    another resource can't be had (HIVE-402), it is called again and again, and no event is skipped.
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
        """Read until cancelled: at once after an event on `bus`, else every `poll` seconds."""
        with Bell(bus, self._types) as bell:
            while True:
                await self.catch_up()
                await bell.wait(poll)

    async def catch_up(self) -> int:
        """Handle the events that are in the log; return their number."""
        handled = 0
        if self._seq is None:
            self._seq = await asyncio.to_thread(self._begin)
        while True:
            # After a restart events of other types are skipped again, which costs one read.
            events = await asyncio.to_thread(self._log.replay, self._seq, types=self._types, limit=BATCH)
            for event in events:
                assert event.seq is not None
                await self._handled(event)
                self._seq = event.seq
                await asyncio.to_thread(self._remember, event.seq)
            handled += len(events)
            if len(events) < BATCH:
                return handled

    async def _handled(self, event: Event) -> None:
        attempt = 0
        while attempt < TRIES:
            try:
                result = self._handle(event)
                if inspect.isawaitable(result):
                    await result
                return
            except Busy:
                await asyncio.sleep(self._pause * 2**TRIES)
            except Exception as error:
                # Messages may quote what people wrote.
                _log.warning("%s: %s at event %s (%s)", self.name, type(error).__name__, event.seq, event.type)
                await asyncio.sleep(self._pause * 2**attempt)
                attempt += 1
        _log.error("%s skips event %s (%s) after %d tries", self.name, event.seq, event.type, TRIES)

    def _begin(self) -> int:
        with connected(self._log.workspace.records) as connection:
            row = connection.execute("SELECT seq FROM consumers WHERE name = ?", (self.name,)).fetchone()
        if row is not None:
            return int(row[0])
        seq = self._log.last_seq() if self._start == "end" else 0
        self._remember(seq)
        return seq

    def _remember(self, seq: int) -> None:
        upsert = "INSERT INTO consumers (name, seq) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET seq = excluded.seq"
        with connected(self._log.workspace.records) as connection:
            connection.execute(upsert, (self.name, seq))
