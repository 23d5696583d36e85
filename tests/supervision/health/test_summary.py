from __future__ import annotations

import pytest

from hive_agents.store import connected
from hive_agents.supervision.health.summary import LAST_EVENTS, WorkerHealth, get_worker_health_summary
from tests.supervision.health.colony import Colony


def health(colony: Colony) -> WorkerHealth:
    (found,) = get_worker_health_summary(colony.workspace, now=colony.now)
    return found


def test_verdicts_are_counted_and_retries_are_those_of_the_last_ten(colony: Colony) -> None:
    colony.run("r1")
    for turn in range(14):
        colony.judged("r1", "accept" if turn < 5 else "retry", turn)
    found = health(colony)
    assert found.verdicts == {"accept": 5, "retry": 9}
    assert (found.retries, found.judged, found.feedback) == (9, 10, "too short")


def test_a_pattern_of_turns_is_found_whatever_order_results_come_in(colony: Colony) -> None:
    colony.run("r1")
    colony.call("r1", "start", 1)
    for turn in range(2, 8):
        first, second = (0, 1) if turn % 4 else (1, 0)
        for n in (first, second):
            colony.call("r1", "ab"[n] if turn % 2 else "cd"[n], turn, n=n)
    loop = health(colony).loop
    assert loop is not None
    assert (loop.period, loop.times, loop.tools) == (2, 3, ["read_page"])
    colony.call("r1", "c", 8)  # the first result of the next turn doesn't hide the loop
    assert health(colony).loop == loop
    colony.call("r1", "something new", 9)
    assert health(colony).loop is None


def test_a_counter_that_moves_is_no_repetition(colony: Colony) -> None:
    colony.run("r1")
    for page in range(20):
        colony.call("r1", f"page={page}", page)
    assert health(colony).identical_calls == 1


def test_a_completed_phase_and_a_fresh_start_end_what_went_on_before(colony: Colony) -> None:
    for event in ("node.completed", "run.resumed"):
        run_id = colony.run(event.replace(".", "-"))
        for turn in range(5):
            colony.call(run_id, "same", turn, error="no such page")
        colony.tell(run_id, event)
        colony.call(run_id, "same", 6)
    found = get_worker_health_summary(colony.workspace, now=colony.now)
    assert [one.identical_calls for one in found] == [1, 1]
    assert {one.run_id: len(one.errors) for one in found} == {"node-completed": 1, "run-resumed": 0}


def test_only_what_is_new_is_progress(colony: Colony) -> None:
    colony.run("r1")
    colony.later(seconds=60)
    colony.call("r1", "a", 1)
    colony.tell("r1", "output.set", key="items")
    for again in ("call", "output", "failed", "verdict"):
        colony.later(seconds=100)
        if again == "call":
            colony.call("r1", "a", 2)
        elif again == "output":
            colony.tell("r1", "output.set", key="items")
        elif again == "failed":
            colony.call("r1", "b", 3, error="no such page")
        else:
            colony.judged("r1", "retry", 4)
    assert health(colony).idle_seconds == 400.0
    colony.call("r1", "b", 5)
    assert health(colony).idle_seconds == 0.0


def test_who_waits_is_paused_or_just_told_its_end_is_not_idle(colony: Colony) -> None:
    colony.run("r1")
    colony.later(hours=5)
    for status in ("waiting", "paused", "queued"):
        colony.row("r1", status=status)
        assert health(colony).idle_seconds is None
    colony.row("r1", status="running")
    assert health(colony).idle_seconds == 18_000.0
    colony.tell("r1", "run.failed")
    assert health(colony).idle_seconds is None


def test_spending_is_measured_against_the_limits_that_there_are(colony: Colony) -> None:
    colony.run("r1", steps=40, usd=2.0)
    colony.row("r1", steps=10, tokens=5_000, usd=1.5)
    found = health(colony)
    assert found.shares == {"steps": 0.25, "usd": 0.75}
    assert found.spent["tokens"] == 5_000.0


@pytest.mark.sqlite_file  # counts statements by SQLite's own trace
def test_it_reads_three_queries_and_the_last_events_only(colony: Colony) -> None:
    for n in range(30):
        colony.run(f"r{n}")
    for turn in range(250):
        colony.call("r0", "same", turn)
    queries: list[str] = []
    with connected(colony.workspace.records) as connection:
        connection.set_trace_callback(queries.append)
    found = get_worker_health_summary(colony.workspace, now=colony.now)
    with connected(colony.workspace.records) as connection:
        connection.set_trace_callback(None)
    assert {one.run_id: one.identical_calls for one in found}["r0"] == LAST_EVENTS
    assert len(found) == 30
    assert len(queries) == 3
    assert all(query.startswith(("SELECT", "WITH")) for query in queries)


def test_a_damaged_row_hides_no_other(colony: Colony) -> None:
    colony.run("r1")
    colony.run("r2")
    colony.row("r1", input="{", error="{")
    found = get_worker_health_summary(colony.workspace, now=colony.now)
    assert {one.run_id: one.limits for one in found} == {"r1": {}, "r2": {"steps": 200.0}}


def test_other_graphs_tenants_and_old_ends_are_left_out(colony: Colony) -> None:
    colony.store.insert("worker", {}, run_id="chat", status="running")
    colony.run("other", tenant="acme")
    colony.run("old")
    colony.end("old", "failed", "fault", "HIVE-422")
    colony.later(hours=2)
    colony.run("mine")
    found = get_worker_health_summary(colony.workspace, now=colony.now, tenant="local")
    assert [one.run_id for one in found] == ["mine"]
    assert len(get_worker_health_summary(colony.workspace, now=colony.now, tenant="local", also={"old"})) == 2


def test_runs_with_open_tickets_come_first_where_there_are_too_many(
    colony: Colony, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is left out would look deleted."""
    monkeypatch.setattr("hive_agents.supervision.health.summary.MOST_RUNS", 2)
    for n in range(5):
        colony.run(f"r{n}")
        colony.later(seconds=1)
    found = get_worker_health_summary(colony.workspace, now=colony.now, also={"r0", "r1"})
    assert [one.run_id for one in found] == ["r1", "r0", "r4", "r3"]
