"""Hosts with folders of their own on one PostgreSQL: woken by each other, killed, cut off, frozen; nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.agents import follow_history, record, served_text
from hive_agents.runs import DueRun, RunQueue
from hive_agents.runtime import dispatcher, following
from hive_agents.runtime.driver import leases_of
from hive_agents.runtime.following import follow_deployments
from hive_agents.store import exclusive
from hive_agents.trust import trust
from tests.engines import Postgres, postgres
from tests.runtime.hosting import TURNS, effects, host, prepared, queued, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as found:
        yield found


@pytest.fixture
def place(tmp_path: Path, server: Postgres) -> Workspace:
    return on_server(tmp_path / "a", server)


def on_server(root: Path, server: Postgres, *, lease_seconds: float = 5.0) -> Workspace:
    """A workspace of `prepared`, whose records are in a schema of their own."""
    place = prepared(root, lease_seconds=lease_seconds)
    with (root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(f'[storage]\nurl = "{server.url}"\nnamespace = "t{uuid.uuid4().hex[:12]}"\n')
    place = Workspace(root)
    trust(place)
    return place


def another(place: Workspace, name: str) -> Workspace:
    """The folder of another host: a copy of the files, and nothing that stands in `.hive`."""
    root = shutil.copytree(place.root, place.root.with_name(name), ignore=shutil.ignore_patterns(".hive"))
    found = Workspace(root)
    trust(found)
    return found


def test_a_run_is_given_to_one_of_the_hosts_that_saw_it(place: Workspace) -> None:
    hosts, runs = [place, another(place, "b")], [queued(place) for _ in range(5)]
    queues = [RunQueue(leases_of(one)) for one in hosts]
    seen: list[list[DueRun]] = [queue.due() for queue in queues]
    assert [[due.run_id for due in found] for found in seen] == [runs, runs]
    first = queues[0].take(seen[0][:3])
    second = queues[1].take(seen[1])
    assert [lease.run_id for lease in first] == runs[:3]
    assert [lease.run_id for lease in second] == runs[3:]
    assert queues[0].due() == queues[1].due() == []
    for lease in (*first, *second):
        lease.release()


async def test_a_run_queued_on_one_host_starts_on_another_without_a_poll(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 3_600.0)
    other = another(place, "b")
    async with host(other) as hosted:
        await hosted.dispatcher.looked.wait()
        for _ in range(3):  # one after the other: each wakes it
            run = await asyncio.to_thread(queued, place)
            await until(place, "done", run)
            assert effects(other, run) == [(f"step {n}", 1) for n in range(TURNS)]


async def test_a_lost_listener_listens_again_and_meanwhile_there_is_the_poll(
    place: Workspace, server: Postgres
) -> None:
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%';"
    async with host(another(place, "b")) as hosted:
        await hosted.dispatcher.looked.wait()
        while int(await asyncio.to_thread(server.run, cut)) == 0:
            await asyncio.sleep(0.05)
        run = await asyncio.to_thread(queued, place)
        await until(place, "done", run)


async def test_an_agent_deployed_on_one_host_serves_on_another_and_its_file_follows(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 3_600.0)
    other = another(place, "b")
    before = served_text(place, "toiler")
    record(place, before, decision="baseline", via="deploy", by="dana", evaluation={}, baseline=True)
    follows = asyncio.create_task(follow_deployments(other))
    try:
        changed = before.model_copy(update={"version": 2, "identity": "Toils more."})
        with exclusive(place, "deploying"):
            await asyncio.to_thread(
                lambda: record(place, changed, decision="approved", via="deploy", by="dana", evaluation={})
            )
        assert served_text(other, "toiler").identity == "Toils more."
        while "Toils more." not in (other.root / "agents" / "toiler.json").read_text():
            await asyncio.sleep(0.05)
    finally:
        follows.cancel()
        await asyncio.gather(follows, return_exceptions=True)


def test_a_file_that_people_edited_here_stays_when_another_host_deploys(place: Workspace) -> None:
    other = another(place, "b")
    before = served_text(place, "toiler")
    record(place, before, decision="baseline", via="deploy", by="dana", evaluation={}, baseline=True)
    edited = (
        (other.root / "agents" / "toiler.json").read_text().replace('"toiler"', '"toiler", "description": "Mine."', 1)
    )
    (other.root / "agents" / "toiler.json").write_text(edited)
    changed = before.model_copy(update={"version": 2, "identity": "Toils more."})
    record(place, changed, decision="approved", via="deploy", by="dana", evaluation={})
    follow_history(other)
    assert (other.root / "agents" / "toiler.json").read_text() == edited
