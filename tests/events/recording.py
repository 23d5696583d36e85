"""Subscribers that remember, and can be held back."""

from __future__ import annotations

import asyncio
from typing import Any

from hive_agents.events import Event, EventType


def event(n: int = 0, type: EventType = EventType.NODE_COMPLETED, **fields: Any) -> Event:
    return Event(type=type, payload={"n": n}, **fields)


class Recorder:
    """Notes the payload's `n` of each event, and gaps as [from_seq, to_seq]; waits while the gate is shut."""

    def __init__(self, open: bool = True) -> None:
        self.events: list[Event] = []
        self.gate = asyncio.Event()
        self.reached = asyncio.Event()
        if open:
            self.gate.set()

    async def __call__(self, event: Event) -> None:
        self.reached.set()
        await self.gate.wait()
        self.events.append(event)

    @property
    def seen(self) -> list[Any]:
        return [
            [event.payload["from_seq"], event.payload["to_seq"]]
            if event.type is EventType.BUS_GAP
            else event.payload["n"]
            for event in self.events
        ]
