"""Runs that are over go with all that belongs to them; old runs and events go by themselves."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.base.errors import HiveError
from hive_agents.events import EventLog
from hive_agents.host.housekeeping import Pruned, delete_run, prune, steady_now
from hive_agents.memory import ConversationStore
from hive_agents.models import Message
from hive_agents.runs import RunStore
from hive_agents.runs.checkpoints import checkpointer
from hive_agents.runs.driver import leases_of
from hive_agents.store import connected
from hive_agents.store.database import give_back
from tests.host.hosting import prepared, queued, seams

TALKS = (("queen", "queen:dana"), ("queen", "queen:omar"), ("digest", "r1"))


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return prepared(tmp_path / "ws")


async def done(place: Workspace) -> str:
    run = queued(place)
    await AgentRun.resume(place, run, **seams(place.root)).work(wait=0)
    return run


def left_of(place: Workspace, run: str) -> dict[str, int]:
    """Rows that name the run, by table."""
    found = {}
    with connected(place.records) as connection:
        for table in ("runs", "effects", "conversations", "leases"):
            query = f"SELECT count(*) FROM {table} WHERE run_id = ?"
            found[table] = connection.execute(query, (run,)).fetchone()[0]
    with checkpointer(place) as saver:
        checkpoints = list(saver.list({"configurable": {"thread_id": run}}))
    found["checkpoints"] = len(checkpoints)
    found["writes"] = sum(len(one.pending_writes or ()) for one in checkpoints)
    return found


def leases_recorded(place: Workspace) -> int:
    with connected(place.records) as connection:
        return int(connection.execute("SELECT count(*) FROM leases").fetchone()[0])


async def test_a_run_goes_with_all_that_belongs_to_it_and_no_other_does(place: Workspace) -> None:
    gone, kept = await done(place), await done(place)
    for run in (gone, kept):  # as of a run that was asked something
        with checkpointer(place) as saver:
            newest = saver.get_tuple({"configurable": {"thread_id": run}})
            assert newest is not None
            saver.put_writes(newest.config, [("asked", ["a1"])], "a task")
            saver.conn.commit()
    assert all(left_of(place, gone).values())
    delete_run(place, gone)
    assert set(left_of(place, gone).values()) == {0}
    assert leases_recorded(place) == 1
    assert not (place.state / "runs" / gone).exists()
    assert all(left_of(place, kept).values())
    assert (place.state / "runs" / kept).is_dir()
    assert len(ConversationStore(place).of_run(kept)) >= 1
    with pytest.raises(HiveError, match="HIVE-409"):
        delete_run(place, gone)


@pytest.mark.parametrize("status", ["queued", "running", "waiting"])
def test_a_run_that_is_not_over_is_not_deleted(place: Workspace, status: str) -> None:
    run = queued(place)
    RunStore(place).update(run, status)
    with pytest.raises(HiveError, match="stop it first") as caught:
        delete_run(place, run)
    assert caught.value.exit_code == 2
    assert RunStore(place).get(run).status == status
    assert not leases_of(place).held()


def test_nobody_is_asked_for_a_run_that_is_gone(place: Workspace) -> None:
    gone, kept = queued(place), queued(place)
    store = ApprovalStore(place)
    asked, other = (
        store.file(Filing(kind="question", title="Which one?", requester="agent:digest", run_id=run)).id
        for run in (gone, kept)
    )
    RunStore(place).update(gone, "paused")
    delete_run(place, gone)
    assert (store.get(asked).status, store.get(other).status) == ("superseded", "pending")


async def test_a_run_that_somebody_works_on_is_not_deleted(place: Workspace) -> None:
    run = await done(place)
    assert leases_of(place).acquire(RunStore(place).get(run).thread_id, run)
    with pytest.raises(HiveError, match="worked on"):
        delete_run(place, run)


@pytest.mark.parametrize("linked", ["runs", "runs/{run}"])
async def test_nothing_behind_a_link_is_deleted(place: Workspace, linked: str) -> None:
    run = await done(place)
    folder = place.state / linked.format(run=run)
    (place.state / "runs" / run / "kept.txt").write_text("kept")
    elsewhere = folder.rename(place.root / "elsewhere")
    folder.symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(HiveError, match="HIVE-114"):
        delete_run(place, run)
    assert [file.read_text() for file in elsewhere.rglob("kept.txt")] == ["kept"]
    assert RunStore(place).get(run)
    assert not leases_of(place).held()


async def test_what_ended_long_ago_is_pruned_and_what_waits_is_not(place: Workspace) -> None:
    old, waiting = await done(place), queued(place)
    events = len(EventLog(place).replay())
    now = dt.datetime.now(dt.UTC)
    assert prune(place, now + dt.timedelta(days=89)) == Pruned()
    assert prune(place, now + dt.timedelta(days=91)) == Pruned(1, events)
    assert [row.run_id for row in RunStore(place).list()] == [waiting]
    assert leases_recorded(place) == 0
    with pytest.raises(HiveError):
        RunStore(place).get(old)


async def test_a_clock_that_jumps_ahead_deletes_nothing(place: Workspace) -> None:
    await done(place)
    events, wall = len(EventLog(place).replay()), dt.datetime.now(dt.UTC)
    assert prune(place, steady_now(place, wall + dt.timedelta(days=4000))) == Pruned()
    assert prune(place, steady_now(place, wall)) == Pruned()
    assert steady_now(place, wall) == wall
    assert prune(place, steady_now(place, wall + dt.timedelta(days=400))) == Pruned()
    assert len(EventLog(place).replay()) == events


async def test_after_a_long_rest_pruning_catches_up_by_and_by(place: Workspace) -> None:
    await done(place)
    late = dt.datetime.now(dt.UTC) + dt.timedelta(days=91)
    days = 0
    while steady_now(place, late) < late:
        days += 1
    assert 40 < days < 50
    assert prune(place, steady_now(place, late)).runs == 1


async def test_without_a_retention_all_is_kept(place: Workspace) -> None:
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text() + "retention_days = 0\n[judge]\nretention_days = 0\n")
    await done(place)
    assert prune(Workspace(place.root), dt.datetime.now(dt.UTC) + dt.timedelta(days=9_999)) == Pruned()


def test_what_the_queen_heard_and_did_long_ago_is_forgotten_and_the_rest_goes_on(place: Workspace) -> None:
    talks, now = ConversationStore(place), dt.datetime.now(dt.UTC)
    long_ago = (now - dt.timedelta(days=91)).isoformat(timespec="milliseconds")
    silent, going_on, agents = (talks.create(agent, run) for agent, run in TALKS)
    with connected(place.records) as connection:
        for talk in (silent, going_on, agents):
            talks.append(talk, Message(role="user", content="long ago"))
        connection.execute("UPDATE messages SET at = ?", (long_ago,))
        connection.execute("UPDATE conversations SET created_at = ?", (long_ago,))
        for key, at, status in (("old", long_ago, "done"), ("begun", long_ago, "begun"), ("new", now, "done")):
            row = (key, str(at), None, "local", None, "tell", status, "{}")
            connection.execute("INSERT INTO queen_actions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    talks.append(going_on, Message(role="user", content="today"))

    prune(place, now)
    left = ConversationStore(place)
    assert [entry.message.content for entry in left.messages(going_on)] == ["today"]
    assert [entry.n for entry in left.messages(going_on, since=1)] == [2]
    assert [entry.message.content for entry in left.messages(agents)] == ["long ago"]
    with pytest.raises(HiveError, match="no conversation"):
        left.messages(silent)
    assert left.append(going_on, Message(role="user", content="again")).n == 3
    with connected(place.records) as connection:
        assert [row[0] for row in connection.execute("SELECT key FROM queen_actions")] == ["begun", "new"]


async def test_runs_of_one_thread_go_together_and_one_at_work_stays(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.host.housekeeping.AT_ONCE", 2)
    runs = [await done(place) for _ in range(3)]
    threads = [RunStore(place).get(run).thread_id for run in runs]
    with connected(place.records) as connection:  # as questions of a chat
        connection.execute("UPDATE runs SET thread_id = ? WHERE run_id = ?", (threads[0], runs[1]))
    worked = leases_of(place).acquire(threads[2], runs[2])
    assert prune(place, dt.datetime.now(dt.UTC) + dt.timedelta(days=91)).runs == 2
    assert [row.run_id for row in RunStore(place).list()] == [runs[2]]
    assert worked is not None
    assert leases_of(place).acquire(threads[0], "another")


async def test_a_run_behind_a_link_does_not_keep_others(place: Workspace) -> None:
    kept, gone = await done(place), await done(place)
    folder = place.state / "runs" / kept
    folder.symlink_to(folder.rename(place.root / "elsewhere"), target_is_directory=True)
    assert prune(place, dt.datetime.now(dt.UTC) + dt.timedelta(days=91)).runs == 1
    assert [row.run_id for row in RunStore(place).list()] == [kept]
    assert set(left_of(place, gone).values()) == {0}


@pytest.mark.sqlite_file
async def test_what_was_pruned_is_given_back_to_the_disk(place: Workspace) -> None:
    run = await done(place)
    with connected(place.records) as connection:
        connection.execute("UPDATE messages SET parts = ?", ("x" * 100_000,))
    files = (place.database, place.state / "checkpoints.db")
    for file in files:
        with closing(sqlite3.connect(file)) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = [file.stat().st_size for file in files]
    assert prune(place, dt.datetime.now(dt.UTC) + dt.timedelta(days=91)).runs == 1
    for file, size in zip(files, before, strict=True):
        with closing(sqlite3.connect(file)) as opened:
            assert opened.execute("PRAGMA freelist_count").fetchone() == (0,)
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert file.stat().st_size < size
    with pytest.raises(HiveError):
        RunStore(place).get(run)


@pytest.mark.parametrize("file", ["hive.db", "checkpoints.db"])
def test_a_file_of_before_keeps_its_pages(place: Workspace, file: str) -> None:
    path = place.state / file
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE big (x)")
        made.execute("INSERT INTO big VALUES (zeroblob(1000000))")
        made.execute("DROP TABLE big")
        made.commit()
        unused = made.execute("PRAGMA freelist_count").fetchone()[0]
    give_back(path)
    with closing(sqlite3.connect(path)) as same:
        assert same.execute("PRAGMA freelist_count").fetchone()[0] == unused > 0
