"""Hosts with folders of their own on one PostgreSQL: woken by each other, killed, cut off, frozen; nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import follow_history
from hive_agents.agents.deployed import record, served_text
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.events import Consumer, Event, EventLog, EventType
from hive_agents.host import dispatcher, roles
from hive_agents.host.roles import follow_deployments
from hive_agents.ranking import Version, active_config
from hive_agents.ranking.config import read_config
from hive_agents.ranking.deployed import DEPLOYMENTS
from hive_agents.runs import DueRun, RunQueue, RunStore
from hive_agents.runs.checkpoints import checkpointer
from hive_agents.runs.driver import leases_of
from hive_agents.store import audit, connected, exclusive
from hive_agents.store.database import disconnect
from hive_agents.workspace.trusted import trust
from tests.conftest import COLLECTION, write_config
from tests.host.hosting import TURNS, Nursery, effects, host, prepared, queued, until
from tests.host.test_host_kills import approve_all
from tests.ports import lasting_port
from tests.real_engines import Postgres, postgres

pytestmark = pytest.mark.slow
HOSTS = 3
RUNS, SECONDS = int(os.environ.get("HIVE_CHAOS_RUNS", "30")), float(os.environ.get("HIVE_CHAOS_SECONDS", "12"))
"""Of the full test: 300 runs or more, and 120 seconds with a kill in each."""
FEEDS = "HIVE_CHAOS_SECONDS" in os.environ
"""Whether more runs are queued while hosts are killed, so that there is work for all of that time."""
AT_WORK = 60
"""So many runs are under way then."""
LEASE = 4.0
CUT = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'hive-agents%';"


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
    # What tools do outside is outside for all hosts.
    root.with_suffix(".accounts").symlink_to(place.root.with_suffix(".accounts"))
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


def test_threads_that_take_turns_share_connections(place: Workspace, server: Postgres) -> None:
    def used(number: int) -> int:
        with connected(place.records) as connection:
            return int(connection.execute("SELECT ?::bigint", (number,)).fetchone()[0])

    with ThreadPoolExecutor(24) as threads:
        barrier = Barrier(24)  # each has a thread of its own
        turn = Lock()

        def one(number: int) -> int:
            barrier.wait()
            with turn:
                return used(number)

        assert list(threads.map(one, range(24))) == list(range(24))
        open_ = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%bigint%' AND pid <> pg_backend_pid();"
        assert int(server.run(open_)) == 1


def test_hosts_that_make_the_tables_of_checkpoints_at_once_do_not_wait_for_each_other_for_ever(
    place: Workspace,
) -> None:
    barrier = Barrier(12)

    def look(_: int) -> object:
        barrier.wait()
        with checkpointer(place) as saver:
            return saver.get_tuple({"configurable": {"thread_id": "none"}})

    with ThreadPoolExecutor(12) as threads:
        assert list(threads.map(look, range(12))) == [None] * 12


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
    monkeypatch.setattr(roles, "POLL_SECONDS", 3_600.0)
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


def deploy_config(place: Workspace, name: str) -> None:
    """As `hive deploy` does once the gate has passed it; host by host, files aside."""
    stored = read_config(place, place.configs / f"{name}.json")
    values = (stored.name, stored.file, stored.text, stored.hash, audit.now(), "dana", "local", "passed", "deploy")
    event = Event(EventType.CONFIG_DEPLOYED, payload={"config": name})
    with exclusive(place, "deploying"):
        DEPLOYMENTS.append(
            place,
            lambda number: Version(number, *values, None, None, None),
            lambda connection, _: EventLog.record(connection, [event]),
        )


async def test_active_json_follows_a_config_that_another_host_deploys(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed text, a file that isn't there yet, and a rollback to one that is."""
    monkeypatch.setattr(roles, "POLL_SECONDS", 3_600.0)
    (place.root / "collections" / "kb.json").write_text(json.dumps(COLLECTION))
    write_config(place, "words", "keyword")
    other = another(place, "b")
    follows = asyncio.create_task(follow_deployments(other))

    async def serves(name: str, text: str) -> None:
        async with asyncio.timeout(60):
            link, file = other.configs / "active.json", other.configs / f"{name}.json"
            while not (link.exists() and link.resolve() == file.resolve() and file.read_text() == text):
                await asyncio.sleep(0.05)
        assert active_config(other).stored.text == text
        assert active_config(other).warnings == ()

    try:
        for name, top_k in (("words", 10), ("words", 7), ("newer", 5), ("words", 7)):
            write_config(place, name, "keyword", retrieval={"top_k": top_k})
            await asyncio.to_thread(deploy_config, place, name)
            await serves(name, (place.configs / f"{name}.json").read_text())
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


async def test_a_schema_and_files_that_were_restored_go_on_with_their_runs(place: Workspace, server: Postgres) -> None:
    done, asked = queued(place), queued(place, "careful")
    async with host(place):
        await until(place, "done", done)
        await until(place, "waiting", asked)
    schema = place.settings.storage.namespace
    before = EventLog(place).replay()
    dump = server.dump(schema)
    EventLog(place).close()
    server.run(f"DROP SCHEMA {schema} CASCADE;")
    server.run(dump)
    restored = another(place, "restored")
    assert EventLog(restored).replay() == before
    await answer(restored)
    async with host(restored):
        await until(restored, "done", asked)
    assert effects(restored, asked) == [(f"step {n}", 1) for n in range(TURNS)]
    assert [event.seq for event in EventLog(restored).replay()][: len(before)] == [event.seq for event in before]


async def test_an_archive_that_is_restored_on_another_server_under_another_name_goes_on(
    place: Workspace, server: Postgres
) -> None:
    done, asked = queued(place), queued(place, "careful")
    async with host(place):
        await until(place, "done", done)
        await until(place, "waiting", asked)
    schema, before = place.settings.storage.namespace, EventLog(place).replay()
    files = another(place, "moved")
    with postgres() as other:
        other.restore(server.archive(schema))
        other.run(f"ALTER SCHEMA {schema} RENAME TO elsewhere;")
        settings = (files.root / "hive.toml").read_text()
        (files.root / "hive.toml").write_text(settings.replace(server.url, other.url).replace(schema, "elsewhere"))
        moved = Workspace(files.root)
        trust(moved)
        assert EventLog(moved).replay() == before
        assert audit.verify(moved).ok
        await answer(moved)
        async with host(moved):
            await until(moved, "done", asked)
        assert effects(moved, asked) == [(f"step {n}", 1) for n in range(TURNS)]
        assert [event.seq for event in EventLog(moved).replay()][: len(before)] == [event.seq for event in before]
        disconnect(moved.records)
    assert EventLog(place).replay() == before, "the one that the archive was made of is as it was"


class Watcher:
    """A subscriber that acknowledges what it was told; where the server is away it goes on later."""

    def __init__(self, place: Workspace) -> None:
        self.seen: list[Event] = []
        self._consumer = Consumer(EventLog(place), "watcher", self.seen.append, start="begin")

    async def run(self) -> None:
        while True:
            with suppress(HiveError):
                await self._consumer.run(poll=0.2)
            await asyncio.sleep(0.2)

    async def catch_up(self) -> None:
        await self._consumer.catch_up()


async def feed(place: Workspace, chance: random.Random) -> None:
    """Queue as many runs as are missing; a third of them needs a person. A server that is away gets them later."""
    with suppress(HiveError):
        under_way = [row for row in RunStore(place).list(limit=100_000) if row.status != "done"]
        for number in range(AT_WORK - len(under_way)):
            agent = "careful" if number % 3 == 0 else "toiler"
            await asyncio.to_thread(queued, place, agent, chance.uniform(0.02, 0.4))


async def disturb(place: Workspace, server: Postgres, hosts: list[Nursery], chance: random.Random) -> Counter[str]:
    """Kill a host each second, and cut all connections every other; in between restart the server, freeze a host."""
    done: Counter[str] = Counter()
    began = time.monotonic()
    killed, others = began, ["restart", "freeze", "restart"]
    while time.monotonic() < began + SECONDS or others:
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - killed)))
        await answer(place)
        if FEEDS:
            await feed(place, chance)
        if done["killed"] % 2:
            done["connections cut"] += int(await asyncio.to_thread(server.run, CUT))
            done["cut"] += 1
        if others and time.monotonic() > began + SECONDS * (4 - len(others)) / 5:
            what = others.pop(0)
            if what == "restart":
                await asyncio.to_thread(server.stop)
                await asyncio.sleep(1.0)
                await asyncio.to_thread(server.start)
            else:
                os.kill(hosts[0].pid, signal.SIGSTOP)
                await asyncio.sleep(2 * LEASE)
                os.kill(hosts[0].pid, signal.SIGCONT)
            done[what] += 1
        victim = chance.choice(hosts)
        killed = time.monotonic()
        assert await asyncio.to_thread(victim.end, signal.SIGKILL) == -signal.SIGKILL
        await asyncio.to_thread(victim.start)
        done["killed"] += 1
    return done


async def answer(place: Workspace) -> None:
    with suppress(HiveError):
        await approve_all(place)


async def test_whatever_happens_to_hosts_and_server_every_run_ends_and_no_event_is_lost(
    tmp_path: Path, server: Postgres
) -> None:
    place = on_server(tmp_path / "a", server, lease_seconds=LEASE)
    places = [place, *(another(place, name) for name in ("b", "c"))]
    chance, store = random.Random(11), RunStore(place)
    for number in range(RUNS):
        queued(place, "careful" if number % 3 == 0 else "toiler", chance.uniform(0.02, 0.4))
    hosts = [Nursery(one, lasting_port()) for one in places]
    watcher = Watcher(place)
    watching = asyncio.create_task(watcher.run())
    for one in hosts:
        await asyncio.to_thread(one.start)
    began = time.monotonic()
    try:
        disturbed = await disturb(place, server, hosts, chance)
        lasted = time.monotonic() - began
        end = time.monotonic() + 120 + 2 * (RUNS + AT_WORK)
        left: list[dict[str, Any]] = [{}]
        while left:
            assert time.monotonic() < end, left
            await answer(place)
            await asyncio.sleep(0.5)
            with suppress(HiveError):  # this process's connections are cut as well
                left = [row.summary for row in store.list(limit=100_000) if row.status != "done"]
    finally:
        codes = [await asyncio.to_thread(one.end, signal.SIGTERM) for one in hosts]
        for one in hosts:
            one.close()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert codes == [0] * HOSTS
    await watcher.catch_up()

    log = EventLog(place).replay()
    assert [event.payload for event in log if event.type == EventType.TOOL_FAILED] == []
    rows = store.list(limit=100_000)
    runs, careful = [row.run_id for row in rows], sum(row.agent == "careful" for row in rows)
    assert len(runs) >= RUNS
    again = 0
    for run in runs:
        result = store.get(run).result
        assert result is not None
        assert result["outputs"] == {"text": "done"}
        done = effects(place, run)
        assert [what for what, _ in done] == [f"step {n}" for n in range(TURNS)]
        again += sum(times - 1 for _, times in done)
    assert len(ApprovalStore(place).list()) == careful
    assert [event.id for event in watcher.seen] == [event.id for event in log]
    completed = Counter(event.run_id for event in log if event.type == "run.completed")
    assert completed == dict.fromkeys(runs, 1)
    print(
        f"\n{dict(disturbed)} in {lasted:.0f} s; {len(runs)} runs done, {careful} with an approval,"
        f" {TURNS * len(runs)} effects, {again} done again under their key; {len(log)} events, each seen once;"
        f" all after {time.monotonic() - began:.0f} s"
    )
