"""What may be done to a run in each of its statuses."""

from __future__ import annotations

import pytest

from hive_agents import Workspace, runs
from hive_agents.base.errors import HiveError
from hive_agents.events import EventLog
from hive_agents.memory import ConversationStore
from hive_agents.runs import Leases, RunStore

NO = "HIVE-409"
# By status: what pause, stop and resume make of it; a + is asked of whoever works on the run.
TABLE = {
    "queued": ("paused", "stopped", "queued"),
    "running": ("running+pause", "running+stop", "running"),
    "waiting": ("paused", "stopped", "waiting"),
    "paused": ("paused", "stopped", "queued"),
    "stopped": (NO, "stopped", "queued"),
    "done": (NO, NO, NO),
    "failed": (NO, NO, NO),
}


def done(place: Workspace, verb: str, run: str) -> str:
    try:
        row = getattr(runs, verb)(place, run, "user:dana")
    except HiveError as error:
        return error.diagnostics[0].code if error.exit_code == 2 else "not wrong usage"
    assert row == RunStore(place).get(run)
    return str(row.status) + (f"+{row.control}" if row.control else "")


@pytest.mark.parametrize("status", TABLE)
@pytest.mark.parametrize(("verb", "column"), [("pause", 0), ("stop", 1), ("resume", 2)])
def test_what_becomes_of_it(place: Workspace, status: str, verb: str, column: int) -> None:
    """A run that is worked on is asked; `test_what_a_dead_worker_left_rests_at_once` has the other kind."""
    row, _ = RunStore(place).insert("event_loop", {}, agent="digest", status=status)
    run, _ = row.run_id, Leases(place).acquire(row.thread_id, row.run_id)
    wanted = TABLE[status][column]
    assert done(place, verb, run) == wanted
    assert RunStore(place).get(run).status == (status if wanted == NO else wanted.partition("+")[0])


@pytest.mark.parametrize("status", TABLE)
def test_who_listens(place: Workspace, status: str) -> None:
    row, _ = RunStore(place).insert("event_loop", {}, agent="digest", status=status)
    if status in runs.ENDED:
        with pytest.raises(HiveError, match="doesn't listen"):
            runs.say(place, row.run_id, "hello")
        return
    for words in ("one", "two", "three"):
        runs.say(place, row.run_id, words)
        runs.say(place, row.run_id, words, key=f"k{words}")
        runs.say(place, row.run_id, words, key=f"k{words}")
    store = ConversationStore(place)
    (conversation,) = store.of_run(row.run_id)
    said = [entry.message.content for entry in store.messages(conversation)]
    assert said == ["one", "one", "two", "two", "three", "three"]


@pytest.mark.parametrize("graph", ["optimizer", "worker"])
def test_runs_of_every_kind_are_steered_alike_and_only_agents_listen(place: Workspace, graph: str) -> None:
    for status, wanted in TABLE.items():
        for verb, then in zip(("pause", "stop", "resume"), wanted, strict=True):
            row, _ = RunStore(place).insert(graph, {}, status=status)
            _ = Leases(place).acquire(row.thread_id, row.run_id)
            assert done(place, verb, row.run_id) == then, (verb, status)
    run = RunStore(place).insert(graph, {}, status="stopped")[0].run_id
    with pytest.raises(HiveError):
        runs.say(place, run, "hello")


def test_a_stop_weighs_more_than_a_pause_before_it_and_after_it(place: Workspace) -> None:
    row, _ = RunStore(place).insert("event_loop", {}, status="running")
    lease = Leases(place).acquire(row.thread_id, row.run_id)
    asked = [done(place, verb, row.run_id) for verb in ("pause", "stop", "pause")]
    assert asked == ["running+pause", "running+stop", "running+stop"]
    runs.pause(place, row.run_id, "service:queen")
    assert RunStore(place).get(row.run_id).control_by == "user:dana"
    assert lease is not None
    lease.release()
    left = runs.pause(place, row.run_id, "service:queen")
    assert (left.status, left.summary["stopped_by"]) == ("stopped", "user:dana")


@pytest.mark.parametrize(("verb", "then"), [("pause", "paused"), ("stop", "stopped")])
def test_what_a_dead_worker_left_rests_at_once(place: Workspace, verb: str, then: str) -> None:
    run = RunStore(place).insert("event_loop", {}, status="running")[0].run_id
    assert done(place, verb, run) == then
    assert done(place, "resume", run) == "queued"


def test_whoever_stopped_it_is_named_until_it_goes_on(place: Workspace) -> None:
    run = RunStore(place).insert("event_loop", {})[0].run_id
    stopped = runs.stop(place, run, "user:dana").summary
    assert (stopped["stopped_by"], stopped["ended_at"] is None) == ("user:dana", False)
    queued = runs.resume(place, run, "user:kim").summary
    assert (queued["stopped_by"], queued["ended_at"]) == (None, None)


def test_each_change_is_told_of_however_fast_they_follow_one_another(place: Workspace) -> None:
    run = RunStore(place).insert("event_loop", {})[0].run_id
    for verb in ("pause", "resume", "pause", "resume"):
        done(place, verb, run)
    told = [str(event.type) for event in EventLog(place).replay(run_id=run)]
    assert told == ["run.queued", "run.paused", "run.queued", "run.paused", "run.queued"]
