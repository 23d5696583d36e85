from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st

from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents.events.subscription import Subscription
from hive_agents.events.types import DURABLE
from tests.events.recording import event

subscribers = st.lists(
    st.fixed_dictionaries(
        {
            "overflow": st.sampled_from(["block", "drop_oldest", "disconnect"]),
            "max_queue": st.integers(1, 5),
            "block_timeout": st.sampled_from([0.0, 0.0005, 60.0]),
        }
    ),
    min_size=1,
    max_size=4,
)
publishers = st.lists(st.lists(st.integers(0, 2), max_size=15), min_size=1, max_size=4)
pauses = st.lists(st.integers(0, 3), min_size=1, max_size=8)


async def scenario(policies: list[dict[str, Any]], naps: list[int], publishers: list[list[int]], cancel: int) -> None:
    total = sum(map(len, publishers))
    seen: list[list[Event]] = [[] for _ in policies]
    subs: list[Subscription] = []

    def recorder(mine: list[Event], offset: int) -> Any:
        async def handler(each: Event) -> None:
            mine.append(each)
            for _ in range(naps[(offset + len(mine)) % len(naps)]):
                await asyncio.sleep(0)

        return handler

    pairs = zip(seen, policies, strict=True)
    async with EventBus() as bus:
        subs = [bus.subscribe(recorder(mine, n), **policy) for n, (mine, policy) in enumerate(pairs)]

        async def publish(gaps: list[int]) -> None:
            for gap in gaps:
                for _ in range(gap):
                    await asyncio.sleep(0)
                await bus.publish(event())

        tasks = [asyncio.create_task(publish(gaps)) for gaps in publishers]
        for _ in range(cancel):
            await asyncio.sleep(0)
        if cancel:
            tasks[0].cancel()
        await asyncio.wait(tasks)
        await bus.drain()
        published = bus._seq
    assert published <= total
    for sub, mine in zip(subs, seen, strict=True):
        covered: list[int] = []
        for each in mine:
            gap = each.payload
            covered += range(gap["from_seq"], gap["to_seq"] + 1) if each.type is EventType.BUS_GAP else [each.seq or 0]
        assert covered == sorted(set(covered))
        got = sum(each.type is not EventType.BUS_GAP for each in mine)
        assert got + sub.dropped == published or sub.overflow == "disconnect"
        if sub.overflow == "block":
            assert covered == list(range(1, published + 1))
        if sub.overflow == "disconnect":
            assert covered == list(range(1, len(covered) + 1))


@settings(max_examples=100, deadline=None)
@given(subscribers, pauses, publishers, st.integers(0, 9))
def test_nobody_sees_events_out_of_order_and_every_loss_is_told(
    policies: list[dict[str, Any]], naps: list[int], plans: list[list[int]], cancel: int
) -> None:
    """Any mix of policies, publishers and slow handlers: seqs rise, and with `block` gaps cover exactly the rest."""
    asyncio.run(scenario(policies, naps, plans, cancel))


async def test_the_numbers_of_passing_events_never_go_back(log: EventLog) -> None:
    """An event that was recorded elsewhere, and is announced late, has its own lower number: the next goes on."""
    ((early, _),) = log.append([event(type=EventType.RUN_STARTED, run_id="early")])
    async with EventBus(log) as bus:
        latest = await bus.publish(event(type=EventType.RUN_STARTED, run_id="late"))
        announced = await bus.announce(early)
        passing = await bus.publish(event(type=next(kind for kind in EventType if kind not in DURABLE), run_id="late"))
    assert announced.seq is not None
    assert latest.seq is not None
    assert announced.seq < latest.seq
    assert passing.seq == latest.seq
