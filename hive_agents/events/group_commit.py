"""Group commit: one transaction, in a thread, for all events that are pending at that moment."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from hive_agents.events.protocols import EventLogProtocol
from hive_agents.events.subscription import QueuePlace, Subscription
from hive_agents.events.types import Event

_MOST = 500

Deliver = Callable[[Event, Subscription | None], list[QueuePlace]]
Published = tuple[Event, list[QueuePlace]]


@dataclass(slots=True, eq=False)
class _Pending:
    event: Event
    publisher: Subscription | None
    published: asyncio.Future[Published]
    recorded: bool


class GroupCommit:
    """Appends events to the log, then delivers them, in the order of their seq.

    `breathe` returns whether to yield to the event loop after an event.
    """

    def __init__(self, log: EventLogProtocol, deliver: Deliver, breathe: Callable[[], bool]) -> None:
        self._log = log
        self._deliver = deliver
        self._breathe = breathe
        self._pending: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None
        self._used = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hive-events")

    async def publish(self, event: Event, publisher: Subscription | None, *, recorded: bool = False) -> Published:
        """Log and deliver the event; return it, and the places in line that its publisher should wait for.

        An event that is in the log already is delivered only with `recorded`, if its publisher logged it. Cancellation
        has no effect once the commit has begun.
        """
        pending = _Pending(event, publisher, asyncio.get_running_loop().create_future(), recorded)
        self._pending.append(pending)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        try:
            return await pending.published
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._pending.remove(pending)
            raise

    async def settled(self) -> None:
        """Wait until nothing is pending."""
        while self._task is not None:
            await asyncio.wait([self._task])

    @property
    def busy(self) -> bool:
        return self._task is not None

    async def close(self) -> None:
        if self._used:  # otherwise no thread has an open connection
            await asyncio.get_running_loop().run_in_executor(self._thread, self._log.close)
        self._thread.shutdown()

    async def _work(self) -> None:
        batch: list[_Pending] = []
        try:
            while self._pending:
                batch = [self._pending.popleft() for _ in range(min(_MOST, len(self._pending)))]
                outcomes = await self._append([pending.event for pending in batch])
                for pending, outcome in zip(batch, outcomes, strict=True):
                    self._finish(pending, outcome)
                    if self._breathe():
                        await asyncio.sleep(0)
        finally:
            self._task = None
            for pending in (*batch, *self._pending):
                pending.published.cancel()
            self._pending.clear()

    def _finish(self, pending: _Pending, outcome: tuple[Event, bool] | Exception) -> None:
        if isinstance(outcome, Exception):
            if not pending.published.done():
                pending.published.set_exception(outcome)
            return
        event, new = outcome
        places = self._deliver(event, pending.publisher) if new or pending.recorded else []
        if not pending.published.done():
            pending.published.set_result((event, places))
        else:
            for place in places:
                place.give_up()

    async def _append(self, events: list[Event]) -> list[tuple[Event, bool] | Exception]:
        loop = asyncio.get_running_loop()
        self._used = True
        try:
            return [*await loop.run_in_executor(self._thread, self._log.append, events)]
        except ValueError as error:
            if len(events) == 1:
                return [error]
            # An invalid payload must not affect the other events.
            return [outcome for event in events for outcome in await self._append([event])]
        except Exception as error:
            return [error] * len(events)
