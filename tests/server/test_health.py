"""/healthz and /readyz tell the truth: of a database that others have, a disk that is full, a model that is dead."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.agents.run import AgentRun
from hive_agents.host import Host
from hive_agents.host.moving import reopen_records
from hive_agents.models import ModelError
from hive_agents.models.breaker import breaker_of, forget_breakers
from hive_agents.server import Listener
from hive_agents.store import connected, transaction
from hive_agents.store.database import connect
from hive_agents.store.sealing import seal
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.cli.test_serve import serve
from tests.host.hosting import TURNS, HostProcess, effects, prepared, queued, seams, spans, until as done
from tests.people import token_of
from tests.real_engines import Postgres, postgres
from tests.server.serving import SETTINGS, bearer, sample, served

QUESTION = {"input": {"text": "what returns a fresh token?"}}
NO_ROOM = (0, resource.RLIM_INFINITY)
"""Of RLIMIT_FSIZE: the process may write no file at all, as where a quota is used up."""


async def test_a_database_that_another_process_writes_is_alive_and_not_ready(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        other = connect(place.database)
        other.execute("BEGIN IMMEDIATE")
        try:
            found = await client.get("/readyz")
            assert (await client.get("/healthz")).status_code == 200
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert (found.status_code, found.json()["code"]) == (503, "HIVE-402")
        assert found.headers["retry-after"]
        assert (await client.get("/readyz")).status_code == 200


async def test_a_model_that_is_dead_is_told_and_makes_nobody_unready(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    forget_breakers()
    async with served(place, roles=("http",)) as client:
        assert (await client.get("/readyz")).json()["models"] == "ok"
        for _ in range(2):
            with pytest.raises(ModelError), breaker_of("a server", "a model").attempt("a model"):
                raise ModelError("timeout", "late")
        found = await client.get("/readyz")
        assert (found.status_code, found.json()["models"]) == (200, "resting")
        numbers = await client.get("/metrics", headers=bearer(place, "root"))
        assert "hive_models_resting 1.0" in numbers.text
        assert (await client.post("/api/query", json={"query": "token"}, headers=bearer(place))).status_code == 200
    forget_breakers()


async def test_a_worker_has_probes_and_metrics_and_nothing_else(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("runs",)) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json()["roles"]["probes"] == "up"
        assert (await client.get("/metrics")).status_code == 401
        numbers = (await client.get("/metrics", headers=bearer(place, "root"))).text
        assert 'hive_queue_oldest_seconds{kind="event_loop"} 0.0' in numbers
        assert "hive_effects_tried_again 0.0" in numbers
        for path in ("/", "/login", "/api/runs", "/api/openapi.json", "/mcp", "/webhooks/ring"):
            assert (await client.get(path, headers=bearer(place, "root"))).status_code == 404


async def test_the_age_of_what_waits_is_measured_by_kind(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        assert (await client.post("/api/runs", json=QUESTION, headers=bearer(place))).status_code == 202
        numbers = (await client.get("/metrics", headers=bearer(place, "root"))).text
        assert 'hive_queue_runs{kind="worker"} 1.0' in numbers
        assert 'hive_queue_runs{kind="event_loop"} 0.0' in numbers


async def test_records_that_were_moved_away_are_alive_and_not_ready(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        with connected(place.records) as connection, transaction(connection):
            seal(place, connection, "another place")
        found = await client.get("/readyz")
        assert (found.status_code, found.json()["code"]) == (503, "HIVE-403")
        assert "moved to another place" in found.json()["detail"]
        reopen_records(place)
        assert (await client.get("/readyz")).status_code == 200


async def test_a_host_whose_keys_are_no_longer_those_that_are_trusted_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets nobody in until it is started again, and a proxy is to ask another one meanwhile."""
    key = '[[access.keys]]\nkid = "{0}"\nalg = "HS256"\nsecret_ref = "env:HIVE_KEY_{0}"\n'
    monkeypatch.setenv("HIVE_KEY_1", "9f" * 32)
    place = sample(tmp_path / "ws", f"{SETTINGS}{key.format(1)}")
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        toml = place.root / "hive.toml"
        toml.write_text(toml.read_text(encoding="utf-8") + key.format(2), encoding="utf-8")
        assert (await client.get("/api/session", headers=dana)).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        trust(Workspace(place.root))
        assert (await client.get("/api/session", headers=dana)).status_code == 503
        found = await client.get("/readyz")
        assert (found.status_code, found.json()["code"]) == (503, "HIVE-431")


@pytest.mark.slow
async def test_records_that_a_newer_release_upgraded_or_somebody_moved_are_alive_and_not_ready(tmp_path: Path) -> None:
    """The host has connections from before."""
    with postgres() as server:
        place = on_server(sample(tmp_path / "ws"), server)
        async with served(place, roles=("http",)) as client:
            server.run("UPDATE health.schema_version SET version = version + 1")
            found = await client.get("/readyz")
            assert (found.status_code, found.json()["code"]) == (503, "HIVE-407")
            assert (await client.get("/healthz")).status_code == 200
            server.run("UPDATE health.schema_version SET version = version - 1")
            await until(client, 200)
            with connected(place.records) as connection, transaction(connection):
                seal(place, connection, "another place")
            found = await client.get("/readyz")
            assert (found.status_code, found.json()["code"]) == (503, "HIVE-403")
            assert "moved to another place" in found.json()["detail"]
            assert (await client.get("/healthz")).status_code == 200
            reopen_records(place)
            await until(client, 200)


@pytest.mark.slow
async def test_a_run_that_another_host_takes_over_is_counted_there_and_so_is_what_it_tried_again(
    tmp_path: Path,
) -> None:
    """Its worker is killed in the middle of an effect, in a folder of its own."""
    with postgres() as server:
        place = prepared(tmp_path / "a", lease_seconds=2.0)
        with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
            file.write(SETTINGS)
        place = on_server(place, server)
        other = Workspace(shutil.copytree(place.root, tmp_path / "b", ignore=shutil.ignore_patterns(".hive")))
        trust(other)
        (tmp_path / "b.accounts").symlink_to(tmp_path / "a.accounts")
        run = queued(place, seconds=1.0)
        worker = HostProcess(place)
        worker.up()
        while not spans(place).get(run):
            await asyncio.sleep(0.02)
        worker.end(signal.SIGKILL)
        operator = token_of(other, Principal("acme", "root", roles=frozenset({"operator"})))
        async with served(other, **seams(other.root)) as client:
            await done(other, "done", run)
            numbers = (await client.get("/metrics", headers={"Authorization": f"Bearer {operator}"})).text
        told = dict(line.rsplit(" ", 1) for line in numbers.splitlines() if line.startswith("hive_"))
        assert float(told["hive_runs_taken_over"]) == float(told["hive_effects_tried_again"]) == 1
        taken, most = (float(told[f'hive_records_connections{{kind="{kind}"}}']) for kind in ("open", "most"))
        assert 0 < taken < most
        assert [what for what, _ in effects(place, run)] == [f"step {number}" for number in range(TURNS)]


async def test_what_an_ending_host_cuts_off_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hive_agents.server.listener.GRACE", 1)
    place = sample(tmp_path / "ws")
    listener = Listener(place)
    running = asyncio.ensure_future(Host(place, roles=("http",), serve=listener.serve).run())
    async with httpx.AsyncClient(base_url=listener.url, timeout=60) as client:
        await until(client, 200)
        other, who = connect(place.database), bearer(place)
        other.execute("BEGIN IMMEDIATE")
        try:
            asking = asyncio.ensure_future(client.post("/api/runs", json=QUESTION, headers=who))
            await asyncio.sleep(0.5)
            os.kill(os.getpid(), signal.SIGTERM)
            answer = await asking
        finally:
            other.close()
    await running
    listener.close()
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (503, "HIVE-427", "5")
    assert not [one for one in caplog.records if one.exc_info]


@pytest.mark.slow
async def test_a_host_that_ends_answers_until_its_proxy_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others stand in for it: a socket that closes at once fails what the proxy sends until it asks again."""
    monkeypatch.setattr("hive_agents.host.host.LEAVING_SECONDS", 600)
    with postgres() as server:
        place = on_server(sample(tmp_path / "ws"), server)
        listener = Listener(place)
        host = Host(place, roles=("http",), serve=listener.serve)
        running = asyncio.ensure_future(host.run())
        async with httpx.AsyncClient(base_url=listener.url, timeout=60) as client:
            await until(client, 200)
            host.stop()
            await until(client, 503)
            found = await client.get("/readyz")
            assert (found.json()["code"], found.json()["detail"]) == ("HIVE-427", "this host ends")
            answer = await client.post("/api/query", json={"query": "token"}, headers=bearer(place))
            assert answer.status_code == 200
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        listener.close()


@pytest.mark.slow
async def test_records_on_a_frozen_server_are_alive_and_not_ready(tmp_path: Path) -> None:
    """Each answer comes while the server is frozen: nothing thaws it before."""
    with postgres() as server:
        place = on_server(sample(tmp_path / "ws"), server)
        async with served(place, roles=("http",)) as client:
            frozen = [server.process, *server.children()]
            for process in frozen:
                os.kill(process, signal.SIGSTOP)
            try:
                found = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
                assert {(one.status_code, one.json()["code"]) for one in found} == {(503, "HIVE-402")}
                assert (await client.get("/healthz")).status_code == 200
            finally:
                for process in frozen:
                    os.kill(process, signal.SIGCONT)
            await until(client, 200)


@pytest.mark.slow
def test_what_happens_is_told_again_after_the_server_of_the_records_was_restarted(tmp_path: Path) -> None:
    with postgres() as server:
        place = on_server(prepared(tmp_path / "ws"), server)
        script = {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "insects"}}]}
        write_json(place, "script.jsonl", json.dumps(script))
        write_json(
            place, "agents/writer.json",
            agent_json(node("write", output_keys=["text"]), id="writer", model="scripted:script.jsonl"),
        )  # fmt: skip
        with serve(place, "--json", "--role", "worker") as process:
            assert process.stdout is not None
            process.stdout.readline()
            server.stop()
            time.sleep(3)  # what is shown is read each second: some reads fail
            server.start()
            run = AgentRun.start(place, "writer", {}, hold=False).run_id
            while (told := json.loads(process.stdout.readline()))["type"] != "run.completed":
                assert told["run_id"] == run
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            assert process.returncode == 0


def on_server(place: Workspace, server: Postgres) -> Workspace:
    """The workspace with its records in a schema of their own."""
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[storage]\nurl = "{server.url}"\nnamespace = "health"\n')
    place = Workspace(place.root)
    trust(place)
    return place


@asynccontextmanager
async def in_a_process(place: Workspace) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client of `hive serve`, and its process."""
    process = serve(place, "--headless", "--port", "0", "--json", "--roles", "runs,http")
    assert process.stdout is not None
    try:
        line = await asyncio.to_thread(process.stdout.readline)
        url = line.partition('"webhooks": "')[2].partition("/webhooks")[0]
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            await until(client, 200)
            yield client, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


async def until(client: httpx.AsyncClient, status: int) -> None:
    while (await client.get("/readyz")).status_code != status:
        await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_disk_that_is_full_is_alive_and_not_ready_and_costs_nothing_that_was_done(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    dana = bearer(place)
    async with in_a_process(place) as (client, pid):
        first = await client.post("/api/runs", json=QUESTION, headers=dana)
        assert first.status_code == 202
        resource.prlimit(pid, resource.RLIMIT_FSIZE, NO_ROOM)
        found = await client.get("/readyz")
        assert (found.status_code, found.json()["code"]) == (503, "HIVE-403")
        assert (await client.get("/healthz")).status_code == 200
        refused = await client.post("/api/runs", json=QUESTION, headers=dana)
        assert (refused.status_code, refused.json()["code"]) == (503, "HIVE-403")
        assert refused.headers["retry-after"]
        assert (await client.post("/api/query", json={"query": "token"}, headers=dana)).status_code == 200
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await until(client, 200)
        path = f"/api/runs/{first.json()['run_id']}"
        while (await client.get(path, headers=dana)).json()["run"]["status"] != "done":
            await asyncio.sleep(0.05)
        assert (await client.post("/api/runs", json=QUESTION, headers=dana)).status_code == 202
