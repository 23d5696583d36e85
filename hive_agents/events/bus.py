"""The event bus of one process, on asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from hive_agents.events.group_commit import GroupCommit
from hive_agents.events.protocols import EventLogProtocol, Handler, Overflow, SubscriptionProtocol
from hive_agents.events.subscription import Filter, QueuePlace, Subscription, admitted, handling
from hive_agents.events.types import DURABLE, Event, EventType
from hive_agents.store import briefly

_TURN = 64
_log = logging.getLogger("hive_agents.events")


class EventBus:
    """Typed events from publishers to subscribers, in the order of publishing.

    With a log, durable events are appended to it before they are delivered; their `seq` is their number in the log, and
    other events have the last number before them. Without one, `seq` counts all events from 1.

    One event loop owns the bus; other threads use `publish_threadsafe`. A handler must not block the
    loop: long computations belong in a thread.

    `grace` is how many seconds a handler may take for one event while the bus is being closed.

    >>> async def greet():
    ...     async with EventBus() as bus:
    ...         bus.subscribe(lambda event: print(event.seq, event.type, event.run_id))
    ...         await bus.publish(Event(type=EventType.RUN_STARTED, run_id="r1"))
    >>> _ = asyncio.run(greet())
    1 run.started r1
    """

    def __init__(self, log: EventLogProtocol | None = None, *, grace: float = 10.0) -> None:
        self._log = log
        self._commit = None if log is None else GroupCommit(log, self._deliver, self._breathe)
        self._grace = grace
        self._seq = 0
        self._subs: dict[Subscription, asyncio.Task[None]] = {}
        self._routes: dict[EventType, list[Subscription]] = {}
        self._waiters: dict[asyncio.Future[Event | None], Filter] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crowded = False
        self._since_pause = 0
        self._state = "open"

    async def __aenter__(self) -> Self:
        """Raises: HIVE-402, HIVE-403, HIVE-407 when the log can't be read."""
        self._require_open()
        self._loop = asyncio.get_running_loop()
        if self._log is not None:
            self._seq = await briefly(self._log.last_seq)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def subscribe(
        self,
        handler: Handler,
        *,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        node_id: str | None = None,
        stream_id: str | None = None,
        max_queue: int = 1000,
        overflow: Overflow = "block",
        block_timeout: float = 1.0,
    ) -> Subscription:
        """Call `handler`, a function or a coroutine function, with each event that passes the filters.

        `overflow` is the policy when `max_queue` events wait for the handler. `block`: the publisher waits at most
        `block_timeout` seconds for each event; then this subscriber loses the event and gets `bus.gap` {from_seq,
        to_seq} in its place, whatever its `types`. `drop_oldest`: the oldest event in the queue is lost. `disconnect`:
        the subscription ends, and its queue counts as dropped.

        Raises: ValueError for an unknown type or policy; RuntimeError when the bus is closed.
        """
        self._require_open()
        self._loop = asyncio.get_running_loop()
        wanted = Filter(types, run_id, node_id, stream_id)
        sub = Subscription(handler, wanted, max_queue, overflow, block_timeout)
        task = self._loop.create_task(sub.run())
        task.add_done_callback(self._forget)
        self._subs[sub] = task
        self._routes = {}
        return sub

    def unsubscribe(self, sub: SubscriptionProtocol) -> bool:
        """End a subscription without delivering its queue; return False if it is unknown or has ended."""
        if not isinstance(sub, Subscription) or sub not in self._subs or not sub.active:
            return False
        sub.end()
        self._routes = {}
        return True

    async def announce(self, event: Event) -> Event:
        """Deliver an event that the publisher has logged already (`EventLog.record`).

        Its `seq` is that of its record, which may be lower than that of an event delivered before.
        """
        return await self._publish(event, recorded=True)

    async def publish(self, event: Event) -> Event:
        """Put the event into the queue of each subscriber; return it with its `seq`.

        Subscribers with room get it before this waits for full ones. An event whose id is in the log already is not
        delivered again. If the publisher is cancelled, only full subscribers lose the event.

        Raises: HIVE-402, HIVE-403, HIVE-407 when the log can't be written, and nothing is delivered; ValueError when
            the payload of a logged event isn't plain JSON; RuntimeError when the bus is closed.
        """
        return await self._publish(event)

    async def _publish(self, event: Event, *, recorded: bool = False) -> Event:
        publisher = handling()
        if self._state != "open":
            self._require_open(publisher)
        # A recorded event with its number is delivered at once, unless others are pending.
        at_once = recorded and event.seq is not None and not (self._commit is not None and self._commit.busy)
        if at_once:
            places = self._deliver(event, publisher)
            if self._breathe():
                await asyncio.sleep(0)
        elif self._commit is not None and event.type in DURABLE:
            event, places = await self._commit.publish(event, publisher, recorded=recorded)
        else:
            event = event.numbered(self._seq if self._commit is not None else self._seq + 1)
            places = self._deliver(event, publisher)
            if self._breathe():
                await asyncio.sleep(0)
        if places:
            await admitted(places)
        return event

    def publish_threadsafe(self, event: Event) -> concurrent.futures.Future[Event]:
        """`publish` from another thread, which may wait for `.result()`; the bus's own thread would deadlock.

        Raises: RuntimeError when the bus is closed or was not entered yet.
        """
        self._require_open()
        if self._loop is None:
            raise RuntimeError("the event bus has no event loop yet: enter it with `async with`")
        return asyncio.run_coroutine_threadsafe(self.publish(event), self._loop)

    async def wait_for(
        self,
        types: Iterable[EventType] | None = None,
        timeout: float | None = None,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        stream_id: str | None = None,
    ) -> Event | None:
        """Return the next event that passes the filters; None when none came within `timeout` seconds or the bus
        closed."""
        self._require_open()
        waiter: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = Filter(types, run_id, node_id, stream_id)
        try:
            await asyncio.wait([waiter], timeout=timeout)
            return waiter.result() if waiter.done() else None
        finally:
            self._waiters.pop(waiter, None)

    def replay(
        self,
        after_seq: int = 0,
        *,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return the logged events after `after_seq`, oldest first; none without a log. It reads the disk.

        To miss none, subscribe first, then replay, and skip duplicates by `id`.
        """
        if self._log is None:
            return []
        return self._log.replay(after_seq, types=types, run_id=run_id, tenant=tenant, limit=limit)

    async def drain(self) -> None:
        """Wait until all events, those that handlers publish meanwhile included, are delivered and handled.

        It doesn't wait for subscriptions that have ended, nor, called by a handler, for that handler.
        """
        await self._settle(None)

    async def close(self) -> None:
        """Refuse new events, deliver pending ones, then stop. A handler that hangs is cancelled after `grace`."""
        if self._state != "open":
            return
        self._state = "closing"
        try:
            await self._settle(self._grace)
        finally:
            self._state = "closed"
            await self._stop()

    def _require_open(self, publisher: Subscription | None = None) -> None:
        # Events that handlers publish while the bus is being closed are still accepted.
        if self._state == "closed" or (self._state == "closing" and publisher not in self._subs):
            raise RuntimeError("the event bus is closed: publish and subscribe before `close`, or open another")

    def _deliver(self, event: Event, publisher: Subscription | None) -> list[QueuePlace]:
        """Add the event to the queues with room, then apply the policies of full ones.

        Return the places in line that the publisher has to wait for. Nothing is awaited here, so that all subscribers
        get events in the same order.
        """
        assert event.seq is not None
        route = self._routes[event.type] if event.type in self._routes else self._route(event.type)
        self._seq = max(self._seq, event.seq)
        for waiter, wanted in self._waiters.items():
            if not waiter.done() and wanted.matches(event):
                waiter.set_result(event)
        full = []
        for sub in route:
            if sub.wanted.narrow and not sub.wanted.matches(event):
                continue
            room = sub.max_queue - len(sub.queue)
            if room <= 0:
                full.append(sub)
                continue
            sub.queue.append(event)
            if sub.idle:
                sub.wake()
            if room == 1 and not sub.awaiting:
                self._crowded = True
        if not full:
            return []
        places = [place for sub in full if (place := sub.overflowed(event, publisher)) is not None]
        if not all(sub.active for sub in full):
            self._routes = {}
        return places

    def _route(self, type: EventType) -> list[Subscription]:
        """Return the subscriptions to this type. Raises: ValueError for a type that doesn't exist."""
        type = EventType(type)
        route = self._routes[type] = [sub for sub in self._subs if sub.active and sub.wanted.takes(type)]
        return route

    def _breathe(self) -> bool:
        """Return whether to yield to the event loop, so that a burst fills no queue whose handler is fast enough."""
        self._since_pause += 1
        if self._crowded or self._since_pause >= _TURN:
            self._crowded, self._since_pause = False, 0
            return True
        return False

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._subs = {sub: other for sub, other in self._subs.items() if other is not task}
        self._routes = {}

    async def _settle(self, grace: float | None) -> None:
        caller = handling()
        if caller is not None:
            caller.draining = True
        try:
            while True:
                if self._commit is not None and self._commit.busy:
                    await self._commit.settled()
                # Handlers that drain would wait for each other forever.
                busy = {s: s.delivered for s in self._subs if s.active and not s.idle and not s.draining}
                if not busy:
                    return
                try:
                    async with asyncio.timeout(grace):
                        await next(iter(busy)).rested()
                except TimeoutError:
                    self._abandon([sub for sub, delivered in busy.items() if sub.delivered == delivered])
        finally:
            if caller is not None:
                caller.draining = False

    def _abandon(self, subs: list[Subscription]) -> None:
        for sub in subs:
            if sub.active and not sub.idle:
                _log.warning("a subscriber hangs: its handler is cancelled and %d events are dropped", sub.queued)
                sub.end(lost=True)
                self._subs[sub].cancel()

    async def _stop(self) -> None:
        caller = handling()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        tasks = [task for sub, task in self._subs.items() if sub is not caller]
        for sub in self._subs:
            sub.end(lost=True)
        if tasks:
            _, hanging = await asyncio.wait(tasks, timeout=self._grace)
            for task in hanging:
                task.cancel()
            if hanging:
                await asyncio.wait(hanging, timeout=self._grace)
        if self._commit is not None:
            await self._commit.close()
