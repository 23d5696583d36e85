"""Several processes at once: one worker a thread, one run a key, and a dead one's thread is free at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.runs import Leases, RunStore
from tests.runs.contract import Clock
from tests.runs.processes import THREADS

CHECKOUT = Path(__file__).parents[2]


def program(job: str, place: Workspace, processes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.runs.processes", job, str(place.root), str(processes)]
    return subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def told(job: str, place: Workspace, processes: int) -> list[list[str]]:
    with program(job, place, processes) as running:
        out, _ = running.communicate()
    assert running.returncode == 0
    return [line.split() for line in out.splitlines()]


def test_eight_processes_never_work_on_one_thread_at_once(place: Workspace) -> None:
    RunStore(place).list()  # the database is there before they race
    lines = told("race", place, 8)
    assert [line for line in lines if line[0] == "met"] == []
    did = [(int(thread), int(fence)) for word, thread, fence in lines if word == "did"]
    assert {thread for thread, _ in did} == set(range(THREADS))
    assert max(Counter(did).values()) == 1, "no two of them had the same fence"


def test_eight_processes_start_one_run_a_key(place: Workspace) -> None:
    RunStore(place).list()
    lines = told("key", place, 8)
    assert Counter(word for word, *_ in lines) == {"new": 10, "old": 70}
    assert len({(n, run) for _, n, run in lines}) == 10
    assert len(RunStore(place).list()) == 10


def test_a_worker_that_is_killed_leaves_its_thread_at_once(place: Workspace) -> None:
    """Its lease would have lasted for an hour, and a slow clock makes no difference."""
    slow = Clock()
    slow.now = 0.0
    RunStore(place).insert("event_loop", {}, agent="digest", thread_id="t1", run_id="r1")
    with program("hold", place, 1) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "held\n"
        leases = [Leases(place), Leases(place, clock=slow)]
        assert [one.is_held("t1") for one in leases] == [True, True]
        assert [one.held() for one in leases] == [{"t1"}, {"t1"}]
        assert leases[0].acquire("t1", "r1") is None
        worker.kill()
        worker.wait()
        assert [one.is_held("t1") for one in leases] == [False, False]
        assert [one.held() for one in leases] == [set(), set()]
        assert leases[1].acquire("t1", "r1") is not None


def test_a_worker_that_lost_its_lease_writes_nothing_more(place: Workspace) -> None:
    """Neither in the ledger nor how its run stands; the one that has it now does."""
    RunStore(place).insert("event_loop", {}, agent="digest", thread_id="t1", run_id="r1")
    fast = Clock()  # as if all shared it
    fast.now = 1e12
    with program("hold", place, 1) as worker:
        asks, answers = worker.stdin, worker.stdout
        assert asks is not None
        assert answers is not None

        def does(what: str) -> str:
            asks.write(f"{what}\n")
            return answers.readline().strip()

        assert answers.readline() == "held\n"
        assert does("running") == "recorded"
        lease = Leases(place, clock=fast).acquire("t1", "r1")
        assert lease is not None
        assert [does("effect"), does("done"), does("effect")] == ["HIVE-425"] * 3
        assert RunStore(place).get("r1").status == "running"
        assert RunStore(place).get("r1").summary["steps"] == 0
        RunStore(place).update("r1", "done", lease=lease)
        assert RunStore(place).get("r1").status == "done"
        worker.kill()


def asked(running: subprocess.Popen[str], line: str) -> str:
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(f"{line}\n")
    return running.stdout.readline().strip()


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_a_clock_that_is_two_hours_wrong_takes_no_living_worker_s_lease(place: Workspace, ahead: int) -> None:
    """Nor does a worker lose it whose own clock jumps, in either direction."""
    RunStore(place).insert("event_loop", {}, agent="digest", thread_id="t1", run_id="r1")
    with program("work", place, 0) as worker, program("watch", place, ahead) as other:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "held\n"
        assert asked(other, "2.5") == "HIVE-402"
        for jump in (ahead, -ahead, 0):
            assert asked(worker, str(jump)) == "set"
            assert asked(other, "1.5") == "HIVE-402"
        worker.kill()
        worker.wait()
        assert asked(other, "30") == "taken"
        other.kill()


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_a_worker_that_is_frozen_loses_its_lease_by_any_clock(place: Workspace, ahead: int) -> None:
    """Its process lives and may go on, and finds then that the lease is lost; no clock makes a lease immortal."""
    RunStore(place).insert("event_loop", {}, agent="digest", thread_id="t1", run_id="r1")
    with program("work", place, ahead) as worker, program("watch", place, 0) as other:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "held\n"
        assert asked(other, "1.5") == "HIVE-402"
        worker.send_signal(signal.SIGSTOP)
        assert asked(other, "30") == "taken"
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout.readline() == "lost\n"
        worker.kill()
        other.kill()
