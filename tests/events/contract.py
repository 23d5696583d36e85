"""What every bus and every log must do: subclass, give a fixture, and the tests run against it."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from hive_agents.events import Bus, Event, EventType
from hive_agents.events.protocols import EventLogProtocol
from tests.events.recording import Recorder, event


class BusContract:
    """Needs a fixture `bus`: a new bus, entered."""

    async def test_subscribers_see_events_in_the_order_of_publishing(self, bus: Bus) -> None:
        recorders = [Recorder() for _ in range(3)]
        for recorder in recorders:
            bus.subscribe(recorder)
        published = [await bus.publish(event(n)) for n in range(20)]
        await bus.drain()
        seqs = [each.seq for each in published]
        assert seqs == sorted({seq for seq in seqs if seq})
        assert all(recorder.events == published for recorder in recorders)

    async def test_functions_and_coroutines_are_handlers(self, bus: Bus) -> None:
        seen: list[Event] = []
        bus.subscribe(seen.append)
        await bus.publish(event())
        await bus.drain()
        assert len(seen) == 1

    async def test_filters_are_anded(self, bus: Bus) -> None:
        recorder = Recorder()
        bus.subscribe(recorder, types={EventType.NODE_FAILED}, run_id="r1", node_id="a", stream_id="s")
        match: dict[str, Any] = {"type": EventType.NODE_FAILED, "run_id": "r1", "node_id": "a", "stream_id": "s"}
        others = {"type": EventType.NODE_COMPLETED, "run_id": "r2", "node_id": None, "stream_id": "t"}
        for n, (name, value) in enumerate(others.items()):
            await bus.publish(event(n, **{**match, name: value}))
        await bus.publish(event(9, **match))
        await bus.drain()
        assert recorder.seen == [9]

    async def test_waiting_for_an_event_returns_the_first_that_matches(self, bus: Bus) -> None:
        waiting = asyncio.create_task(bus.wait_for(types={EventType.RUN_COMPLETED}, run_id="r1", timeout=10))
        await asyncio.sleep(0)
        for n, run_id in enumerate(["r2", "r1", "r1"]):
            await bus.publish(event(n, EventType.RUN_COMPLETED, run_id=run_id))
        found = await waiting
        assert found
        assert found.payload == {"n": 1}
        assert await bus.wait_for(types={EventType.RUN_COMPLETED}, timeout=0.01) is None

    async def test_unsubscribed_handler_is_not_called_again(self, bus: Bus) -> None:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder)
        await bus.publish(event(0))
        await recorder.reached.wait()
        await bus.publish(event(1))
        assert bus.unsubscribe(sub)
        assert not sub.active
        assert not bus.unsubscribe(sub)
        recorder.gate.set()
        await bus.publish(event(2))
        await bus.drain()
        await asyncio.sleep(0)
        assert recorder.seen == [0]

    async def test_handler_that_raises_goes_on_and_disturbs_nobody(self, bus: Bus) -> None:
        recorder, seen = Recorder(), []

        async def broken(event: Event) -> None:
            seen.append(event.payload["n"])
            raise asyncio.CancelledError if event.payload["n"] else ZeroDivisionError

        sub = bus.subscribe(broken)
        bus.subscribe(recorder)
        for n in range(3):
            await bus.publish(event(n))
        await bus.drain()
        assert seen == recorder.seen == [0, 1, 2]
        assert sub.active

    async def test_what_handlers_publish_is_drained_too(self, bus: Bus) -> None:
        recorder = Recorder()

        async def chain(each: Event) -> None:
            if each.payload["n"] < 5:
                await bus.publish(event(each.payload["n"] + 1))

        bus.subscribe(chain)
        bus.subscribe(recorder)
        await bus.publish(event(0))
        await bus.drain()
        assert recorder.seen == [0, 1, 2, 3, 4, 5]

    async def test_drop_oldest_keeps_the_newest_and_counts(self, bus: Bus) -> None:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, max_queue=2, overflow="drop_oldest")
        await bus.publish(event(0))
        await recorder.reached.wait()
        for n in range(1, 6):
            await bus.publish(event(n))
        recorder.gate.set()
        await bus.drain()
        assert (recorder.seen, sub.dropped, sub.active) == ([0, 4, 5], 3, True)

    async def test_disconnect_ends_the_subscription_and_no_other(self, bus: Bus) -> None:
        held, free = Recorder(open=False), Recorder()
        sub = bus.subscribe(held, max_queue=2, overflow="disconnect")
        bus.subscribe(free)
        await bus.publish(event(0))
        await held.reached.wait()
        for n in range(1, 5):
            await bus.publish(event(n))
        held.gate.set()
        await bus.drain()
        await asyncio.sleep(0)
        assert (sub.active, sub.dropped, held.seen, free.seen) == (False, 3, [0], [0, 1, 2, 3, 4])

    async def test_block_waits_then_loses_the_event_and_tells_of_the_gap(self, bus: Bus) -> None:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder, types={EventType.NODE_COMPLETED}, max_queue=1, block_timeout=0.01)
        published = [await bus.publish(event(n)) for n in range(4)]
        assert sub.dropped == 2
        recorder.gate.set()
        await bus.drain()
        await bus.publish(event(4))
        await bus.drain()
        assert recorder.seen == [0, 1, [published[2].seq, published[3].seq], 4]

    async def test_slow_subscriber_never_slows_the_others(self, bus: Bus) -> None:
        """The others have the event while its publisher still waits for the full one."""
        held, free = Recorder(open=False), Recorder()
        bus.subscribe(held, max_queue=1, block_timeout=60)
        bus.subscribe(free)
        for n in range(2):
            await bus.publish(event(n))
        waiting = asyncio.create_task(bus.publish(event(2)))
        while len(free.seen) < 3:
            await asyncio.sleep(0.001)
        assert not waiting.done()
        held.gate.set()
        await waiting
        await bus.drain()
        assert held.seen == free.seen == [0, 1, 2]

    async def test_closing_delivers_what_waits_and_refuses_what_comes(self, bus: Bus) -> None:
        recorder = Recorder(open=False)
        sub = bus.subscribe(recorder)
        for n in range(3):
            await bus.publish(event(n))
        waiting = asyncio.create_task(bus.wait_for(types={EventType.BUS_GAP}))
        closing = asyncio.create_task(bus.close())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="closed"):
            await bus.publish(event(3))
        recorder.gate.set()
        await closing
        assert (recorder.seen, sub.active, await waiting) == ([0, 1, 2], False, None)
        with pytest.raises(RuntimeError, match="closed"):
            bus.subscribe(recorder)
        with pytest.raises(RuntimeError, match="closed"):
            await bus.publish(event(3))


class LogContract:
    """Needs a fixture `log`: an empty log."""

    def test_new_log_is_empty(self, log: EventLogProtocol) -> None:
        assert (log.last_seq(), log.replay(0)) == (0, [])

    def test_events_come_back_as_they_were_with_rising_seqs(self, log: EventLogProtocol) -> None:
        events = [
            Event(EventType.RUN_STARTED, "r1", "t1", "n1", "s1", "acme", {"text": "é\ud800", "list": [1, None, {}]}),
            event(1),
        ]
        appended = [each for each, _ in log.append(events)]
        assert log.replay(0) == appended
        assert [each.numbered(0) for each in appended] == [each.numbered(0) for each in events]
        assert [each.seq for each in appended] == [1, 2]
        assert log.last_seq() == 2

    def test_replay_starts_after_a_seq_and_narrows(self, log: EventLogProtocol) -> None:
        log.append([event(n, run_id=f"r{n % 2}", tenant="acme" if n > 3 else "local") for n in range(6)])
        log.append([event(6, EventType.RUN_FAILED)])
        assert [each.payload["n"] for each in log.replay(2, limit=2)] == [2, 3]
        assert [each.payload["n"] for each in log.replay(run_id="r1")] == [1, 3, 5]
        assert [each.payload["n"] for each in log.replay(tenant="acme")] == [4, 5]
        assert [each.payload["n"] for each in log.replay(types={EventType.RUN_FAILED})] == [6]
        assert log.replay(types=()) == []

    def test_event_is_recorded_once(self, log: EventLogProtocol) -> None:
        first = event(1)
        log.append([first])
        assert [(each.seq, new) for each, new in log.append([event(2), first])] == [(2, True), (1, False)]
        assert log.last_seq() == 2

    def test_append_is_all_or_nothing(self, log: EventLogProtocol) -> None:
        for payload in ({"x": {1, 2}}, {"x": float("nan")}):
            with pytest.raises(ValueError, match=r"run\.failed must be plain JSON"):
                log.append([event(1), Event(type=EventType.RUN_FAILED, payload=payload)])
        assert log.replay(0) == []

    def test_pruned_events_are_gone_and_their_seqs_never_come_back(self, log: EventLogProtocol) -> None:
        log.append([event(1, time="2025-01-01T10:00:00.000+00:00"), event(2, time="2025-01-01T12:00:00.001+00:00")])
        noon_in_berlin = dt.datetime(2025, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))
        assert log.prune(noon_in_berlin) == 1
        assert [each.payload["n"] for each in log.replay(0)] == [2]
        assert log.prune(dt.datetime.now(dt.UTC)) == 1
        assert log.last_seq() == 2
        assert log.append([event(3)])[0][0].seq == 3

    def test_closed_log_opens_again_when_it_is_used(self, log: EventLogProtocol) -> None:
        log.append([event(1)])
        log.close()
        log.close()
        log.append([event(2)])
        assert len(log.replay(0)) == 2
