"""Whose turn it is to write on a real PostgreSQL: who waits for whom, and in which order events show."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.runs.store import run_turn
from hive_agents.store import connected, transaction
from hive_agents.workspace.trusted import trust
from tests.host.hosting import prepared
from tests.real_engines import Postgres, postgres as started

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with started() as running:
        yield running


@pytest.fixture
def place(server: Postgres, tmp_path: Path) -> Workspace:
    place = prepared(tmp_path / "ws")
    file = place.root / "hive.toml"
    file.write_text(file.read_text() + f'[storage]\nurl = "{server.url}"\nnamespace = "t{uuid.uuid4().hex[:12]}"\n')
    trust(Workspace(place.root))
    return Workspace(place.root)


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[object]]]:
    """Does something in a thread of its own."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def event(number: int) -> Event:
    return Event(EventType.RUN_FAILED, id=f"e{number}", run_id=f"r{number}")


def somebody_waits(server: Postgres) -> None:
    """Return as soon as a writer waits for a turn."""
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    until = time.monotonic() + PATIENCE
    while server.run(waiting).strip() == "0":
        assert time.monotonic() < until, "nobody waits"
        time.sleep(0.02)


def test_a_run_is_written_while_another_one_is(place: Workspace) -> None:
    store = RunStore(place)
    for run_id in ("one", "two"):
        store.insert("agent", {}, run_id=run_id)
    with connected(place.records) as connection, transaction(connection, run_turn("one")):
        connection.execute("UPDATE runs SET steps = 1 WHERE run_id = 'one'")
        assert store.update("two", "running")
    assert [store.get(run_id).summary["steps"] for run_id in ("one", "two")] == [1, 0]


def test_writers_of_one_run_take_turns(
    place: Workspace, server: Postgres, aside: Callable[..., Future[object]]
) -> None:
    store = RunStore(place)
    store.insert("agent", {}, run_id="one")
    with connected(place.records) as connection, transaction(connection, run_turn("one")):
        other = aside(store.update, "one", "running")
        somebody_waits(server)
        assert store.get("one").status == "queued"
    assert other.result(PATIENCE) is True
    assert store.get("one").status == "running"


def test_nobody_writes_beside_a_transaction_without_a_turn(
    place: Workspace, server: Postgres, aside: Callable[..., Future[object]]
) -> None:
    store = RunStore(place)
    store.insert("agent", {}, run_id="one")
    with connected(place.records) as connection, transaction(connection):
        other = aside(store.update, "one", "running")
        somebody_waits(server)
        assert store.get("one").status == "queued"
    assert other.result(PATIENCE) is True


def test_a_transaction_without_a_turn_waits_for_all_that_have_one(
    place: Workspace, server: Postgres, aside: Callable[..., Future[object]]
) -> None:
    store = RunStore(place)
    store.insert("agent", {}, run_id="one")

    def alone() -> object:
        with connected(place.records) as connection, transaction(connection):
            return connection.execute("SELECT status FROM runs WHERE run_id = 'one'").fetchone()[0]

    with connected(place.records) as connection, transaction(connection, run_turn("one")):
        other = aside(alone)
        somebody_waits(server)
        connection.execute("UPDATE runs SET status = 'paused' WHERE run_id = 'one'")
    assert other.result(PATIENCE) == "paused"


def test_an_event_does_not_show_before_one_with_a_lower_number(
    place: Workspace, server: Postgres, aside: Callable[..., Future[object]]
) -> None:
    log = EventLog(place)
    with connected(place.records) as connection, transaction(connection, run_turn("r1")):
        EventLog.record(connection, [event(1)])
        others = [aside(log.append, [event(2)]), aside(recorded, place, event(3))]
        somebody_waits(server)
        assert log.replay() == []
    for other in others:
        other.result(PATIENCE)
    shown = log.replay()
    assert (shown[0].id, {one.id for one in shown}) == ("e1", {"e1", "e2", "e3"})


def recorded(place: Workspace, told: Event) -> None:
    with connected(place.records) as connection, transaction(connection, run_turn(str(told.run_id))):
        EventLog.record(connection, [told])


def test_a_reader_beside_many_writers_misses_no_event(place: Workspace) -> None:
    log, writers, each = EventLog(place), 4, 60
    log.append([event(0)])

    def write(first: int) -> None:
        for number in range(first, first + each, 3):
            recorded(place, event(number))
            log.append([event(number + 1)])
            with connected(place.records) as connection, transaction(connection):
                EventLog.record(connection, [event(number + 2)])

    threads = [threading.Thread(target=write, args=(1 + each * number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    read: list[str] = []
    last = 0
    while True:
        over = not any(thread.is_alive() for thread in threads)
        for found in log.replay(last):
            assert found.seq is not None
            last = found.seq
            read.append(found.id)
        if over:
            break
    assert sorted(read) == sorted(event(number).id for number in range(1 + writers * each))


def test_an_event_that_two_hosts_tell_of_is_recorded_once(
    place: Workspace, server: Postgres, aside: Callable[..., Future[object]]
) -> None:
    log = EventLog(place)
    with connected(place.records) as connection, transaction(connection, run_turn("r1")):
        ((first, new),) = EventLog.record(connection, [event(1)])
        other = aside(log.append, [event(1)])
        somebody_waits(server)
    assert new
    assert other.result(PATIENCE) == [(first, False)]
    assert [one.seq for one in log.replay()] == [first.seq]


def test_a_failed_append_leaves_no_event_and_the_next_one_goes_on(place: Workspace) -> None:
    log = EventLog(place)
    with pytest.raises(HiveError, match="NUL"):
        log.append([event(1), Event(EventType.RUN_FAILED, thread_id="a\0b")])
    assert log.replay() == []
    assert [new for _, new in log.append([event(1), event(1)])] == [True, False]
