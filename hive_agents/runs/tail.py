"""Follow the event log, whichever process writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from hive_agents.events import DURABLE, Bell, EventLog

if TYPE_CHECKING:
    from hive_agents.events import Bus, Event, EventType

BATCH = 500


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
