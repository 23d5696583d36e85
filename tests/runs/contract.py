"""What every run store and all leases must do: subclass, give the fixtures, and the tests run against them."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents.access import Principal
from hive_agents.base.errors import HiveError
from hive_agents.runs import LeaseLost, Leases, RunStore

DANA, KIM = Principal("acme", "dana"), Principal("globex", "kim")


def code_of(error: pytest.ExceptionInfo[HiveError]) -> tuple[str, int]:
    return error.value.diagnostics[0].code, error.value.exit_code


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class RunStoreContract:
    """Needs a fixture `store`: an empty store."""

    def test_a_run_comes_back_as_it_was_written(self, store: RunStore) -> None:
        row, new = store.insert("event_loop", {"input": {"topic": "é\ud800"}}, agent="digest", owner=DANA)
        assert new
        assert store.get(row.run_id) == row
        assert (row.status, row.tenant, row.user, row.agent) == ("queued", "acme", "dana", "digest")
        assert (row.value, row.result) == ({"input": {"topic": "é\ud800"}}, None)
        assert row.thread_id == f"digest:{row.run_id}"
        assert store.insert("worker", {}, thread_id="t1")[0].thread_id == "t1"

    def test_an_unknown_run_is_wrong_usage(self, store: RunStore) -> None:
        with pytest.raises(HiveError) as error:
            store.get("r0")
        assert code_of(error) == ("HIVE-409", 2)

    def test_lists_are_newest_first_and_narrowed(self, store: RunStore) -> None:
        mine = store.insert("event_loop", {}, owner=DANA)[0].run_id
        hers = store.insert("event_loop", {}, owner=KIM, status="running")[0].run_id
        last = store.insert("worker", {}, owner=DANA, status="waiting")[0].run_id

        def listed(**wanted: Any) -> list[str]:
            return [row.run_id for row in store.list(**wanted)]

        assert listed() == [last, hers, mine]
        assert listed(limit=1) == [last]
        assert listed(status="running") == [hers]
        assert listed(status=("queued", "waiting")) == [last, mine]
        assert listed(status=()) == []
        assert listed(tenant="acme") == [last, mine]
        assert listed(tenant="globex", user="dana") == []

    def test_a_key_starts_one_run_in_its_tenant(self, store: RunStore) -> None:
        first, new = store.insert("event_loop", {"input": 1}, owner=DANA, key="k")
        again, other = store.insert("event_loop", {"input": 1}, owner=DANA, key="k")
        assert (new, other, again.run_id) == (True, False, first.run_id)
        assert not store.has_key("k", tenant=KIM.tenant)
        assert store.insert("event_loop", {"input": 1}, owner=KIM, key="k")[1]
        assert store.has_key("k", tenant=KIM.tenant)
        assert not store.has_key("another", tenant=KIM.tenant)
        with pytest.raises(HiveError) as error:
            store.insert("event_loop", {"input": 2}, owner=DANA, key="k")
        assert code_of(error) == ("HIVE-409", 2)
        assert len(store.list()) == 2

    def test_how_it_stands_is_recorded(self, store: RunStore) -> None:
        run = store.insert("event_loop", {})[0].run_id
        store.update(run, "failed", result={"a": 1}, stopped_by="steps", error={"code": "HIVE-423", "message": "out"})
        row = store.get(run)
        assert (row.status, row.result) == ("failed", {"a": 1})
        assert row.summary["error"] == {"code": "HIVE-423", "message": "out"}
        assert row.summary["ended_at"] is not None
        store.update(run, "queued")
        assert (store.get(run).result, store.get(run).summary["ended_at"]) == (None, None)

    def test_a_move_happens_only_from_the_status_that_was_seen(self, store: RunStore) -> None:
        run = store.insert("event_loop", {})[0].run_id
        row, done = store.move(run, "queued", "user:dana", to="paused")
        assert (row.status, done) == ("paused", True)
        row, done = store.move(run, "queued", "user:dana", to="stopped")
        assert (row.status, done) == ("paused", False)

    def test_a_control_is_asked_of_the_worker_and_ends_when_it_rests(self, store: RunStore) -> None:
        run = store.insert("event_loop", {}, status="running")[0].run_id
        row, _ = store.move(run, "running", "user:dana", control="pause")
        assert (row.status, row.control, row.control_by) == ("running", "pause", "user:dana")
        store.update(run, "running")
        assert store.get(run).control == "pause"
        store.update(run, "paused")
        assert store.get(run).control is None

    def test_one_run_is_named_as_several_are(self, store: RunStore) -> None:
        first, second, third = (store.insert("event_loop", {}, owner=DANA)[0].run_id for _ in range(3))
        assert [row.run_id for row in store.of(first)] == [first]
        assert {row.run_id for row in store.of(third, first)} == {first, third}
        assert store.update(third, "done", among="queued")
        assert [store.count(names, tenant="acme", user="dana") for names in ("done", "queued", ("done", "queued"))] == [
            1,
            2,
            3,
        ]
        store.delete(second)
        assert [row.run_id for row in store.list()] == [third, first]
        store.delete(first, third)
        assert (store.list(), store.of()) == ([], [])


class LeasesContract:
    """Needs a fixture `leases`, which last 30 s by the fixture `clock`, and `write`, a write that requires a lease."""

    def test_a_thread_has_one_worker_at_a_time(self, leases: Leases) -> None:
        lease = leases.acquire("t1", "r1")
        assert lease is not None
        assert leases.acquire("t1", "r1") is None
        assert leases.acquire("t2", "r2") is not None
        assert (leases.is_held("t1"), leases.is_held("t3")) == (True, False)
        lease.release()
        assert not leases.is_held("t1")
        assert leases.acquire("t1", "r1") is not None

    def test_a_lease_lasts_as_long_as_it_is_renewed(self, leases: Leases, clock: Clock) -> None:
        lease = leases.acquire("t1", "r1")
        assert lease is not None
        for _ in range(5):
            clock.now += 29
            assert lease.renew()
            assert leases.acquire("t1", "r2") is None
        clock.now += 31
        assert not leases.is_held("t1")
        assert leases.acquire("t1", "r2") is not None

    def test_whoever_was_silent_too_long_writes_no_more(self, leases: Leases, clock: Clock, write: Any) -> None:
        first = leases.acquire("t1", "r1")
        assert first is not None
        clock.now += 31
        write(first)
        second = leases.acquire("t1", "r1")
        assert second is not None
        assert second.fence > first.fence
        assert not first.renew()
        with pytest.raises(LeaseLost) as error:
            write(first)
        assert code_of(error) == ("HIVE-425", 3)
        first.release()
        assert leases.is_held("t1"), "what it lost it can't give back"
        write(second)

    def test_a_fence_rises_with_each_worker(self, leases: Leases) -> None:
        fences = []
        for _ in range(3):
            lease = leases.acquire("t1", "r1")
            assert lease is not None
            fences.append(lease.fence)
            lease.release()
        assert fences == sorted(set(fences))
