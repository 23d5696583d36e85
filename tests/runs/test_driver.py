"""Runs of every kind are taken up, paused, stopped and listed alike."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.access import Standing, known_principal
from hive_agents.copilot import Request, ThreadStore
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.run import QuestionRun
from hive_agents.host.dispatcher import KINDS, kind_of
from hive_agents.host.host import Host
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.ranking import SearchEngine
from hive_agents.runs import Leases, RunStore, Scope, pause, resume, stop
from hive_agents.runs.driver import Run
from tests.copilot.chats import copied_knowledge_base, use_models
from tests.graphs.optimizing import OPTIMIZE, small, started_runs
from tests.sample import copied_sample, hive

ASKED = "how do I rotate a key?"
PLAN = {"rewritten_query": ASKED, "strategy": "ContentOnly", "search_value": "rotate a key"}


@pytest.fixture
def base(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "w")


def status(place: Workspace, run: str) -> str:
    return RunStore(place).get(run).status


async def ended(place: Workspace, run: str) -> None:
    async with Host(place, roles=("runs",)), asyncio.timeout(60):
        while status(place, run) not in ("done", "waiting", "failed", "stopped"):
            await asyncio.sleep(0.02)


def left(place: Workspace) -> QuestionRun:
    """A question whose process died."""
    dana = known_principal(place, "dana")
    thread = ThreadStore(place, dana).create(ASKED)
    run = QuestionRun.start(place, Standing.of(place, dana), Request(text=ASKED), thread, SearchEngine(place))
    assert run._lease is not None
    run._lease.release()
    return run


def test_each_graph_that_runs_are_started_of_has_a_kind() -> None:
    assert {kind_of(graph).GRAPH for graph in KINDS} == set(KINDS) == {"event_loop", "optimizer", "worker"}
    assert all(issubclass(kind_of(graph), Run) for graph in KINDS)


@pytest.mark.parametrize(("steer", "then"), [(stop, "stopped"), (pause, "paused")])
async def test_a_question_at_work_is_steered_and_a_host_answers_it_later(
    base: Workspace, monkeypatch: pytest.MonkeyPatch, steer: Any, then: str
) -> None:
    monkeypatch.setattr("hive_agents.runs.leases.BEAT", 0.01)
    use_models(base, planner=[{"structured": {"steps": [PLAN]}, "delay_seconds": 0.3}])
    chat = Chat(base, known_principal(base, "dana"))

    def ask(node: str) -> None:
        (row,) = RunStore(base).list()
        if node == "rewrite":
            steer(base, row.run_id, "user:kim")

    with pytest.raises(HiveError, match=f"{then} this question"):
        await chat.ask(Request(text=ASKED), ask)
    (row,) = RunStore(base).list()
    assert (row.status, row.summary["stopped_by"]) == (then, "user:kim" if then == "stopped" else None)
    assert chat.transcript() == []
    assert resume(base, row.run_id, "user:kim").status == "queued"
    await ended(base, row.run_id)
    assert status(base, row.run_id) == "done"
    (turn,) = chat.transcript()
    assert (turn["run_id"], turn["text"], turn["status"]) == (row.run_id, ASKED, "results")


async def test_a_question_that_was_left_is_answered_as_its_reader_may_see_it(base: Workspace) -> None:
    run = left(base)
    assert resume(base, run.run_id, "user:dana").status == "queued"
    await ended(base, run.run_id)
    mine = Chat(base, run.reader, run.row.thread_id)
    expected = await Chat(base, run.reader).ask(Request(text=ASKED))
    (turn,) = mine.transcript()
    assert turn["results"] == expected["results"]
    assert ThreadStore(base, known_principal(base, "guest")).threads() == []


async def test_a_host_ends_a_question_whose_asker_is_gone(base: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_agents.host.dispatcher.ASIDE", dt.timedelta(0))
    run = left(base)
    await ended(base, run.run_id)
    row = RunStore(base).get(run.run_id)
    assert (row.status, row.summary["stopped_by"]) == ("stopped", "interrupted")


def test_what_a_dead_process_left_is_not_listed_as_running(base: Workspace) -> None:
    question = left(base)
    dead, _ = RunStore(base).insert("optimizer", {}, status="running")
    alive, _ = RunStore(base).insert("optimizer", {}, status="running")
    lease = Leases(base).acquire(alive.thread_id, alive.run_id)
    assert lease is not None
    stands = {row.run_id: row.status for row in Scope(None).runs(base)}
    assert (stands[question.run_id], stands[dead.run_id], stands[alive.run_id]) == ("stopped", "queued", "running")
    for wanted, found in (("running", alive), ("queued", dead), ("stopped", question.row)):
        assert [row.run_id for row in Scope(None).runs(base, wanted)] == [found.run_id]
        assert Scope(None).run(base, found.run_id).status == wanted
        listed = hive("runs", "list", "--status", wanted, "-w", base.root, "--json").json["runs"]
        assert [(row["run_id"], row["status"]) for row in listed] == [(found.run_id, wanted)]
    assert resume(base, dead.run_id, "user:dana").status == "queued"
    assert status(base, dead.run_id) == "queued"


async def test_an_optimizer_run_is_paused_resumed_and_ended_by_a_host(tmp_path: Path) -> None:
    place = small(tmp_path / "w")
    run = OptimizeRun.start(place, golden=None, deploy=False, settings={"iterations": 1}).run_id
    for verb, then in ((pause, "paused"), (resume, "queued"), (stop, "stopped"), (resume, "queued")):
        assert verb(place, run, "user:dana").status == then
    await ended(place, run)
    row = RunStore(place).get(run)
    assert row.status == "done"
    assert row.result is not None
    assert (place.root / row.result["report"]).is_file()


def test_ctrl_c_before_an_optimizer_run_has_found_anything_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(run: Run, **_: Any) -> None:
        raise KeyboardInterrupt

    place = small(tmp_path / "w")
    run = OptimizeRun.start(place, golden=None, deploy=False, settings={"iterations": 1})
    monkeypatch.setattr(OptimizeRun, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.go()
    resume(place, run.run_id, "user:dana")
    pause(place, run.run_id, "user:dana")
    with pytest.raises(HiveError, match="just now"):
        run.go()


@pytest.mark.parametrize("hold", [True, False])
def test_ctrl_c_before_a_run_has_begun_leaves_nothing_that_a_host_takes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    def interrupted(run: Run) -> None:
        raise KeyboardInterrupt

    place = small(tmp_path / "w")
    run = OptimizeRun.start(place, golden=None, deploy=False, settings={"iterations": 1}, hold=hold)
    with monkeypatch.context() as patched:
        patched.setattr(OptimizeRun, "_open_bus", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.go()
    row = RunStore(place).get(run.run_id)
    assert (row.status, row.summary["stopped_by"]) == ("stopped", "interrupted")
    assert run.go()["status"] in ("stopped", "no_improvement")
    assert RunStore(place).get(run.run_id).status == "done"


@pytest.mark.slow
async def test_a_killed_optimizer_run_is_not_running_and_a_host_ends_it(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "w", every=3)
    command = [*OPTIMIZE, "-w", str(place.root), "--iterations", "2", "--no-deploy", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not place.database.exists() or not started_runs(place):
        await asyncio.sleep(0.02)
    (run,) = started_runs(place)
    while not Leases(place).is_held(RunStore(place).get(run).thread_id):
        await asyncio.sleep(0.02)
    assert hive("runs", "list", "-w", place.root, "--json").json["runs"][0]["status"] == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    (listed,) = hive("runs", "list", "-w", place.root, "--json").json["runs"]
    assert (listed["run_id"], listed["status"]) == (run, "queued")
    assert hive("runs", "resume", run, "-w", place.root).code == 0
    await ended(place, run)
    result = RunStore(place).get(run).result
    again = OptimizeRun.start(
        copied_sample(tmp_path / "v", every=3), golden=None, deploy=False, settings={"iterations": 2}
    )
    expected = json.loads(json.dumps(await again.work()))
    assert result is not None
    for key in ("status", "best", "certificate", "iterations", "stopped_by"):
        assert result[key] == expected[key], key
