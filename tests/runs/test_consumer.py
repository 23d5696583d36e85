"""A reader of the event log that remembers where it is, over crashes and processes."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hive_agents import Workspace
from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents.events.consumer import Consumer
from tests.events.recording import event


def numbers(events: list[Event]) -> list[int]:
    return [one.payload["n"] for one in events]


async def test_it_hands_over_what_it_wants_in_order(place: Workspace) -> None:
    log, seen = EventLog(place), list[Event]()
    log.append([event(n, EventType.RUN_FAILED if n % 2 else EventType.NODE_COMPLETED) for n in range(500)])
    consumer = Consumer(log, "odd", seen.append, types={EventType.RUN_FAILED}, start="begin")
    assert await consumer.catch_up() == 250
    assert numbers(seen) == list(range(1, 500, 2))
    assert await consumer.catch_up() == 0


async def test_a_new_one_begins_at_the_end_and_knows_it_later(place: Workspace) -> None:
    log, seen = EventLog(place), list[Event]()
    log.append([event(1)])
    assert await Consumer(log, "mine", seen.append).catch_up() == 0
    log.append([event(2)])
    assert await Consumer(log, "mine", seen.append).catch_up() == 1
    assert numbers(seen) == [2]


async def test_names_have_places_of_their_own(place: Workspace) -> None:
    log, a, b = EventLog(place), list[Event](), list[Event]()
    log.append([event(1)])
    await Consumer(log, "a", a.append, start="begin").catch_up()
    await Consumer(log, "b", b.append, start="begin").catch_up()
    assert (numbers(a), numbers(b)) == ([1], [1])


async def test_one_that_dies_comes_by_the_event_in_hand_again(place: Workspace) -> None:
    log, seen = EventLog(place), list[int]()
    log.append([event(n) for n in range(4)])

    class Killed(BaseException):
        pass

    async def dies(one: Event) -> None:
        seen.append(one.payload["n"])
        if seen == [0, 1]:
            raise Killed

    with pytest.raises(Killed):
        await Consumer(log, "mine", dies, start="begin").catch_up()
    await Consumer(log, "mine", dies, start="begin").catch_up()
    assert seen == [0, 1, 1, 2, 3]


async def test_an_event_that_always_fails_is_skipped_after_five_tries(
    place: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    log, seen = EventLog(place), list[int]()
    log.append([event(n) for n in range(3)])

    def fails(one: Event) -> None:
        seen.append(one.payload["n"])
        if one.payload["n"] == 1:
            raise ValueError("a person's words")

    with caplog.at_level(logging.WARNING):
        assert await Consumer(log, "mine", fails, start="begin", pause=0.0).catch_up() == 3
    assert seen == [0, *[1] * 5, 2]
    assert "skips event 2" in caplog.text
    assert "words" not in caplog.text
    assert await Consumer(log, "mine", fails).catch_up() == 0


async def test_a_fault_that_passes_costs_nothing(place: Workspace) -> None:
    log, seen, left = EventLog(place), list[int](), [2]
    log.append([event(n) for n in range(3)])

    async def busy(one: Event) -> None:
        if one.payload["n"] == 1 and left[0]:
            left[0] -= 1
            raise OSError
        seen.append(one.payload["n"])

    await Consumer(log, "mine", busy, start="begin", pause=0.0).catch_up()
    assert seen == [0, 1, 2]


async def test_it_hears_of_its_own_process_at_once_and_of_others_soon(place: Workspace) -> None:
    """The other process is another log of the same file."""
    seen = asyncio.Queue[int]()
    async with EventBus(EventLog(place)) as bus:
        consumer = Consumer(EventLog(place), "mine", lambda one: seen.put_nowait(one.payload["n"]), start="begin")
        reading = asyncio.create_task(consumer.run(bus, poll=0.05))
        async with asyncio.timeout(20):
            for n in range(0, 10, 2):
                await bus.publish(event(n))
                EventLog(place).append([event(n + 1)])
            assert [await seen.get() for _ in range(10)] == list(range(10))
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
