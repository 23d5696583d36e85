from __future__ import annotations

import asyncio
import datetime as dt
import random
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents.deployed import record
from hive_agents.agents.spec import load_agent
from hive_agents.base.errors import HiveError, RefusedInput
from hive_agents.events import EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.triggers import Scheduler, TriggerStore, all_triggers
from hive_agents.triggers.files import load_trigger
from hive_agents.triggers.scheduler import Outcome
from tests.agents.conftest import write_json
from tests.triggers.conftest import NIGHTLY, Fired, at, trigger

HOURLY = {"id": "hourly", "type": "interval", "every_seconds": 3600, "agent": "digest", "input": {"topic": "bees"}}
LOCKED = HiveError.of("HIVE-402", "the database is locked")


def missed(place: Workspace) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in EventLog(place).replay(types=[EventType.TRIGGER_MISSED])]


def told(outcomes: list[Outcome]) -> list[tuple[str, int]]:
    return [(outcome.status, outcome.missed) for outcome in outcomes]


async def test_a_tick_fires_once_with_its_key_and_input(place: Workspace, fired: Fired) -> None:
    trigger(place, NIGHTLY)
    scheduler = Scheduler(place, fired)
    assert await scheduler.tick(at("2026-06-01 01:59:59")) == []
    outcomes = await scheduler.tick(at("2026-06-01 02:00:01"))
    assert told(outcomes) == [("fired", 0)]
    assert await scheduler.tick(at("2026-06-01 02:00:02")) == []
    assert fired.keys == ["trigger/nightly/2026-06-01T02:00:00+00:00"]
    assert fired.inputs == [{"topic": "bees"}]
    state = TriggerStore(place).get("nightly")
    assert state is not None
    assert (state.last_at, state.missed, state.last_run_id) == (at("2026-06-01 02:00"), 0, outcomes[0].run_id)
    assert missed(place) == []


@pytest.mark.parametrize(("policy", "runs"), [("skip", 0), ("once", 1)])
async def test_an_outage_is_counted_reported_and_skipped_or_run_once(
    place: Workspace, fired: Fired, policy: str, runs: int
) -> None:
    trigger(place, HOURLY, missed=policy)
    await Scheduler(place, fired).tick(at("2026-06-01 00:00"))
    outcomes = await Scheduler(place, fired).tick(at("2026-06-01 05:30"))
    assert told(outcomes) == [("fired" if runs else "missed", 5)]
    assert missed(place) == [
        {"trigger": "hourly", "count": 5, "first": "2026-06-01T01:00:00+00:00", "last": "2026-06-01T05:00:00+00:00",
         "policy": policy}
    ]  # fmt: skip
    assert fired.keys == ["trigger/hourly/2026-06-01T05:00:00+00:00"][:runs]
    assert told(await Scheduler(place, fired).tick(at("2026-06-01 06:00"))) == [("fired", 0)]
    state = TriggerStore(place).get("hourly")
    assert state is not None
    assert state.missed == 5


async def test_a_tick_in_time_is_none_that_was_missed(place: Workspace, fired: Fired) -> None:
    """Down until just after a tick: the ones before it were missed, and this one runs, whatever the policy."""
    trigger(place, HOURLY)
    await Scheduler(place, fired).tick(at("2026-06-01 00:00"))
    assert told(await Scheduler(place, fired).tick(at("2026-06-01 03:01"))) == [("fired", 2)]
    assert fired.keys == ["trigger/hourly/2026-06-01T03:00:00+00:00"]


async def test_a_process_that_dies_before_it_remembers_fires_nothing_twice(place: Workspace, fired: Fired) -> None:
    trigger(place, HOURLY, missed="once")
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01 00:00"))
    scheduler._store.ticked = lambda *_, **__: 1 / 0  # type: ignore[assignment,method-assign]
    with pytest.raises(ZeroDivisionError):
        await scheduler.tick(at("2026-06-01 02:30"))
    assert len(RunStore(place).list()) == 1
    assert told(await Scheduler(place, fired).tick(at("2026-06-01 02:30"))) == [("fired", 2)]
    assert len(RunStore(place).list()) == 1
    assert [event["count"] for event in missed(place)] == [2]


async def test_two_processes_fire_and_count_once(place: Workspace, fired: Fired) -> None:
    trigger(place, HOURLY)
    first, second = Scheduler(place, fired), Scheduler(place, fired)
    await first.tick(at("2026-06-01 00:00"))
    await asyncio.gather(*(one.tick(at("2026-06-01 04:00:10")) for one in (first, second, first, second)))
    assert len(RunStore(place).list()) == 1
    state = TriggerStore(place).get("hourly")
    assert state is not None
    assert state.missed == sum(event["count"] for event in missed(place)) == 3


@pytest.mark.parametrize("seed", range(10))
async def test_clocks_that_jump_by_an_hour_fire_no_tick_twice(place: Workspace, fired: Fired, seed: int) -> None:
    trigger(place, NIGHTLY, schedule="*/10 * * * *", missed=random.Random(seed).choice(["skip", "once"]))
    rng, now = random.Random(seed), at("2026-06-01 00:00")
    furthest = now
    for _ in range(60):
        await Scheduler(place, fired).tick(now)
        furthest = max(furthest, now)
        now += dt.timedelta(minutes=rng.choice([1, 5, 10, 10, 60, -60]))
    assert len(fired.keys) == len(set(fired.keys))
    assert fired.keys == sorted(fired.keys)
    state = TriggerStore(place).get("nightly")
    assert state is not None
    ticks = int((furthest - at("2026-06-01 00:00")).total_seconds() // 600)
    late = {event["last"] for event in missed(place) if event["policy"] == "once"}
    once = sum(1 for key in fired.keys if key.rpartition("/")[2] in late)
    assert len(fired.keys) + state.missed - once == ticks


async def test_a_fault_that_passes_is_tried_again_until_the_tick_is_missed(place: Workspace, fired: Fired) -> None:
    trigger(place, NIGHTLY)
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01"))
    fired.before = [LOCKED, LOCKED]
    assert told(await scheduler.tick(at("2026-06-01 02:00:05"))) == [("failed", 0)]
    assert told(await scheduler.tick(at("2026-06-01 02:00:10"))) == [("failed", 0)]
    assert told(await scheduler.tick(at("2026-06-01 02:00:15"))) == [("fired", 0)]
    fired.before = [LOCKED]
    assert told(await scheduler.tick(at("2026-06-02 02:00:05"))) == [("failed", 0)]
    assert told(await scheduler.tick(at("2026-06-02 02:02"))) == [("missed", 1)]


async def test_an_input_that_the_agent_refuses_is_over(place: Workspace, fired: Fired) -> None:
    trigger(place, NIGHTLY)
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01"))
    fired.before = [RefusedInput.of("HIVE-106", 'digest needs the input "topic"', file="input", path="topic")]
    assert told(await scheduler.tick(at("2026-06-01 02:00:05"))) == [("refused", 0)]
    assert await scheduler.tick(at("2026-06-01 02:00:10")) == []


async def test_a_changed_file_begins_anew_and_keeps_its_counts(place: Workspace, fired: Fired) -> None:
    trigger(place, HOURLY)
    await Scheduler(place, fired).tick(at("2026-06-01 00:00"))
    await Scheduler(place, fired).tick(at("2026-06-01 02:30"))
    trigger(place, HOURLY, enabled=False)
    assert await Scheduler(place, fired).tick(at("2026-06-01 12:00")) == []
    trigger(place, HOURLY, input={"topic": "wasps"})
    assert await Scheduler(place, fired).tick(at("2026-06-01 12:20")) == []
    assert told(await Scheduler(place, fired).tick(at("2026-06-01 13:20"))) == [("fired", 0)]
    state = TriggerStore(place).get("hourly")
    assert state is not None
    assert (state.since, state.missed) == (at("2026-06-01 12:20"), 2)
    assert state.digest == load_trigger(place, "hourly").digest


async def test_a_faulty_file_stops_no_other(place: Workspace, fired: Fired, caplog: pytest.LogCaptureFixture) -> None:
    trigger(place, NIGHTLY)
    write_json(place, "triggers/broken.json", "{")
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01"))
    assert told(await scheduler.tick(at("2026-06-01 02:00"))) == [("fired", 0)]
    assert len([record for record in caplog.records if "broken" in record.getMessage()]) == 1


async def test_a_defect_of_one_trigger_stops_no_other_and_is_told_without_its_words(
    place: Workspace, fired: Fired, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for id in ("a", "b", "c"):
        trigger(place, {**HOURLY, "id": id})
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01"))
    began = TriggerStore.begin

    def begin(store: TriggerStore, spec: Any, now: dt.datetime) -> Any:
        if spec.id == "a":
            raise ValueError("Dear Kim")
        return began(store, spec, now)

    monkeypatch.setattr(TriggerStore, "begin", begin)
    fired.before = [RuntimeError("Dear Kim")]
    assert [(one.trigger, one.status) for one in await scheduler.tick(at("2026-06-01 01:00"))] == [
        ("b", "failed"),
        ("c", "fired"),
    ]
    assert [(one.trigger, one.status) for one in await scheduler.tick(at("2026-06-01 01:00:30"))] == [("b", "fired")]
    assert "RuntimeError at tests.triggers.conftest" in caplog.text
    assert "Kim" not in caplog.text


async def test_an_agent_that_serves_without_its_file_is_fired(place: Workspace, fired: Fired) -> None:
    record(place, load_agent(place, "digest"), decision="first", via="deploy", by="user:dana", evaluation={})
    (place.root / "agents/digest.json").unlink()
    trigger(place, NIGHTLY)
    assert all_triggers(place)[1] == {}
    scheduler = Scheduler(place, fired)
    await scheduler.tick(at("2026-06-01"))
    assert told(await scheduler.tick(at("2026-06-01 02:00"))) == [("fired", 0)]


async def test_it_runs_by_itself(place: Workspace, fired: Fired) -> None:
    trigger(place, {**HOURLY, "every_seconds": 1})
    running = asyncio.create_task(Scheduler(place, fired).run())
    async with asyncio.timeout(10):
        while not fired.keys:
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
