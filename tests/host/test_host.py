"""Several hosts share the runs of a workspace, end cleanly, and go on without the part that fails."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.host.decisions import HOST
from hive_agents.host.doctor import examine
from hive_agents.host.host import Host
from hive_agents.host.roles import HostRole
from hive_agents.runs import RunStore, pause, resume, stop
from hive_agents.runs.driver import leases_of
from tests.host.hosting import TURNS, HostProcess, effects, host, prepared, queued, spans, until


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return prepared(tmp_path / "ws")


def require_one_at_a_time(place: Workspace) -> None:
    for run, found in spans(place).items():
        for (_, _, ended), (_, began, _) in pairwise(found):
            assert ended is not None, run
            assert ended <= began, run


@pytest.mark.slow
async def test_two_processes_share_the_runs_and_end_cleanly(place: Workspace) -> None:
    """SIGTERM puts back what is at work, the next host ends it, and no run is ever at work twice at once."""
    processes = [HostProcess(place) for _ in range(2)]
    for process in processes:
        process.up()
    runs = [queued(place, seconds=0.05) for _ in range(8)]
    await until(place, "done", *runs)
    # One of them may have been quick enough to take all.
    assert {pid for found in spans(place).values() for pid, *_ in found} <= {one.pid for one in processes}
    assert processes[0].end(signal.SIGINT) == 0

    long = queued(place, seconds=1.0)
    await until(place, "running", long)
    pause(place, long, "user:dana")
    await until(place, "paused", long)
    resume(place, long, "user:dana")
    await until(place, "running", long)
    assert processes[1].end(signal.SIGTERM) == 0
    assert RunStore(place).get(long).status == "queued"
    assert not leases_of(place).held()
    async with host(place):
        await until(place, "done", long)
    require_one_at_a_time(place)
    for run in (*runs, long):
        assert effects(place, run) == [(f"step {n}", 1) for n in range(TURNS)]


@pytest.mark.slow
async def test_a_host_that_was_frozen_beyond_its_lease_lets_go_and_goes_on(tmp_path: Path) -> None:
    place = prepared(tmp_path / "frozen", lease_seconds=1.0)
    frozen = HostProcess(place)
    frozen.up()
    run = queued(place, seconds=1.5)
    await until(place, "running", run)
    while not spans(place):
        await asyncio.sleep(0.02)
    frozen.process.send_signal(signal.SIGSTOP)
    async with host(place):
        await until(place, "running", run)
        while len(spans(place)[run]) < 3:
            await asyncio.sleep(0.02)
        frozen.process.send_signal(signal.SIGCONT)
        await until(place, "done", run)
        done = RunStore(place).get(run)
        later = queued(place)
        await until(place, "done", later)
    last = queued(place)
    await until(place, "done", last)
    assert {pid for pid, *_ in spans(place)[last]} == {frozen.pid}
    assert frozen.end(signal.SIGTERM) == 0
    assert RunStore(place).get(run) == done
    assert [what for what, _ in effects(place, run)] == [f"step {n}" for n in range(TURNS)]


@pytest.mark.slow
async def test_another_process_stops_a_run_and_a_second_signal_ends_at_once(place: Workspace) -> None:
    process = HostProcess(place)
    process.up()
    stopped, long = queued(place, seconds=1.0), queued(place, seconds=30)
    await until(place, "running", stopped, long)
    while long not in spans(place):  # the step that the first signal waits for
        await asyncio.sleep(0.02)
    stop(place, stopped, "user:dana")
    await until(place, "stopped", stopped)
    leases = leases_of(place)
    while not leases.is_held(HOST):
        await asyncio.sleep(0.02)
    process.process.send_signal(signal.SIGTERM)
    while leases.is_held(HOST):  # it was heard: two signals that come at once are one
        await asyncio.sleep(0.02)
    assert process.end(signal.SIGTERM) == 128 + signal.SIGTERM


async def test_a_part_that_fails_again_and_again_hinders_no_other(
    place: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    async def failing(_: Host) -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError("s3cret words of somebody")

    run = queued(place)
    with caplog.at_level(logging.WARNING, "hive_agents.host"):
        async with host(place, roles=("runs", "http"), serve=failing) as hosted:
            await until(place, "done", run)
            while calls < 2:
                await asyncio.sleep(0.02)
            assert hosted.roles["http"] == "down"
            assert [fault.code for fault in await hosted.faults()] == ["HIVE-427"]
    assert "http failed, and begins again: ZeroDivisionError" in caplog.text
    assert "s3cret" not in caplog.text


async def test_one_process_at_a_time_has_a_part_and_the_next_takes_it_over(place: Workspace) -> None:
    begun: list[int] = []

    def part(number: int) -> HostRole:
        async def work() -> None:
            begun.append(number)
            await asyncio.Event().wait()

        return HostRole("judge", work, leases=leases_of(place))

    parts = [part(0), part(1)]
    tasks = [asyncio.create_task(one.run()) for one in parts]
    while "waiting" not in [one.state for one in parts] or not begun:
        await asyncio.sleep(0.02)
    (first,) = begun
    assert parts[first].state == "up"
    tasks[first].cancel()
    while len(begun) < 2:
        await asyncio.sleep(0.02)
    assert sorted(begun) == [0, 1]
    tasks[1 - first].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_part_whose_lease_another_takes_lets_go(place: Workspace) -> None:
    leases = leases_of(place)
    role = HostRole("queen", asyncio.Event().wait, leases=leases)
    task = asyncio.create_task(role.run())
    while role.state != "up":
        await asyncio.sleep(0.02)
    thief = leases_of(place)
    thief.clock = lambda: leases.clock() + 1_000  # to whose clock it has long run out
    taken = thief.acquire("hive:queen", "hive:queen")
    assert taken is not None
    while role.state != "waiting":
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_judge_queen_and_triggers_work_in_a_host(place: Workspace) -> None:
    async with Host(place) as hosted:
        while set(hosted.roles.values()) != {"up"}:
            await asyncio.sleep(0.02)
        assert list(hosted.roles) == ["runs", "judge", "queen", "triggers", "housekeeping"]
        assert await hosted.faults() == []
        async with Host(place, roles=("judge", "queen")) as other:
            while set(other.roles.values()) != {"waiting"}:
                await asyncio.sleep(0.02)


def test_an_unknown_role_is_refused(place: Workspace) -> None:
    with pytest.raises(HiveError, match="HIVE-409"):
        Host(place, roles=("runs", "quean"))


@pytest.mark.parametrize(
    ("roles", "parts"),
    [
        (["worker"], ["runs", "triggers", "housekeeping"]),
        (["judge", "queen"], ["judge", "queen"]),
        (["all"], ["runs", "judge", "queen", "triggers", "housekeeping"]),
    ],
)
def test_a_host_of_several_has_the_parts_that_its_role_stands_for(
    place: Workspace, roles: list[str], parts: list[str]
) -> None:
    assert list(Host(place, roles=roles).roles) == parts


async def test_doctor_tells_of_a_host_that_began_before_the_settings_were_saved(place: Workspace) -> None:
    def told() -> tuple[str, str]:
        return next((check.status, check.message) for check in examine(place) if check.name == "hosts")

    assert told() == ("ok", "no host is at work here")
    settings = place.root / "hive.toml"
    async with Host(place, roles=("runs",)):
        assert told() == ("ok", "1 at work here, by hive.toml as it is")
        later = time.time() + 60
        settings.write_text(settings.read_text(encoding="utf-8") if settings.exists() else "", encoding="utf-8")
        os.utime(settings, (later, later))
        status, message = told()
        assert (status, "1 began before hive.toml was saved" in message) == ("warn", True)
    assert told() == ("ok", "no host is at work here")
