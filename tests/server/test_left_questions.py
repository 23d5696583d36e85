"""A question whose host was killed is answered by another one, to the reader who still follows it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hive_agents import Workspace
from hive_agents.host.dispatcher import TAKES
from hive_agents.host.host import Host
from hive_agents.runs import RunStore
from hive_agents.store import connected
from tests.host.hosting import until
from tests.server.serving import asked, bearer, followed, sample, served


def die(place: Workspace, run: str) -> None:
    """Leave the run as a host does that is killed with it: at work since long ago, and nobody has its lease."""
    RunStore(place).update(run, "running")
    with connected(place.records) as connection:
        connection.execute("UPDATE runs SET started_at = '2026-01-01T00:00:00.000+00:00' WHERE run_id = ?", (run,))


async def test_it_is_answered_by_another_host(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        run = await asked(client, dana, "How long does an API token last?")
        die(place, run["run_id"])
        following = asyncio.ensure_future(followed(client, run["events"], dana))
        async with Host(place, roles=("runs",)):
            told = await following
    assert told[-1].type == "RUN_FINISHED"
    assert told[-1].value["outcome"]["type"] == "success"
    assert told[-1].value["result"]["results"]


async def test_one_that_hosts_die_of_is_not_given_to_ever_more_of_them(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        run = (await asked(client, bearer(place), "How long does an API token last?"))["run_id"]
    for _ in range(TAKES - 1):
        die(place, run)
        assert RunStore(place).move(run, "running", "interrupted", to="queued")[1]
    die(place, run)
    async with Host(place, roles=("runs",)):
        await until(place, "stopped", run)
    assert RunStore(place).get(run).summary["stopped_by"] == "interrupted"
