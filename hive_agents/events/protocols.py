"""The interfaces of the bus and its log, for other implementations.

`tests/events/contract.py` holds the tests that every implementation passes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, Protocol

from hive_agents.events.types import Event, EventType

Handler = Callable[[Event], object]
"""A function or a coroutine function; an awaitable result is awaited."""
Publish = Callable[[Event], Awaitable[Any]]
"""`Bus.publish`, for code that only publishes."""
Overflow = Literal["block", "drop_oldest", "disconnect"]


class EventLogProtocol(Protocol):
    """A durable, ordered record of events. Its methods block; they may be called from any thread."""

    def append(self, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        """Record all of them or none; return each with its seq, and whether it is new.

        An event whose id is in the log already is not recorded again: the recorded one is returned.

        Raises: HiveError when the log can't be written; ValueError when a payload isn't plain JSON.
        """
        ...

    def replay(
        self,
        after_seq: int = 0,
        *,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return the events after `after_seq`, oldest first, whichever process appended them; at most `limit`."""
        ...

    def last_seq(self) -> int:
        """Return the highest seq ever given, 0 in a new log. Pruning doesn't lower it."""
        ...

    def prune(self, before: dt.datetime) -> int:
        """Delete the events before that moment; return their number."""
        ...

    def close(self) -> None:
        """Close files and connections; the next use opens them again."""
        ...


class SubscriptionProtocol(Protocol):
    """The state of a subscription; see `Subscription`."""

    @property
    def active(self) -> bool: ...
    @property
    def dropped(self) -> int: ...


class Bus(Protocol):
    """Publish and subscribe; see `EventBus` for each method."""

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
    ) -> SubscriptionProtocol: ...

    def unsubscribe(self, sub: SubscriptionProtocol) -> bool: ...

    async def publish(self, event: Event) -> Event: ...

    async def announce(self, event: Event) -> Event: ...

    async def wait_for(
        self,
        types: Iterable[EventType] | None = None,
        timeout: float | None = None,
        *,
        run_id: str | None = None,
        node_id: str | None = None,
        stream_id: str | None = None,
    ) -> Event | None: ...

    def replay(
        self,
        after_seq: int = 0,
        *,
        types: Iterable[EventType] | None = None,
        run_id: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> list[Event]: ...

    async def drain(self) -> None: ...

    async def close(self) -> None: ...
