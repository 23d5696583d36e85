"""Who waits for room in a full queue, in order; what gave up leaves a gap in its place."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING

from hive_agents.events.types import Event, EventType

if TYPE_CHECKING:
    from hive_agents.events.subscription import Subscription

_MOST_UNAWAITED = 1000


class Place:
    """An event in line, or a range of lost ones (`event` is None).

    `admitted` is done once the event is in the queue or lost; it is None where nobody waits. `publisher` is the
    subscription whose handler waits, if a handler does.
    """

    __slots__ = ("admitted", "event", "first", "last", "line", "publisher", "timer")

    def __init__(self, line: WaitingLine, event: Event) -> None:
        assert event.seq is not None
        self.line = line
        self.event: Event | None = event
        self.first = self.last = event.seq
        self.admitted: asyncio.Future[None] | None = None
        self.publisher: Subscription | None = None
        self.timer: asyncio.TimerHandle | None = None

    def settle(self) -> None:
        self.publisher = None
        if self.timer is not None:
            self.timer.cancel()
        if self.admitted is not None and not self.admitted.done():
            self.admitted.set_result(None)

    def give_up(self) -> None:
        """The event is lost for this subscriber, unless it got room in time."""
        self.line.lose(self)


class WaitingLine(deque[Place]):
    """Places in the order of publishing; as long as one is live or a gap is untold, the queue is full."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0

    def hopeful(self) -> int:
        """How many events may still get room."""
        return sum(place.event is not None for place in self)

    def join(self, event: Event, timeout: float, publisher: Subscription | None, wait: bool) -> Place | None:
        """Stand in line for at most `timeout` seconds; the place to wait for, or None where waiting can't help."""
        loop = asyncio.get_running_loop()
        place = Place(self, event)
        self.append(place)
        if wait:
            place.admitted, place.publisher = loop.create_future(), publisher
        elif len(self) > _MOST_UNAWAITED:
            # No publisher is held back by these: without a bound a handler could fill the memory.
            self.lose(place)
            return None
        place.timer = loop.call_later(timeout, self.lose, place)
        return place if wait else None

    def admit(self, queue: deque[Event], max_queue: int) -> None:
        """Move up into the room that there is; a gap takes its place in the order."""
        while self and len(queue) < max_queue:
            place = self.popleft()
            if place.event is not None:
                queue.append(place.event)
            else:
                queue.append(Event(type=EventType.BUS_GAP, payload={"from_seq": place.first, "to_seq": place.last}))
            place.settle()

    def lose(self, place: Place) -> None:
        """Turn the place into a gap, one with the gaps beside it; nothing happens when its event got room."""
        if place.event is None or place not in self:
            return
        place.event = None
        place.settle()
        self.lost += 1
        merged: list[Place] = []
        for each in self:
            if each.event is None and merged and merged[-1].event is None:
                merged[-1].last = each.last
            else:
                merged.append(each)
        self.clear()
        self.extend(merged)

    def dissolve(self) -> None:
        while self:
            self.popleft().settle()

    def publishers(self) -> set[Subscription]:
        """The subscriptions whose handlers wait here."""
        return {place.publisher for place in self if place.publisher is not None}


async def admitted(places: Collection[Place]) -> None:
    """Wait until each event has room or is lost; who is cancelled meanwhile gives the places up."""
    try:
        for place in places:
            if place.admitted is not None:
                await place.admitted
    except asyncio.CancelledError:
        for place in places:
            place.give_up()
        raise
