"""A consumer skips an event that its handler can't stand, and none because the records were away."""

from __future__ import annotations

from hive_agents.base.errors import Busy
from hive_agents.events import Consumer, Event, EventLog
from hive_agents.events.consumer import TRIES
from tests.events.recording import event


async def test_no_event_is_skipped_while_the_records_are_away_however_long(log: EventLog) -> None:
    tried: list[int] = []
    handled: list[Event] = []

    def handle(each: Event) -> None:
        tried.append(each.seq or 0)
        if len(tried) <= 3 * TRIES:
            raise Busy.of("HIVE-402", "the records are away")
        handled.append(each)

    log.append([event(0), event(1)])
    await Consumer(log, "queen", handle, start="begin", pause=0.001).catch_up()
    assert [one.payload for one in handled] == [event(n).payload for n in range(2)]
    assert len(tried) == 3 * TRIES + 2


async def test_an_event_that_its_handler_cannot_stand_is_skipped(log: EventLog) -> None:
    tried: list[int] = []

    def handle(each: Event) -> None:
        tried.append(each.seq or 0)
        if len(tried) <= TRIES:
            raise ValueError("not this one")

    log.append([event(0), event(1)])
    await Consumer(log, "queen", handle, start="begin", pause=0.001).catch_up()
    assert len(tried) == TRIES + 1
    assert tried[-1] > tried[0]
