"""The event bus beside plain asyncio queues and the closest peer's bus: 10,000 events to 10 subscribers each.

    python benchmarks/bus.py [--events N] [--subscribers N] [--rounds N] [--million] [--json FILE]

Both take turns in one process, and every subscriber checks that it saw all events in order. The figure includes the
making of the events. The peer's figure is the documented one (1.67 s), to be beaten tenfold. Then the rate of durable
publishing, one publisher after another and many at once, and with `--million` the memory over a million events.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from hive_agents import Workspace
from hive_agents.events import Event, EventBus, EventLog, EventType

PEER_SECONDS = 1.67


def made(n: int) -> Event:
    return Event(type=EventType.NODE_COMPLETED, run_id="r1", payload={"n": n})


async def through_bus(events: int, subscribers: int, asynchronous: bool) -> float:
    seen: list[list[int]] = [[] for _ in range(subscribers)]

    def subscribe(bus: EventBus, mine: list[int]) -> None:
        async def handler(event: Event) -> None:
            mine.append(event.payload["n"])

        bus.subscribe(handler if asynchronous else lambda event: mine.append(event.payload["n"]))

    async with EventBus() as bus:
        for mine in seen:
            subscribe(bus, mine)
        started = time.perf_counter()
        for n in range(events):
            await bus.publish(made(n))
        await bus.drain()
        seconds = time.perf_counter() - started
    assert all(mine == list(range(events)) for mine in seen), "the order was lost"
    return seconds


async def through_queues(events: int, subscribers: int) -> float:
    queues: list[asyncio.Queue[Event]] = [asyncio.Queue(1000) for _ in range(subscribers)]
    seen: list[list[int]] = [[] for _ in range(subscribers)]

    async def consume(queue: asyncio.Queue[Event], mine: list[int]) -> None:
        while True:
            event = await queue.get()
            mine.append(event.payload["n"])
            queue.task_done()

    tasks = [asyncio.create_task(consume(queue, mine)) for queue, mine in zip(queues, seen, strict=True)]
    started = time.perf_counter()
    for n in range(events):
        event = made(n)
        for queue in queues:
            await queue.put(event)
    for queue in queues:
        await queue.join()
    seconds = time.perf_counter() - started
    for task in tasks:
        task.cancel()
    assert all(mine == list(range(events)) for mine in seen)
    return seconds


async def durable(events: int, publishers: int) -> float:
    """Events a second into the log and to one subscriber."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "collections").mkdir()
        async with EventBus(EventLog(Workspace(Path(folder)))) as bus:
            bus.subscribe(lambda _: None)

            async def publish(share: int) -> None:
                for n in range(share):
                    await bus.publish(made(n))

            await publish(1)
            started = time.perf_counter()
            await asyncio.gather(*(publish(events // publishers) for _ in range(publishers)))
            return events / (time.perf_counter() - started)


def resident() -> float:
    """MB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def memory(events: int) -> dict[str, float]:
    """MB and blocks after a tenth and after all, with a subscriber that hangs beside one that keeps up."""
    hang = asyncio.Event()
    figures: dict[str, float] = {}
    async with EventBus() as bus:
        bus.subscribe(lambda _: hang.wait(), max_queue=1000, overflow="drop_oldest")
        bus.subscribe(lambda _: None)
        for n in range(events):
            await bus.publish(made(n))
            if n == events // 10:
                figures |= {"mb_early": resident(), "blocks_early": sys.getallocatedblocks()}
        figures |= {"mb_late": resident(), "blocks_late": sys.getallocatedblocks()}
        hang.set()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--subscribers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size = options.events, options.subscribers
    ways: dict[str, Callable[[], Awaitable[float]]] = {
        "bus, functions": lambda: through_bus(*size, False),
        "bus, coroutines": lambda: through_bus(*size, True),
        "asyncio queues": lambda: through_queues(*size),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            times[name].append(asyncio.run(way()))  # type: ignore[arg-type]
    print(f"{size[0]} events, {size[1]} subscribers, {options.rounds} rounds")
    print(f"{'':18}{'median s':>10}{'best s':>10}{'us/delivery':>13}{'x peer':>9}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        each = median / (size[0] * size[1]) * 1e6
        print(f"{name:18}{median:10.3f}{min(seconds):10.3f}{each:13.2f}{PEER_SECONDS / median:9.1f}")
    print(f"{'closest peer':18}{PEER_SECONDS:10.3f}{'':10}{PEER_SECONDS / 1e5 * 1e6:13.2f}{1.0:9.1f}  (documented)")
    rates = {f"{n} publishers": asyncio.run(durable(2_000 if n == 1 else 20_000, n)) for n in (1, 10, 100)}
    for name, rate in rates.items():
        print(f"durable, {name}: {rate:,.0f} events/s")
    result = {"size": size, "times": times, "peer_seconds": PEER_SECONDS, "durable_per_second": rates}
    if options.million:
        figures = result["memory"] = asyncio.run(memory(1_000_000))
        print(
            f"memory: {figures['mb_early']:.1f} MB after 100,000 events, {figures['mb_late']:.1f} MB after 1,000,000"
            f" ({figures['blocks_late'] - figures['blocks_early']:+.0f} blocks)"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
