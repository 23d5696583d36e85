"""A subscriber: its bounded queue, the line of events that wait for room in it, and the task that calls its handler."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable
from contextvars import ContextVar
from inspect import isawaitable
from types import CoroutineType
from typing import get_args

from hive_agents.events.protocols import Handler, Overflow
from hive_agents.events.types import Event, EventType


class Filter:
    """The filters of a subscription; None matches everything. Raises: ValueError for a type that doesn't exist.

    >>> Filter(types={EventType.RUN_FAILED}, run_id="r1").matches(Event(type=EventType.RUN_FAILED, run_id="r2"))
    False
    """

    __slots__ = ("narrow", "node_id", "run_id", "stream_id", "types")

    def __init__(
        self,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        node_id: str | None = None,
        stream_id: str | None = None,
    ) -> None:
        self.types = None if types is None else frozenset(EventType(type) for type in types)
        self.run_id = run_id
        self.node_id = node_id
        self.stream_id = stream_id
        self.narrow = not (run_id is None and node_id is None and stream_id is None)

    def takes(self, type: EventType) -> bool:
        return self.types is None or type in self.types

    def matches(self, event: Event) -> bool:
        return (
            self.takes(event.type)
            and self.run_id in (None, event.run_id)
            and self.node_id in (None, event.node_id)
            and self.stream_id in (None, event.stream_id)
        )


_HANDLING: ContextVar[tuple[Subscription, int] | None] = ContextVar("hive_events_handling", default=None)
_MOST_UNAWAITED = 1000
_TURN = 100
_log = logging.getLogger("hive_agents.events")


def handling() -> Subscription | None:
    """Return the subscription whose handler runs this code, directly or in a task that it started.

    None once that call of the handler is over: nothing waits for a task that outlives it.
    """
    if (current := _HANDLING.get()) is None:
        return None
    sub, call = current
    return sub if sub.awaiting and sub.delivered == call else None


class QueuePlace:
    """An event in line, or a range of lost ones (`event` is None).

    `admitted` is done once the event is in the queue or lost; it is None if no publisher waits. `publisher` is the
    subscription whose handler waits, if one does.
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
        """Drop the event for this subscriber, unless it is in the queue already."""
        self.line.lose(self)


class WaitingLine(deque[QueuePlace]):
    """Events that wait for room in a full queue, and gaps for lost ones, in the order of publishing.

    While it isn't empty, the queue is full.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0

    def waiting(self) -> int:
        """Return the number of events that may still get room."""
        return sum(place.event is not None for place in self)

    def join(self, event: Event, timeout: float, publisher: Subscription | None, wait: bool) -> QueuePlace | None:
        """Queue up for at most `timeout` seconds; return the place to wait for, or None without `wait`."""
        loop = asyncio.get_running_loop()
        place = QueuePlace(self, event)
        self.append(place)
        if wait:
            place.admitted, place.publisher = loop.create_future(), publisher
        elif len(self) > _MOST_UNAWAITED:
            # Nothing slows the publishers of these: without a bound they could exhaust the memory.
            self.lose(place)
            return None
        place.timer = loop.call_later(timeout, self.lose, place)
        return place if wait else None

    def admit(self, queue: deque[Event], max_queue: int) -> None:
        """Move events and gaps into the queue while it has room."""
        while self and len(queue) < max_queue:
            place = self.popleft()
            if place.event is not None:
                queue.append(place.event)
            else:
                queue.append(Event(type=EventType.BUS_GAP, payload={"from_seq": place.first, "to_seq": place.last}))
            place.settle()

    def lose(self, place: QueuePlace) -> None:
        """Turn the place into a gap, merged with adjacent gaps; nothing happens if its event is in the queue."""
        if place.event is None or place not in self:
            return
        place.event = None
        place.settle()
        self.lost += 1
        merged: list[QueuePlace] = []
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
        """Return the subscriptions whose handlers wait in this line."""
        return {place.publisher for place in self if place.publisher is not None}


class Subscription:
    """The result of `EventBus.subscribe`.

    `active` is False once it was unsubscribed or disconnected, or the bus was closed; `delivered` counts calls of the
    handler, `failed` those that raised.
    """

    def __init__(
        self, handler: Handler, wanted: Filter, max_queue: int, overflow: Overflow, block_timeout: float
    ) -> None:
        if max_queue < 1:
            raise ValueError(f"max_queue is {max_queue}; a queue holds at least one event")
        if overflow not in get_args(Overflow):
            raise ValueError(f'overflow is "{overflow}"; use one of {", ".join(get_args(Overflow))}')
        if block_timeout < 0:
            raise ValueError(f"block_timeout is {block_timeout}; it is a number of seconds")
        self.handler = handler
        self.wanted = wanted
        self.max_queue = max_queue
        self.overflow = overflow
        self.block_timeout = block_timeout
        self.active = True
        self.delivered = self.failed = 0
        self.queue: deque[Event] = deque()
        self.line = WaitingLine()
        self.idle = False
        self.awaiting = False  # whether its handler is suspended in an await
        self.draining = False
        self._discarded = 0
        self._wake: asyncio.Future[None] | None = None
        self._resting: list[asyncio.Future[None]] = []

    @property
    def dropped(self) -> int:
        """The number of events lost for this subscriber."""
        return self._discarded + self.line.lost

    @property
    def queued(self) -> int:
        """The number of events that wait for the handler, in the queue and in line."""
        return len(self.queue) + self.line.waiting()

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self.idle = False
            self._wake.set_result(None)

    def overflowed(self, event: Event, publisher: Subscription | None) -> QueuePlace | None:
        """Apply the policy for a full queue; return the place in line to wait for, if any.

        A handler never waits for itself, not even indirectly through other handlers.
        """
        if self.overflow == "drop_oldest":
            self.queue.popleft()
            self.queue.append(event)
            self._discarded += 1
        elif self.overflow == "disconnect":
            self._discarded += 1
            self.end(lost=True)
            _log.warning("a subscriber was disconnected: its queue of %d events is full", self.max_queue)
        else:
            wait = publisher is None or self not in publisher.held_up()
            return self.line.join(event, self.block_timeout, publisher, wait)
        return None

    def held_up(self) -> set[Subscription]:
        """Return the subscriptions blocked by this one: itself, those that wait in its line, and so on."""
        blocked, unvisited = {self}, [self]
        while unvisited:
            publishers = unvisited.pop().line.publishers() - blocked
            blocked |= publishers
            unvisited += publishers
        return blocked

    def end(self, *, lost: bool = False) -> None:
        """Deliver no further event; the current call of the handler may finish."""
        if not self.active:
            return
        self.active = False
        if lost:
            self._discarded += self.queued
        self.queue.clear()
        self.line.dissolve()
        self.wake()
        self._rested()

    async def run(self) -> None:
        try:
            while self.active:
                if self.queue:
                    await self._turn()
                    if self.queue:
                        await asyncio.sleep(0)
                else:
                    await self._rest()
        finally:
            self.end()

    async def _turn(self) -> None:
        """Deliver up to `_TURN` events, so that a handler that never awaits can't monopolise the loop."""
        queue, line, handler = self.queue, self.line, self.handler
        for _ in range(_TURN):
            if not queue:
                return
            event = queue.popleft()
            if line:
                line.admit(queue, self.max_queue)
            _HANDLING.set((self, self.delivered))
            try:
                answer = handler(event)
                if answer is not None and (type(answer) is CoroutineType or isawaitable(answer)):
                    self.awaiting = True
                    await answer
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._failed(event, "CancelledError")
            except Exception as error:
                self._failed(event, type(error).__name__)
            self.awaiting = False
            self.delivered += 1

    def _failed(self, event: Event, error: str) -> None:
        # Not its message, which may quote the event: logs have other readers.
        self.failed += 1
        _log.warning("a subscriber failed on %s: %s", event.type, error)

    async def _rest(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        self.idle = True
        self._rested()
        await self._wake

    def _rested(self) -> None:
        for future in self._resting:
            if not future.done():
                future.set_result(None)
        self._resting.clear()

    async def rested(self) -> None:
        """Wait until all events are handled, or the subscription has ended."""
        if self.active and not self.idle:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._resting.append(future)
            await future


async def admitted(places: Collection[QueuePlace]) -> None:
    """Wait until each event is in its queue or lost; on cancellation drop those that still wait."""
    try:
        for place in places:
            if place.admitted is not None:
                await place.admitted
    except asyncio.CancelledError:
        for place in places:
            place.give_up()
        raise
