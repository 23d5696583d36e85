"""Wakes a loop that polls a store, or follows the log: at once for events of this process, else after a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from hive_agents.events.types import DURABLE, Event, EventType

if TYPE_CHECKING:
    from hive_agents.events.log import EventLog
    from hive_agents.events.protocols import Bus, SubscriptionProtocol

BATCH = 500


class Bell:
    """Rings for events of `types` on `bus` while it is entered, and whenever `ring` is called."""

    def __init__(self, bus: Bus | None, types: Iterable[EventType] | None = None) -> None:
        self._bus, self._types = bus, types
        self._rung = asyncio.Event()
        self._sub: SubscriptionProtocol | None = None

    def __enter__(self) -> Self:
        if self._bus is not None:
            self._sub = self._bus.subscribe(
                lambda _: self.ring(), types=self._types, overflow="drop_oldest", max_queue=1
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._bus is not None and self._sub is not None:
            self._bus.unsubscribe(self._sub)

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for a ring since the last call; return whether it rang."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        rang = self._rung.is_set()
        self._rung.clear()
        return rang


async def tail(
    log: EventLog, after_seq: int, bus: Bus, *, types: Iterable[EventType] = DURABLE, poll: float = 1.0
) -> AsyncIterator[Event]:
    """Yield each logged event after `after_seq`, in order: at once if it is published on `bus`, else within `poll`
    seconds."""
    wanted = list(types)
    with Bell(bus, wanted) as bell:
        while True:
            events = await asyncio.to_thread(log.replay, after_seq, types=wanted, limit=BATCH)
            for event in events:
                yield event
                after_seq = event.seq or after_seq
            if len(events) < BATCH:
                await bell.wait(poll)
