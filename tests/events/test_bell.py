"""A loop that waits on a bell misses nothing that happens while it is at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hive_agents.events import Bell, Event, EventBus, EventType

LONG = 3600.0


@pytest.fixture
async def bus() -> AsyncIterator[EventBus]:
    async with EventBus() as opened:
        yield opened


def event(kind: EventType) -> Event:
    return Event(kind, "r1", payload={"agent": "digest"})


async def test_a_bell_rings_for_events_of_its_types(bus: EventBus) -> None:
    with Bell(bus, {EventType.RUN_FAILED}) as bell:
        waiting = asyncio.ensure_future(bell.wait(LONG))
        await bus.publish(event(EventType.RUN_STARTED))
        await bus.drain()
        assert not waiting.done()
        await bus.publish(event(EventType.RUN_FAILED))
        await waiting


async def test_what_rings_before_it_is_waited_for_is_heard_once(bus: EventBus) -> None:
    with Bell(bus) as bell:
        bell.ring()
        bell.ring()
        await bell.wait(LONG)
        waiting = asyncio.ensure_future(bell.wait(LONG))
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()


async def test_without_a_sound_it_returns_after_a_while() -> None:
    with Bell(None) as bell:
        await bell.wait(0.0)


async def test_a_bell_that_was_left_is_no_subscriber(bus: EventBus) -> None:
    with Bell(bus) as bell:
        pass
    await bus.publish(event(EventType.RUN_FAILED))
    await bus.drain()
    waiting = asyncio.ensure_future(bell.wait(LONG))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
