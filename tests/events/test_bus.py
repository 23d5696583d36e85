from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from hive_agents.events import Event, EventBus, EventType
from tests.events.recording import Recorder, event


async def test_example_of_the_manual() -> None:
    seen = []

    async def handler(event: Event) -> None:
        seen.append(event)

    async with EventBus() as bus:
        sub = bus.subscribe(
            handler,
            types={EventType.NODE_COMPLETED},
            run_id=None,
            node_id=None,
            stream_id=None,
            max_queue=1000,
            overflow="block",
            block_timeout=1.0,
        )
        await bus.publish(Event(type=EventType.NODE_COMPLETED, run_id="r1", payload={}))
        found = await bus.wait_for(types={EventType.RUN_COMPLETED}, timeout=0.05)
        await bus.drain()
        assert bus.unsubscribe(sub)
        assert not bus.unsubscribe(sub)
    assert found is None
    assert [(each.run_id, each.seq) for each in seen] == [("r1", 1)]
    assert bus.replay(0) == []


async def test_published_event_is_a_numbered_copy() -> None:
    async with EventBus() as bus:
        original = event()
        published = [await bus.publish(original) for _ in range(2)]
    assert original.seq is None
    assert [each.seq for each in published] == [1, 2]
    assert {each.id for each in published} == {original.id}


async def test_threads_publish_through_the_loop() -> None:
    before = threading.active_count()  # other tests' among them
    recorder = Recorder()
    bus = EventBus()
    with pytest.raises(RuntimeError, match="async with"):
        bus.publish_threadsafe(event())
    async with bus:
        bus.subscribe(recorder, max_queue=5)

        def work(first: int) -> None:
            for n in range(first, first + 50):
                bus.publish_threadsafe(event(n)).result(30)

        await asyncio.gather(*(asyncio.to_thread(work, first) for first in (0, 100, 200)))
        await bus.drain()
    with pytest.raises(RuntimeError, match="closed"):
        bus.publish_threadsafe(event())
    assert [each.seq for each in recorder.events] == list(range(1, 151))
    assert [n for n in recorder.seen if n < 100] == list(range(50))
    assert threading.active_count() - before < 10, "the loop's pool, and no thread for each event"


async def test_handlers_publish_while_the_bus_is_being_closed() -> None:
    recorder = Recorder()
    async with EventBus() as bus:

        async def late(each: Event) -> None:
            await asyncio.sleep(0.01)
            await bus.publish(event(1, EventType.RUN_COMPLETED))

        bus.subscribe(late, types={EventType.RUN_STARTED})
        bus.subscribe(recorder, types={EventType.RUN_COMPLETED})
        await bus.publish(event(0, EventType.RUN_STARTED))
    assert recorder.seen == [1]


async def test_handler_may_close_the_bus() -> None:
    bus = EventBus()
    done = asyncio.Event()

    async def last(each: Event) -> None:
        await bus.close()
        done.set()

    bus.subscribe(last)
    await bus.publish(event())
    await asyncio.wait_for(done.wait(), 20)
    with pytest.raises(RuntimeError, match="closed"):
        async with bus:
            pass


async def test_error_in_the_block_still_drains() -> None:
    recorder = Recorder()

    async def failing() -> None:
        async with EventBus() as bus:
            bus.subscribe(recorder)
            await bus.publish(event(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    assert recorder.seen == [1]


async def test_loop_gets_turns_while_a_publisher_never_waits() -> None:
    async with EventBus() as bus:
        bus.subscribe(lambda _: None)
        ticked = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ticked.set_result, None)
        for n in range(200):
            await bus.publish(event(n))
        assert ticked.done()


def test_import_is_light() -> None:
    code = "import sys, hive_agents.events; sys.exit(any(name in sys.modules for name in ('langgraph', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
async def test_memory_stays_flat_over_a_million_events() -> None:
    async with EventBus() as bus:
        stuck = Recorder(open=False)
        bus.subscribe(stuck, max_queue=100, overflow="drop_oldest")
        bus.subscribe(lambda _: None)
        blocks = []
        for n in range(1_000_000):
            await bus.publish(Event(type=EventType.NODE_COMPLETED, run_id="r1", payload={"n": n}))
            if n % 100_000 == 50_000:
                blocks.append(sys.getallocatedblocks())
        stuck.gate.set()
    assert max(blocks) - min(blocks) < 5_000
