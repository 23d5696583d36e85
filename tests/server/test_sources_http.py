"""Sources over HTTP and on the page of documents: only for those who may view all that a source brings."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from hive_agents.host.due_sources import run_due_sources
from hive_agents.sources import add_source
from hive_agents.sources.running import due_sources, run_source
from hive_agents.sources.showing import source_rows
from hive_agents.store import audit
from tests.server.serving import bearer, sample, served


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    made = sample(tmp_path / "ws")
    for tenant in ("acme", "globex"):
        folder = tmp_path / tenant
        folder.mkdir()
        (folder / "a.md").write_text(f"# A note of {tenant}\n\nIts text.\n")
        values = {"kind": "folder", "url": str(folder), "tenant": tenant, "view": ["user:nobody"]}
        add_source(Workspace(made.root), f"notes-{tenant}", {**values, "schedule": "0 2 * * *"})
    return Workspace(made.root)


def administrators(place: Workspace, tenant: str) -> list[str]:
    found = [json.loads(path.read_text()).get("tenants", {}) for path in (place.root / "access").glob("*.json")]
    return [who for each in found for who in each.get(tenant, {}).get("admins", [])]


async def names(client: httpx.AsyncClient, headers: dict[str, str]) -> list[str]:
    found = await client.get("/api/sources", headers=headers)
    assert found.status_code == 200, found.text
    return [one["name"] for one in found.json()["sources"]]


async def test_an_administrator_sees_runs_and_pauses_the_sources_of_their_tenant_alone(place: Workspace) -> None:
    assert administrators(place, "acme") == ["user:root"]
    async with served(place, roles=("http",)) as client:
        root, dana = bearer(place, "root", "operator"), bearer(place, "dana", "operator")
        assert (await names(client, root), await names(client, dana)) == (["notes-acme"], [])
        refusals = set()
        for name in ("notes-globex", "nowhere"):
            asked = [await client.post(f"/api/sources/{name}/run", headers=root)]
            asked.append(await client.get(f"/api/sources/{name}", headers=root))
            asked.append(await client.post(f"/api/sources/{name}/pause", json={}, headers=root))
            assert [one.status_code for one in asked] == [404] * 3
            refusals |= {one.text.replace(name, "NAME") for one in asked}
        assert len(refusals) == 1
        assert (await client.post("/api/sources/notes-acme/run", headers=dana)).status_code == 404
        reader = bearer(place, "root", "reader")
        assert (await client.get("/api/sources", headers=reader)).status_code == 403
        paused = await client.post("/api/sources/notes-acme/pause", json={"paused": True}, headers=root)
        assert (paused.status_code, paused.json()["paused"]) == (200, True)
        for _ in range(2):
            asked_for = await client.post("/api/sources/notes-acme/run", headers=root)
            assert (asked_for.status_code, asked_for.json()["asked"]) == (202, True)
        page = (await client.get("/documents", headers=root)).text
        assert ("notes-acme" in page, "notes-globex" in page) == (True, False)
        assert "notes-acme" not in (await client.get("/documents", headers=dana)).text
    assert [len(list(audit.entries(place, f"source_{kind}"))) for kind in ("paused", "asked")] == [1, 2]


async def test_the_owner_sees_all_and_a_host_runs_what_was_asked_for_once(place: Workspace) -> None:
    for name in ("notes-acme", "notes-globex"):
        run_source(place, name)
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        headers = {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}
        assert await names(client, headers) == ["notes-acme", "notes-globex"]
        await client.post("/api/sources/notes-globex/run", headers=headers)
        shown = (await client.get("/api/sources/notes-globex", headers=headers)).json()
        assert [run["status"] for run in shown["runs"]] == ["done"]
    (place.root.parent / "globex" / "b.md").write_text("# B\n\nAnother text.\n")
    work = asyncio.create_task(run_due_sources(place))
    while source_rows(place)[1]["asked"] or source_rows(place)[1]["last_run"]["status"] == "running":
        await asyncio.sleep(0.05)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    row = source_rows(place)[1]
    assert (row["asked"], row["documents"], row["last_run"]["added"]) == (False, 2, 1)
    assert "notes-globex" not in due_sources(place, dt.datetime.fromisoformat(row["last_run"]["ended_at"]))
