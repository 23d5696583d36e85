from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents.store import database
from tests.events.recording import Recorder, event
from tests.records import be_impatient, execute, held

ROOT = Path(__file__).parents[2]


class Counting(EventLog):
    """Notes the size of each commit."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.commits: list[int] = []

    def append(self, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        self.commits.append(len(events))
        return super().append(events)


async def test_event_is_in_the_log_before_anybody_sees_it(log: EventLog) -> None:
    found = []
    async with EventBus(log) as bus:
        bus.subscribe(lambda each: found.append(bus.replay((each.seq or 0) - 1) == [each]))
        for n in range(5):
            await bus.publish(event(n))
        await bus.drain()
    assert found == [True] * 5


async def test_passing_events_carry_the_last_number_and_are_not_logged(log: EventLog) -> None:
    log.append([event(0)])
    recorder = Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        types = [EventType.NODE_STARTED, EventType.NODE_COMPLETED, EventType.MODEL_STARTED, EventType.TOOL_FAILED]
        published = [await bus.publish(event(n, type)) for n, type in enumerate(types)]
        await bus.drain()
    assert [each.seq for each in published] == [1, 2, 2, 3]
    assert recorder.events == published
    assert [each.type for each in log.replay(1)] == [EventType.NODE_COMPLETED, EventType.TOOL_FAILED]


async def test_publishers_that_wait_at_once_share_a_commit(place: Workspace) -> None:
    log, recorder = Counting(place), Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(recorder, max_queue=10)
        published = await asyncio.gather(*(bus.publish(event(n)) for n in range(1200)))
        await bus.drain()
    assert [each.seq for each in published] == list(range(1, 1201))
    assert recorder.seen == list(range(1200))
    assert log.commits == [500, 500, 200]


async def test_event_is_delivered_once_however_often_it_is_published(log: EventLog) -> None:
    """A run that resumes may publish again what it published before it was killed."""
    recorder, first = Recorder(), event(1)
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        published = [await bus.publish(first), await bus.publish(event(2)), await bus.publish(first)]
        await bus.drain()
    assert recorder.seen == [1, 2]
    assert [each.seq for each in published] == [1, 2, 1]


async def test_locked_log_refuses_and_delivers_nothing(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.replay(0)
    be_impatient(monkeypatch)
    recorder = Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        with held(log.workspace):
            results = await asyncio.gather(*(bus.publish(event(n)) for n in range(3)), return_exceptions=True)
        assert [each.diagnostics[0].code for each in results if isinstance(each, HiveError)] == ["HIVE-402"] * 3
        await bus.publish(event(9))
        await bus.drain()
    assert recorder.seen == [9]
    assert [each.payload["n"] for each in log.replay(0)] == [9]


@pytest.mark.sqlite_file
async def test_full_disk_refuses_and_delivers_nothing(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = database.connect

    def small(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    recorder = Recorder()
    monkeypatch.setattr(database, "connect", small)
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        with pytest.raises(HiveError, match="HIVE-403"):
            await bus.publish(Event(type=EventType.RUN_FAILED, payload={"text": "x" * 100_000}))
        monkeypatch.undo()
        await bus.publish(event(1))
        await bus.drain()
    assert recorder.seen == [1]
    assert log.last_seq() == 1


async def test_payload_that_is_no_json_fails_alone(log: EventLog) -> None:
    recorder = Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        events = [event(0), Event(type=EventType.RUN_FAILED, payload={"n": {1}}), event(2)]
        results = await asyncio.gather(*map(bus.publish, events), return_exceptions=True)
        await bus.drain()
    assert isinstance(results[1], ValueError)
    assert recorder.seen == [0, 2]


class Announcing(EventLog):
    """Says when a commit begins, and waits with it while `may_go` isn't set."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self.loop, self.began, self.may_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        self.may_go.set()

    def append(self, events: Sequence[Event]) -> list[tuple[Event, bool]]:
        self.loop.call_soon_threadsafe(self.began.set)
        self.may_go.wait(30)
        return super().append(events)


async def test_publisher_cancelled_before_its_commit_publishes_nothing(place: Workspace) -> None:
    log, recorder = Announcing(place), Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(recorder)
        log.may_go.clear()
        publishing = [asyncio.create_task(bus.publish(event(0)))]
        await log.began.wait()
        publishing += [asyncio.create_task(bus.publish(event(n))) for n in (1, 2)]
        await asyncio.sleep(0)
        publishing[1].cancel()
        await asyncio.sleep(0)
        log.may_go.set()
        await asyncio.wait(publishing)
        await bus.drain()
    assert recorder.seen == [each.payload["n"] for each in log.replay(0)] == [0, 2]


async def test_publisher_cancelled_during_its_commit_publishes_all_the_same(place: Workspace) -> None:
    """What the log holds, the subscribers see; a full one that nobody waits for any more gets a gap."""
    log, held, free = Announcing(place), Recorder(open=False), Recorder()
    async with EventBus(log) as bus:
        bus.subscribe(free)
        sub = bus.subscribe(held, max_queue=1, block_timeout=60)
        await bus.publish(event(0))
        await held.reached.wait()
        await bus.publish(event(1))
        log.began.clear()
        log.may_go.clear()
        publishing = asyncio.create_task(bus.publish(event(2)))
        await log.began.wait()
        publishing.cancel()
        await asyncio.sleep(0)
        log.may_go.set()
        while len(free.seen) < 3:
            await asyncio.sleep(0.001)
        assert sub.dropped == 1
        held.gate.set()
        await bus.drain()
    assert publishing.cancelled()
    assert held.seen == [0, 1, [3, 3]]
    assert len(log.replay(0)) == 3


async def test_restart_goes_on_where_the_log_ended(log: EventLog) -> None:
    async with EventBus(log) as bus:
        await bus.publish(event(1))
    async with EventBus(log) as bus:
        assert (await bus.publish(event(2))).seq == 2
        assert [each.payload["n"] for each in bus.replay(0, limit=1)] == [1]


OTHER = """
import asyncio, sys
from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents import Workspace
async def main():
    async with EventBus(EventLog(Workspace(sys.argv[1]))) as bus:
        for n in range(50):
            await bus.publish(Event(type=EventType.NODE_COMPLETED, run_id=sys.argv[2], payload={"n": n}))
asyncio.run(main())
"""


def test_processes_share_the_log(log: EventLog) -> None:
    command = [sys.executable, "-c", OTHER, str(log.workspace.root)]
    log.append([event(0)])
    others = [subprocess.Popen([*command, run], cwd=ROOT, stderr=subprocess.PIPE) for run in ("a", "b")]
    for n in range(20):
        log.append([event(n, run_id="c")])
    assert [other.communicate()[1] for other in others] == [b"", b""]
    seqs = [each.seq for each in log.replay(0)]
    assert seqs == list(range(1, 122))
    for run in ("a", "b"):
        assert [each.payload["n"] for each in log.replay(1, run_id=run)] == list(range(50))


@pytest.mark.sqlite_file
def test_database_that_was_replaced_is_opened_again(log: EventLog) -> None:
    log.append([event(1)])
    path = log.workspace.database
    path.rename(path.with_name("old.db"))
    for extra in path.parent.glob("hive.db-*"):
        extra.unlink()
    log.append([event(2)])
    assert [each.payload["n"] for each in log.replay(0)] == [2]


def test_type_of_a_newer_release_is_left_out(log: EventLog) -> None:
    log.append([event(1)])
    insert = "INSERT INTO events (id, type, time, tenant, payload) VALUES ('x', 'new.one', '', '', '{}')"
    execute(log.workspace, insert)
    assert [each.payload["n"] for each in log.replay(0)] == [1]
