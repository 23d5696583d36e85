"""Runs are taken from the queue, worked on by one worker at a time, and never for ever in vain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import INTERRUPT, empty_checkpoint

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.events import EventBus, EventLog
from hive_agents.host.decisions import HOST, decide, finish
from hive_agents.host.dispatcher import DEATHS, Dispatcher
from hive_agents.models import Chain
from hive_agents.runs import LeaseLost, RunStore, pause, resume, stop
from hive_agents.runs.checkpoints import async_checkpointer
from hive_agents.runs.driver import Attempt, leases_of
from hive_agents.store import connected
from tests.agents.conftest import agent_json, node, write_json
from tests.agents.loops import Told
from tests.host.hosting import TURNS, effects, host, prepared, queued, seams, until


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return prepared(tmp_path / "ws")


def told(place: Workspace, run: str) -> list[str]:
    events = [str(event.type) for event in EventLog(place).replay(run_id=run)]
    return [name.removeprefix("run.") for name in events if name.startswith("run.")]


async def test_queued_runs_are_done_with_every_effect_once(place: Workspace) -> None:
    runs = [queued(place) for _ in range(3)]
    async with host(place, parallel=2):
        await until(place, "done", *runs)
    for run in runs:
        assert effects(place, run) == [(f"step {n}", 1) for n in range(TURNS)]
    assert told(place, runs[0]) == ["queued", "started", "completed"]


async def test_a_run_whose_worker_died_is_taken_and_one_that_is_worked_on_is_not(place: Workspace) -> None:
    dead, mine = queued(place), queued(place)
    for run in (dead, mine):
        RunStore(place).update(run, "running")
    lease = leases_of(place).acquire(RunStore(place).get(mine).thread_id, mine)
    assert lease is not None
    async with host(place):
        await until(place, "done", dead)
        assert effects(place, mine) == []
        lease.release()
        await until(place, "done", mine)


async def test_runs_that_an_outage_left_behind_are_no_longer_lost_while_they_wait_for_room(place: Workspace) -> None:
    """The health judge tells of a running run whose lease has ended: of none that a host knows of."""
    left = queued(place)
    thread = RunStore(place).get(left).thread_id
    RunStore(place).update(left, "running")
    with connected(place.records) as connection:
        connection.execute("INSERT INTO leases VALUES (?, ?, 'dead', 1, 1.0)", (thread, left))
    async with dispatching(place, parallel=0, **seams(place.root)) as dispatcher:
        await dispatcher.looked.wait()
        with connected(place.records) as connection:
            assert connection.execute("SELECT fence, expires_at FROM leases").fetchall() == [(1, 0.0)]


async def test_one_of_four_places_is_kept_for_questions(place: Workspace) -> None:
    runs = [queued(place, seconds=0.2) for _ in range(5)]
    most = 0
    async with host(place, parallel=4) as hosted:
        while any(RunStore(place).get(run).status != "done" for run in runs):
            most = max(most, len(hosted.dispatcher.active))
            await asyncio.sleep(0.01)
    assert most == 3


async def test_a_decision_wakes_the_run_that_waits_for_it(place: Workspace) -> None:
    run = queued(place, "careful")
    async with host(place):
        await until(place, "waiting", run)
        (request,) = ApprovalStore(place).list("pending")
        ApprovalStore(place).decide(request.id, "approve", by="dana")
        await until(place, "done", run)
    assert effects(place, run) == [(f"step {n}", 1) for n in range(TURNS)]


def test_a_decision_leaves_the_run_to_a_host_where_there_is_one(place: Workspace) -> None:
    script = [{"tool_calls": [{"name": "ask_user", "args": {"question": "Which?"}}]}]
    script += [{"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "that"}}]}]
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, script)))
    talk = node("talk", output_keys=["text"], client_facing=True)
    write_json(place, "agents/talker.json", agent_json(talk, id="talker", model="scripted:script.jsonl"))
    run = AgentRun.start(place, "talker", {}).go()
    (asked,) = run["approval_ids"]
    lease = leases_of(place).acquire(HOST, HOST)
    assert lease is not None
    assert decide(place, asked, "respond", by="dana", message="that")[1] == {
        "run_id": run["run_id"],
        "status": "waiting",
    }
    lease.release()
    assert finish(place) == []
    assert RunStore(place).get(run["run_id"]).status == "done"


async def test_a_decision_in_the_very_moment_in_which_its_run_comes_to_rest_wakes_it(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ended, decided = queued(place, "careful"), Attempt._ended, []

    async def just_decided(drive: Attempt, *what: Any) -> Any:
        for request in ApprovalStore(place).list("pending"):
            decided.append(ApprovalStore(place).decide(request.id, "approve", by="dana"))
        return await ended(drive, *what)

    monkeypatch.setattr(Attempt, "_ended", just_decided)
    async with host(place):
        await until(place, "done", run)
    assert len(decided) == 1


@pytest.mark.slow
async def test_a_run_is_paused_resumed_and_stopped_while_it_is_worked_on(place: Workspace) -> None:
    run = queued(place, seconds=0.8)
    async with host(place):
        await until(place, "running", run)
        pause(place, run, "user:dana")
        await until(place, "paused", run)
        resume(place, run, "user:dana")
        await until(place, "running", run)
        stop(place, run, "user:dana")
        await until(place, "stopped", run)
    assert RunStore(place).get(run).summary["stopped_by"] == "user:dana"
    assert len(effects(place, run)) < TURNS


@pytest.mark.parametrize(("ask", "status"), [(pause, "paused"), (stop, "stopped")])
async def test_what_a_dead_worker_was_asked_holds_for_the_next_one(place: Workspace, ask: Any, status: str) -> None:
    run = queued(place)
    RunStore(place).update(run, "running")
    ask(place, run, "user:dana")
    async with host(place):
        await until(place, status, run)
    assert effects(place, run) == []


@pytest.mark.parametrize(("ask", "status"), [(pause, "paused"), (stop, "stopped")])
@pytest.mark.parametrize("hosted", [True, False])
async def test_what_is_asked_between_look_and_take_holds(place: Workspace, hosted: bool, ask: Any, status: str) -> None:
    run = queued(place)
    worker = AgentRun.resume(place, run, hosted=hosted, **seams(place.root))
    ask(place, run, "user:dana")
    assert (await worker.work(wait=0))["status"] == status
    assert effects(place, run) == []


@asynccontextmanager
async def dispatching(place: Workspace, **given: Any) -> AsyncIterator[Dispatcher]:
    async with EventBus(EventLog(place)) as bus:
        dispatcher = Dispatcher(place, bus, pause=0.01, **given)
        working = asyncio.create_task(dispatcher.run())
        yield dispatcher
        working.cancel()
        assert await dispatcher.drain(5.0)


def _broken(messages: Any, offered: Any) -> Any:
    raise ZeroDivisionError("a fault of the model's own")


@pytest.mark.slow
async def test_a_run_that_breaks_off_again_and_again_has_failed(place: Workspace) -> None:
    run = queued(place)
    async with dispatching(place, models=lambda role: Chain([Told(_broken)])):
        await until(place, "failed", run)
    error = RunStore(place).get(run).summary["error"]
    assert error["code"] == "HIVE-422"
    assert "3 times" in error["message"]
    assert told(place, run)[-1] == "failed"


async def test_a_run_that_wants_what_newer_settings_name_waits_for_a_newer_host(
    place: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    run = queued(place)
    async with dispatching(place, models=lambda role: Chain([Told(_broken)])):
        write_json(place, "hive.toml", (place.root / "hive.toml").read_text() + "# more tools\n")
        while caplog.text.count("start it again") < 5:
            await asyncio.sleep(0.01)
    assert RunStore(place).get(run).status == "queued"
    async with host(Workspace(place.root)):
        await until(place, "done", run)


async def test_a_run_at_whose_step_workers_die_again_and_again_has_failed(place: Workspace) -> None:
    run = queued(place)
    RunStore(place).update(run, "running")
    with connected(place.records) as connection:
        connection.execute(
            "INSERT INTO effects (key, run_id, kind, name, status, attempts, started_at)"
            " VALUES ('k', ?, 'tool', 'toil', 'started', ?, '')",
            (run, DEATHS),
        )
    async with dispatching(place, **seams(place.root)):
        await until(place, "failed", run)
    assert "died" in RunStore(place).get(run).summary["error"]["message"]


async def test_who_lost_the_lease_writes_no_checkpoint(place: Workspace) -> None:
    start: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    config: Any = {"configurable": {**start["configurable"], "checkpoint_id": "c"}}
    leases, thief = leases_of(place), leases_of(place)
    thief.clock = lambda: leases.clock() + 1_000  # to whose clock it has long run out
    lease = leases.acquire("t", "r1")
    async with async_checkpointer(place, lease) as saver:
        await saver.aput(start, empty_checkpoint() | {"id": "c"}, {}, {})
        await saver.aput_writes(config, [(INTERRUPT, 1)], "before")
        assert thief.acquire("t", "r1")
        with pytest.raises(LeaseLost):
            await saver.aput_writes(config, [(INTERRUPT, 1)], "after")
    with pytest.raises(LeaseLost):
        async with async_checkpointer(place, lease) as saver:
            await saver.aput_writes(config, [("x", 1)], "with the next checkpoint")
    async with async_checkpointer(place) as saver:
        found = await saver.aget_tuple(config)
    assert found is not None
    assert [task for task, *_ in found.pending_writes or ()] == ["before"]


async def test_a_run_that_cannot_be_read_is_stopped_and_hinders_no_other(place: Workspace) -> None:
    damaged, sound = queued(place), queued(place)
    with connected(place.records) as connection:
        connection.execute("UPDATE runs SET input = '{' WHERE run_id = ?", (damaged,))
    async with host(place):
        await until(place, "done", sound)
        await until(place, "stopped", damaged)
    assert RunStore(place).get(damaged).summary["error"]["code"] == "HIVE-407"


async def test_a_run_whose_tools_somebody_brought_is_left_alone(place: Workspace) -> None:
    run = queued(place)
    async with dispatching(place):
        await asyncio.sleep(0.3)
    assert RunStore(place).get(run).status == "queued"
    assert told(place, run) == ["queued"]


async def test_a_chat_that_nobody_waits_for_any_more_is_stopped(place: Workspace) -> None:
    old = RunStore(place).insert("worker", {"request": {}}, status="running")[0].run_id
    new = RunStore(place).insert("worker", {"request": {}}, status="running")[0].run_id
    with connected(place.records) as connection:
        connection.execute("UPDATE runs SET started_at = '2026-01-01T00:00:00.000+00:00' WHERE run_id = ?", (old,))
    async with host(place):
        await until(place, "stopped", old)
    assert RunStore(place).get(old).summary["stopped_by"] == "interrupted"
    assert RunStore(place).get(new).status == "running"


async def test_a_drained_run_goes_back_into_the_queue_and_on_from_there(place: Workspace) -> None:
    run = queued(place, seconds=0.3)
    async with host(place) as first:
        await until(place, "running", run)
    assert first.drained
    assert RunStore(place).get(run).status == "queued"
    async with host(place):
        await until(place, "done", run)
    assert effects(place, run) == [(f"step {n}", 1) for n in range(TURNS)]


async def test_a_step_that_takes_too_long_is_cut_and_its_run_goes_back_too(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hive_agents.host.host.GRACE", 0.1)

    began = asyncio.Event()

    async def slow(what: str, seconds: float) -> str:
        """Take very long."""
        began.set()
        await asyncio.sleep(60)
        return what

    registry = ToolRegistry()
    registry.register(slow, name="toil", side_effect="external")
    registry.register(slow, name="ask_first", side_effect="external")
    run = queued(place)
    async with host(place, tools=registry) as first:
        await began.wait()
    assert not first.drained
    assert RunStore(place).get(run).status == "queued"


async def test_a_faulty_goal_stops_the_run_with_its_diagnostic(place: Workspace) -> None:
    run = queued(place)
    write_json(place, "goals/digest.json", "{")
    async with host(place):
        await until(place, "stopped", run)
    assert json.loads(json.dumps(RunStore(place).get(run).summary))["stopped_by"].startswith("HIVE-1")
