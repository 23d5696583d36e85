"""The server of the records is lost, and its standby takes over: hosts find it by the address that names both."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.runs import RunStore
from hive_agents.store import audit
from hive_agents.workspace.trusted import trust
from tests.host.hosting import TURNS, HostProcess, effects, prepared, queued
from tests.real_engines import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]
RUNS = 6


@pytest.fixture
def standby(server: Postgres) -> Iterator[Postgres]:
    """It follows `server`, which answers to no COMMIT that isn't here, too."""
    folder = Path(tempfile.mkdtemp(prefix="hive-pg-", dir="/tmp"))
    found = Postgres(server.programs, folder)
    try:
        server.copy_to(folder / "data")
        found.start()
        server.run("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()")
        yield found
    finally:
        server.start()  # whoever started it stops it
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_hosts_go_on_with_the_standby_that_was_promoted(tmp_path: Path, server: Postgres, standby: Postgres) -> None:
    """Every run ends, each effect has happened once, and the audit log is whole."""
    folders = ",".join(str(Path(one.socket).parent) for one in (standby, server))
    place = prepared(tmp_path / "ws")
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        url = f"postgresql://hive@/postgres?host={folders}&target_session_attrs=read-write"
        file.write(f'[storage]\nurl = "{url}"\nnamespace = "failover"\n')
    place = Workspace(place.root)
    trust(place)
    audit.append(place, "note", text="before")
    process = HostProcess(place)
    process.up()
    try:
        runs = [queued(place, seconds=0.3) for _ in range(RUNS)]
        asyncio.run(some_effect(place, runs))
        server.stop()
        standby.promote()
        asyncio.run(all_done(place, runs))
    finally:
        assert process.end(signal.SIGTERM) == 0
    for run in runs:
        done = effects(place, run)
        assert [what for what, _ in done] == [f"step {number}" for number in range(TURNS)]
    audit.append(place, "note", text="after")
    assert [one["text"] for one in audit.entries(place, "note")] == ["before", "after"]
    assert audit.verify(place).ok


async def some_effect(place: Workspace, runs: list[str]) -> None:
    async with asyncio.timeout(120):
        while not any(effects(place, run) for run in runs):
            await asyncio.sleep(0.02)


async def all_done(place: Workspace, runs: list[str]) -> None:
    async with asyncio.timeout(180):
        while True:
            with suppress(HiveError):  # this process's connections are lost as well
                if all(RunStore(place).get(run).status == "done" for run in runs):
                    return
            await asyncio.sleep(0.1)
