from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hive_agents.events import Event, EventBus
from hive_agents.events.protocols import Overflow
from tests.events.recording import Recorder, event


async def held_with(bus: EventBus, recorder: Recorder, queued: int) -> None:
    """Publish one event that the handler holds, and `queued` that wait."""
    await bus.publish(event(0))
    await recorder.reached.wait()
    for n in range(1, queued + 1):
        await bus.publish(event(n))


@pytest.mark.parametrize("overflow", ["drop_oldest", "disconnect", "block"])
@pytest.mark.parametrize("max_queue", [1, 3, 1000])
async def test_burst_is_no_slowness(overflow: Overflow, max_queue: int) -> None:
    """A subscriber that only lacked a turn of the loop loses nothing, whatever its policy."""
    async with EventBus() as bus:
        recorder = Recorder()
        sub = bus.subscribe(lambda each: recorder.events.append(each), max_queue=max_queue, overflow=overflow)
        for n in range(3000):
            await bus.publish(event(n))
        await bus.drain()
    assert (sub.dropped, recorder.seen) == (0, list(range(3000)))


@pytest.mark.parametrize("overflow", ["drop_oldest", "disconnect"])
async def test_full_queues_that_drop_never_make_a_publisher_wait(overflow: Overflow) -> None:
    """10,000 events past a subscriber that hangs: all are published before anybody lets go."""
    async with EventBus() as bus:
        held, free = Recorder(open=False), Recorder()
        sub = bus.subscribe(held, max_queue=10, overflow=overflow)
        bus.subscribe(free)
        for n in range(10_000):
            await bus.publish(event(n))
        held.gate.set()
        await bus.drain()
    assert free.seen == list(range(10_000))
    assert sub.delivered + sub.dropped == (10_000 if overflow == "drop_oldest" else 12)
    assert held.seen == sorted(held.seen)


async def test_blocked_publishers_keep_their_order() -> None:
    """Who comes while others wait stands behind them, even when there is room for a moment."""
    async with EventBus() as bus:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, max_queue=2, block_timeout=60)
        await held_with(bus, recorder, 2)
        waiting = [asyncio.create_task(bus.publish(event(n))) for n in range(3, 8)]
        await asyncio.sleep(0)
        assert sub.queued == 7
        recorder.gate.set()
        for n in range(8, 12):
            await bus.publish(event(n))
        await asyncio.gather(*waiting)
        await bus.drain()
    assert [each.seq for each in recorder.events] == list(range(1, 13))
    assert recorder.seen == list(range(12))
    assert sub.dropped == 0


async def test_cancelled_publisher_leaves_a_gap_in_its_place() -> None:
    async with EventBus() as bus:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, max_queue=1, block_timeout=60)
        await held_with(bus, recorder, 1)
        waiting = [asyncio.create_task(bus.publish(event(n))) for n in range(2, 7)]
        await asyncio.sleep(0)
        for n in (1, 3, 2):
            waiting[n].cancel()
        await asyncio.sleep(0)
        assert (sub.dropped, sub.queued) == (3, 3)
        recorder.gate.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        await bus.drain()
    assert recorder.seen == [0, 1, 2, [4, 6], 6]


async def test_lost_events_become_one_gap() -> None:
    """The memory of a subscriber that hangs doesn't grow with what it loses."""
    async with EventBus() as bus:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, max_queue=1, block_timeout=0)
        await held_with(bus, recorder, 1)
        for n in range(2, 202):
            await bus.publish(event(n))
        assert (sub.dropped, len(sub.line)) == (200, 1)
        recorder.gate.set()
        await bus.drain()
    assert recorder.seen == [0, 1, [3, 202]]
    assert recorder.events[-1].seq is None


@pytest.mark.parametrize("overflow", ["block", "drop_oldest"])
async def test_handler_that_publishes_to_itself_never_waits_for_itself(overflow: Overflow) -> None:
    async with EventBus() as bus:
        published = 4

        async def echo(each: Event) -> None:
            nonlocal published
            if each.payload["n"] < 10:
                published += 2
                await asyncio.create_task(bus.publish(event(10)))
                await bus.publish(event(20))

        sub = bus.subscribe(echo, max_queue=1, overflow=overflow, block_timeout=60)
        publishers = [asyncio.create_task(bus.publish(event(n))) for n in range(4)]
        await asyncio.wait_for(asyncio.gather(*publishers), 20)
        await bus.drain()
    assert published > 4
    assert sub.delivered + sub.dropped == published
    assert sub.dropped == 0 or overflow == "drop_oldest"


async def test_handlers_that_publish_to_each_other_never_wait_for_each_other() -> None:
    async with EventBus() as bus:
        counts = {"a": 0, "b": 0}

        def passing(me: str, other: str) -> None:
            async def handler(each: Event) -> None:
                counts[me] += 1
                if each.payload["n"] > 0:
                    for _ in range(2):
                        await bus.publish(event(each.payload["n"] - 1, run_id=other))

            bus.subscribe(handler, run_id=me, max_queue=1, block_timeout=60)

        passing("a", "b")
        passing("b", "a")
        await bus.publish(event(3, run_id="a"))
        await asyncio.wait_for(bus.drain(), 20)
    assert counts["a"] > 1
    assert counts["b"] > 1


async def test_task_that_outlives_its_handler_waits_like_everybody() -> None:
    """A run that a handler started publishes to that handler without loss, however slow it is."""
    async with EventBus() as bus:
        runs: list[asyncio.Task[None]] = []

        async def run() -> None:
            for n in range(1, 1500):
                await bus.publish(event(n))

        async def start(each: Event) -> None:
            if each.payload["n"] == 0:
                runs.append(asyncio.create_task(run()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        sub = bus.subscribe(start, max_queue=1, block_timeout=60)
        await bus.publish(event(0))
        await bus.drain()
        await asyncio.gather(*runs)
        await bus.drain()
    assert (sub.delivered, sub.dropped) == (1500, 0)


async def test_runaway_handler_fills_no_memory() -> None:
    async with EventBus() as bus:

        async def runaway(each: Event) -> None:
            for _ in range(0 if each.payload["n"] else 2000):
                await bus.publish(event(1))

        sub = bus.subscribe(runaway, max_queue=5, block_timeout=60)
        await bus.publish(event(0))
        await bus.drain()
    assert sub.dropped == 2000 - 5 - 1000


async def test_unsubscribing_frees_the_publisher_that_waits() -> None:
    async with EventBus() as bus:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, max_queue=1, block_timeout=60)
        await held_with(bus, recorder, 1)
        waiting = asyncio.create_task(bus.publish(event(2)))
        await asyncio.sleep(0)
        assert bus.unsubscribe(sub)
        assert (await waiting).seq == 3
        recorder.gate.set()


async def test_handler_may_unsubscribe_itself_and_drain() -> None:
    async with EventBus() as bus:
        seen = []

        async def once(each: Event) -> None:
            await bus.drain()
            seen.append((bus.unsubscribe(sub), await bus.publish(event(9))))

        sub = bus.subscribe(once)
        bus.subscribe(lambda _: bus.drain())
        await bus.publish(event(0))
        await bus.publish(event(1))
        await bus.drain()
        await asyncio.sleep(0)
    assert [left for left, _ in seen] == [True]


async def test_hanging_handler_is_cancelled_when_the_bus_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """A slow one, which goes on, is waited for."""
    caplog.set_level(logging.WARNING)
    async with EventBus(grace=0.05) as bus:
        held, slow = Recorder(open=False), []

        async def crawling(each: Event) -> None:
            await asyncio.sleep(0.02)
            slow.append(each)

        sub = bus.subscribe(held)
        bus.subscribe(crawling)
        for n in range(10):
            await bus.publish(event(n))
    assert (len(slow), held.seen, sub.dropped, sub.active) == (10, [], 9, False)
    assert "hangs" in caplog.text


async def test_failure_of_a_handler_is_logged_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async with EventBus() as bus:
        sub = bus.subscribe(lambda _: int("secret of a customer"))
        await bus.publish(event())
        await bus.drain()
    assert sub.failed == 1
    assert "node.completed: ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "wrong", [{"max_queue": 0}, {"overflow": "wait"}, {"block_timeout": -1}, {"types": {"no.such"}}]
)
async def test_wrong_subscription_is_refused(wrong: dict[str, Any]) -> None:
    async with EventBus() as bus:
        with pytest.raises(ValueError, match="is"):
            bus.subscribe(print, **wrong)


async def test_unknown_type_is_refused_and_takes_no_number() -> None:
    async with EventBus() as bus:
        with pytest.raises(ValueError, match=r"no\.such"):
            await bus.publish(Event(type="no.such"))  # type: ignore[arg-type]
        assert (await bus.publish(event())).seq == 1
