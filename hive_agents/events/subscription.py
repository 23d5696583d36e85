"""A subscriber: its bounded queue, and the task that hands one event after the other to its handler."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextvars import ContextVar
from inspect import isawaitable
from types import CoroutineType
from typing import get_args

from hive_agents.events.filters import Filter
from hive_agents.events.protocols import Handler, Overflow
from hive_agents.events.types import Event
from hive_agents.events.waiting_line import Place, WaitingLine

_HANDLING: ContextVar[tuple[Subscription, int] | None] = ContextVar("hive_events_handling", default=None)
_TURN = 100
_log = logging.getLogger("hive_agents.events")


def handling() -> Subscription | None:
    """The subscription whose handler runs this code, itself or in a task that it started.

    None once that call of the handler is over: a task that outlives it holds nobody up.
    """
    if (found := _HANDLING.get()) is None:
        return None
    sub, call = found
    return sub if sub.awaiting and sub.delivered == call else None


class Subscription:
    """What `EventBus.subscribe` returns.

    `active` is False once it was unsubscribed or disconnected, or the bus was closed; `delivered` counts what the
    handler was called with, `failed` how often it raised.
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
        self.awaiting = False  # its handler, as opposed to a turn of the event loop
        self.draining = False
        self._discarded = 0
        self._wake: asyncio.Future[None] | None = None
        self._resting: list[asyncio.Future[None]] = []

    @property
    def dropped(self) -> int:
        """How many events were lost for this subscriber."""
        return self._discarded + self.line.lost

    @property
    def queued(self) -> int:
        """How many events wait for the handler, those in line for a full queue included."""
        return len(self.queue) + self.line.hopeful()

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self.idle = False
            self._wake.set_result(None)

    def overflowed(self, event: Event, publisher: Subscription | None) -> Place | None:
        """Act as the policy says, now that the queue is full; the place in line to wait for, if any.

        A handler never waits for itself, be it through other handlers: its event stands in line alone.
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
        """Those whose handlers can't go on before this one's has: itself, and who waits in its line, and so on."""
        found, unread = {self}, [self]
        while unread:
            further = unread.pop().line.publishers() - found
            found |= further
            unread += further
        return found

    def end(self, *, lost: bool = False) -> None:
        """No further event reaches the handler; one that it holds it may finish."""
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
        """Hand over a number of events, so that a handler that never waits can't keep the loop to itself."""
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
        # Its message may quote what the event carried; a log is read by others than the event.
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
        """Wait until nothing is queued or in hand, or the subscription has ended."""
        if self.active and not self.idle:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._resting.append(future)
            await future
