"""/healthz and /readyz tell the truth: of a database that others have, a disk that is full, a model that is dead."""

from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.models import ModelError
from hive_agents.models.breaker import breaker_of, forget_breakers
from hive_agents.store import connect
from tests.cli.test_serve import serve
from tests.server.serving import bearer, sample, served

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
