from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import Event, EventLog, EventType
from hive_agents.runs import Lease, LeaseLost, Leases, RunStore
from hive_agents.runs.leases import LOST, Hold
from hive_agents.store import connected
from tests.runs.contract import Clock, LeasesContract, RunStoreContract


class TestSqliteRuns(RunStoreContract):
    @pytest.fixture
    def store(self, place: Workspace) -> RunStore:
        return RunStore(place)


class TestSqliteLeases(LeasesContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def leases(self, place: Workspace, clock: Clock) -> Leases:
        return Leases(place, clock=clock)

    @pytest.fixture
    def write(self, place: Workspace) -> Callable[[Lease], bool]:
        store = RunStore(place)
        run = store.insert("event_loop", {})[0].run_id
        return lambda lease: store.update(run, "running", lease=lease)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_an_hour_wrong_breaks_no_fence(place: Workspace, hours: int) -> None:
    """One that is fast takes a thread too early, and fencing tells the other; one that is slow waits."""
    right, wrong = Clock(), Clock()
    wrong.now += hours * 3600
    first = Leases(place, clock=right).acquire("t1", "r1")
    second = Leases(place, clock=wrong).acquire("t1", "r1")
    assert first is not None
    assert (second is None) == (hours < 0)
    assert first.renew() == (hours < 0)
    if second is not None:
        assert second.renew()
        assert Leases(place, clock=right).acquire("t1", "r1") is None
    else:
        first.release()
        assert Leases(place, clock=wrong).acquire("t1", "r1") is not None


def test_each_move_is_told_of_in_the_log(place: Workspace) -> None:
    store = RunStore(place)
    run = store.insert("event_loop", {}, agent="digest")[0].run_id
    for seen, to in (("queued", "paused"), ("paused", "queued"), ("queued", "stopped"), ("queued", "paused")):
        store.move(run, seen, "user:dana", to=to)
    told = [(str(event.type), event.payload.get("by")) for event in EventLog(place).replay(run_id=run)]
    by = "user:dana"
    assert told == [("run.queued", None), ("run.paused", by), ("run.queued", by), ("run.stopped", by)]


def test_the_requests_of_one_run_are_withdrawn(place: Workspace) -> None:
    store, requests = RunStore(place), ApprovalStore(place)
    runs = [store.insert("event_loop", {})[0].run_id for _ in range(2)]
    asked, other = (
        requests.file(Filing(kind="question", title="Why?", requester="agent:a", run_id=one)) for one in runs
    )
    store.withdraw(runs[0], why="nobody needs it")
    assert [requests.get(one.id).status for one in (asked, other)] == ["superseded", "pending"]


def test_the_lease_of_a_deleted_run_goes_with_it_and_its_next_run_keeps_its_own(place: Workspace) -> None:
    """Also while a worker has it, which then may write no more; a thread's row names the run that was last at work."""
    store, leases = RunStore(place), Leases(place)
    first, second = (store.insert("worker", {}, thread_id="talk")[0].run_id for _ in range(2))
    held = leases.acquire("talk", second)
    assert held is not None
    store.delete(first)
    held.check()
    store.delete(second)
    with pytest.raises(LeaseLost):
        held.check()
    with connected(place.records) as connection:
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)


def test_a_deleted_run_leaves_nothing_of_it_in_the_database(place: Workspace) -> None:
    from hive_agents import runs
    from hive_agents.store import connected

    store = RunStore(place)
    kept, gone = (store.insert("event_loop", {}, agent="digest")[0] for _ in range(2))
    for row in (kept, gone):
        runs.say(place, row.run_id, "hello")
        assert Leases(place).acquire(row.thread_id, row.run_id) is not None
    store.delete(gone.run_id)
    assert [row.run_id for row in store.list()] == [kept.run_id]
    with connected(place.records) as connection:
        for table in ("runs", "conversations", "messages", "leases"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_whoever_had_a_deleted_run_does_not_pass_for_the_next_worker_of_its_thread(place: Workspace) -> None:
    store, leases = RunStore(place), Leases(place, seconds=0)
    run = store.insert("event_loop", {}, thread_id="t")[0].run_id
    silent = leases.acquire("t", run)
    store.delete(run)
    other = Leases(place).acquire("t", "r2")
    assert silent is not None
    assert other is not None
    assert not silent.renew()
    with pytest.raises(LeaseLost):
        silent.check()


def test_a_lease_of_which_nothing_is_known_lets_nobody_write(place: Workspace) -> None:
    lease = Leases(place).acquire("t", "r1")
    assert lease is not None
    lease.check()
    with connected(place.records) as connection:
        connection.execute("DELETE FROM leases")
    with pytest.raises(LeaseLost):
        lease.check()


def test_the_lease_of_a_living_worker_is_not_cleared(place: Workspace) -> None:
    leases = Leases(place)
    lease = leases.acquire("t", "r1")
    assert lease is not None
    leases.clear("t")
    assert leases.is_held("t")
    lease.check()


def test_half_of_its_time_a_lease_is_sure_to_last(place: Workspace) -> None:
    clock = Clock()
    leases = Leases(place, seconds=30.0, clock=clock)
    lease = leases.acquire("t", "r1")
    assert lease is not None
    assert lease.lasts
    clock.now += 16
    assert not lease.lasts, "somebody may have taken it soon"


async def test_a_worker_is_told_that_another_has_its_run(place: Workspace) -> None:
    lease = Leases(place, seconds=0.3).acquire("t", "r1")
    assert lease is not None
    told: list[str] = []
    async with Hold(lease, told.append):
        with connected(place.records) as connection:
            connection.execute("UPDATE leases SET fence = fence + 1")
        until = time.monotonic() + 30
        while not told and time.monotonic() < until:
            await asyncio.sleep(0.02)
    assert told == [LOST]


def test_a_status_and_what_is_told_of_it_are_one(place: Workspace) -> None:
    """Neither is there where the lease is lost, or somebody asked for something since the row was read."""
    store, leases = RunStore(place), Leases(place, seconds=0)
    row = store.insert("event_loop", {}, status="running")[0]
    first, second = (leases.acquire(row.thread_id, row.run_id) for _ in range(2))
    told = Event(EventType.RUN_COMPLETED, row.run_id)
    with pytest.raises(LeaseLost):
        store.update(row.run_id, "done", lease=first, told=told)
    store.move(row.run_id, "running", "user:dana", control="pause")
    assert not store.update(row.run_id, "done", lease=second, told=told, seen=row)
    assert (store.get(row.run_id).status, EventLog(place).replay()) == ("running", [])
    assert store.update(row.run_id, "done", lease=second, told=told)
    assert [event.id for event in EventLog(place).replay()] == [told.id]


@pytest.mark.parametrize(
    ("by", "broke_off"),
    [(None, True), ("interrupted", True), ("fault", True), ("HIVE-401", True), ("oidc:dana", False)],
)
def test_a_run_that_broke_off_is_told_from_one_that_somebody_stopped(
    place: Workspace, by: str | None, broke_off: bool
) -> None:
    store = RunStore(place)
    run = store.insert("event_loop", {})[0].run_id
    store.update(run, "stopped", stopped_by=by)
    assert store.get(run).broke_off == broke_off
