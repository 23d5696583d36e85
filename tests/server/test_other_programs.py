"""What programs of other sites and machines meet: versioned paths, scripts of listed sites, compression, examples."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from hive_agents import HiveError, Workspace
from hive_agents.server.meta import OPERATIONS, described
from hive_agents.workspace.settings import load_settings
from tests.server.serving import SETTINGS, asked, bearer, sample, served

SITE = "https://app.example"
LONG = "/api/openapi.json"


async def test_every_route_of_the_api_answers_under_its_version(place: Workspace, client: httpx.AsyncClient) -> None:
    dana = bearer(place)
    plain, versioned = [await client.get(f"/api{v}/openapi.json", headers=dana) for v in ("", "/v1")]
    assert versioned.json() == plain.json()
    sent = await client.post("/api/v1/runs", json={"input": {"text": "what is a key?"}}, headers=dana)
    assert sent.status_code == 202
    run = sent.json()["run_id"]
    assert (await client.get(f"/api/v1/runs/{run}", headers=dana)).json()["run"]["run_id"] == run
    for path, status in (("/api/v1", 404), ("/api/v1/", 404), ("/api/v1/v1/session", 404), ("/api/v2/session", 404)):
        assert (await client.get(path, headers=dana)).status_code == status, path
    assert (await client.get("/api/v1/session")).status_code == 401
    refused = await client.post("/api/v1/session", headers=dana)
    assert (refused.status_code, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    numbers = (await client.get("/metrics", headers=bearer(place, "root"))).text
    assert 'route="/api/runs/{run_id}"' in numbers
    assert "/api/v1" not in numbers


async def test_no_other_site_is_let_in_without_origins(place: Workspace, client: httpx.AsyncClient) -> None:
    found = await client.get("/api/session", headers=bearer(place) | {"Origin": SITE})
    assert not [name for name in found.headers if name.startswith("access-control")]
    asks = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    assert (await client.options("/api/query", headers=asks)).status_code == 405


@pytest.mark.parametrize(("origins", "allowed"), [(f'["{SITE}"]', SITE), ('["*"]', "*")])
async def test_scripts_of_listed_sites_call_with_a_token_and_never_with_a_session(
    tmp_path: Path, origins: str, allowed: str
) -> None:
    place = sample(tmp_path / "ws", SETTINGS + f"origins = {origins}\n")
    async with served(place, roles=("http",)) as client:
        asks = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
        asks["Access-Control-Request-Headers"] = "authorization, content-type, idempotency-key, x-stainless-os"
        preflight = await client.options("/api/v1/query", headers=asks)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, allowed)
        assert preflight.headers["access-control-allow-headers"] == asks["Access-Control-Request-Headers"]
        own = bearer(place) | {"Origin": SITE}
        answers = [await client.get(path, headers=own) for path in ("/api/session", "/api/runs/none", "/nowhere")]
        answers.append(await client.get("/api/session", headers={"Origin": SITE}))
        assert [one.status_code for one in answers] == [200, 404, 404, 401]
        assert {one.headers["access-control-allow-origin"] for one in answers} == {allowed}
        assert "Retry-After" in answers[0].headers["access-control-expose-headers"]
        for one in (preflight, *answers):
            assert "access-control-allow-credentials" not in one.headers
        other = await client.get("/api/session", headers=own | {"Origin": "https://evil.example"})
        assert other.headers.get("access-control-allow-origin") == ("*" if allowed == "*" else None)


def test_a_site_is_named_without_a_path(tmp_path: Path) -> None:
    for wrong in ("app.example", "https://app.example/", "https://*.example", "null"):
        (tmp_path / "hive.toml").write_text(f'[server]\norigins = ["{wrong}"]\n')
        with pytest.raises(HiveError, match=r"server\.origins"):
            load_settings(tmp_path, {})


async def test_long_answers_are_compressed_and_streams_are_not(place: Workspace, client: httpx.AsyncClient) -> None:
    root = bearer(place, "root")
    for takes, sent in (("gzip", "gzip"), ("identity", None)):
        found = await client.get(LONG, headers=root | {"Accept-Encoding": takes})
        assert found.headers.get("content-encoding") == sent
        assert found.headers["vary"] == "Accept-Encoding"
        assert found.json()["openapi"] == "3.1.0"
    short = await client.get("/api/session", headers=root | {"Accept-Encoding": "gzip"})
    assert "content-encoding" not in short.headers
    await asked(client, bearer(place), "what is a key?")
    async with client.stream("GET", "/api/events/stream", headers=root | {"Accept-Encoding": "gzip"}) as stream:
        assert "content-encoding" not in stream.headers  # it came before the first event
        await asked(client, bearer(place), "what is a token?")
        assert "data: {" in await asyncio.wait_for(anext(stream.aiter_text()), 30)


def test_every_body_and_path_has_an_example_that_fits() -> None:
    document = described()
    for operation in OPERATIONS:
        shown = document["paths"][operation.path.replace(":path", "")][operation.method.lower()]
        for part in shown["parameters"]:
            assert part["in"] != "path" or part["example"]
        body = operation.body or operation.takes
        if body is not None:
            body.model_validate(shown["requestBody"]["content"]["application/json"]["example"])
