"""A host over a real port: signed webhooks start runs, faults are problem+json, health says how it stands."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import StreamingResponse
from starlette.routing import Route

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.host.host import Host
from hive_agents.runs import RunStore
from hive_agents.server import Listener, app
from hive_agents.triggers.webhooks import sign
from hive_agents.workspace.trusted import trust
from tests.host.hosting import SECRET, effects, host, prepared, until
from tests.server.loops import work_on_this_thread

BODY = b'{"what": "work", "seconds": 0}'
GZIPPED = {"Content-Encoding": "gzip"}
SQUEEZED = gzip.compress(BODY, mtime=0)  # no time in it: every worker must collect the same name of the test
UNFINISHED = b'POST /webhooks/ring HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{"wh'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_TEST_RING", SECRET)
    place = prepared(tmp_path / "ws")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text() + "[server]\nport = 0\nbody_bytes = 2000\n")
    trust(place)
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    listener = Listener(place)
    async with host(place, roles=("runs", "http"), serve=listener.serve):
        async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.02)
            yield client
    listener.close()


def signed(body: bytes = BODY, id: str = "e1", secret: str = SECRET) -> dict[str, str]:
    at = int(time.time())
    return {"X-Hive-Timestamp": str(at), "X-Hive-Id": id, "X-Hive-Signature": sign(secret, body, at)}


def require_problem(response: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    value: dict[str, Any] = response.json()
    assert set(value) == {"type", "title", "status", "detail", "code", "diagnostics"}
    assert (value["status"], value["code"]) == (status, code)
    return value


async def test_a_signed_request_starts_a_run_once(place: Workspace, client: httpx.AsyncClient) -> None:
    first = await client.post("/webhooks/ring", content=BODY, headers=signed())
    again = await client.post("/webhooks/ring", content=BODY, headers=signed())
    assert (first.status_code, again.status_code) == (202, 200)
    run = first.json()["run_id"]
    assert again.json() == {"run_id": run}
    await until(place, "done", run)
    assert len(effects(place, run)) == 3
    assert len(RunStore(place).list()) == 1


async def test_a_body_is_read_beside_the_thread_that_serves_everybody(place: Workspace) -> None:
    bodies = {BODY: 202, b'{"what": ' + b"[" * 900 + b"}": 400, b'["work", 1, [2]]': 422}
    listener = Listener(place)
    async with host(place, roles=("http",), serve=listener.serve):  # nobody runs what is queued
        async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
            for status, (number, body) in zip(bodies.values(), enumerate(bodies), strict=True):
                headers = signed(body, f"own-{number}")
                with work_on_this_thread() as called:
                    sent = await client.post("/webhooks/ring", content=body, headers=headers)
                assert sent.status_code == status
                assert not called
    listener.close()


async def test_twenty_of_one_id_at_once_are_one_run(place: Workspace, client: httpx.AsyncClient) -> None:
    sent = [client.post("/webhooks/ring", content=BODY, headers=signed()) for _ in range(20)]
    answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        ("/webhooks/ring", BODY, lambda _: {}, 401, "HIVE-426"),
        ("/webhooks/ring", BODY, lambda body: signed(body, secret="another"), 401, "HIVE-426"),
        ("/webhooks/../ring", BODY, signed, 404, "HIVE-409"),
        ("/webhooks/ring/", BODY, signed, 404, "HIVE-409"),
        ("/webhooks/rung", BODY, signed, 404, "HIVE-426"),
        ("/webhooks/ring", b"{", signed, 400, "HIVE-101"),
        ("/webhooks/ring", b'{"wat": 1}', signed, 422, "HIVE-103"),
        ("/webhooks/ring", b"x" * 2001, signed, 413, "HIVE-115"),
        ("/webhooks/ring", SQUEEZED, lambda body: signed(body) | GZIPPED, 415, "HIVE-409"),
        ("/api/query", SQUEEZED, lambda _: GZIPPED, 415, "HIVE-409"),
        ("/api/nothing", BODY, lambda _: {}, 404, "HIVE-409"),
    ],
)
async def test_what_cannot_be_taken_is_a_problem(
    place: Workspace, client: httpx.AsyncClient, path: str, body: bytes, headers: Any, status: int, code: str | None
) -> None:
    """Signed when it is sent: a signature holds for five minutes."""
    response = await client.post(path, content=body, headers=headers(body))
    require_problem(response, status, code)
    assert RunStore(place).list() == []


async def test_a_body_without_a_length_is_counted_as_it_comes(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 100

    require_problem(await client.post("/webhooks/ring", content=pieces(), headers=signed()), 413, "HIVE-115")


@pytest.mark.parametrize("began", [False, True])
async def test_a_defect_is_told_by_its_kind_alone(
    place: Workspace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, began: bool
) -> None:
    """Neither the answer nor the log has the message, also where the answer had begun."""

    async def defective(request: Any) -> Any:
        if not began:
            raise ValueError("Dear Kim")

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x"
            raise ValueError("Dear Kim")

        return StreamingResponse(pieces())

    monkeypatch.setattr(app, "ROUTES", [*app.ROUTES, Route("/defect", defective)])
    listener = Listener(place)
    async with host(place, roles=("http",), serve=listener.serve):
        async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
            if began:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get("/defect")
            else:
                require_problem(await client.get("/defect"), 500)
    listener.close()
    assert "a request failed: ValueError at tests.server.test_webhooks_http" in caplog.text
    assert "Kim" not in caplog.text


async def test_another_method_is_a_problem_that_names_the_right_one(client: httpx.AsyncClient) -> None:
    response = await client.get("/webhooks/ring")
    require_problem(response, 405, "HIVE-409")
    assert response.headers["allow"] == "POST"


async def test_garbage_on_the_port_harms_nobody(
    place: Workspace, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00",
        b"POST /webhooks/ring HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        UNFINISHED,
        b"",
    ):
        _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(garbage)
        writer.close()
        await writer.wait_closed()
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert "request failed" not in caplog.text


def test_an_address_that_others_reach_needs_keys(place: Workspace) -> None:
    with pytest.raises(HiveError, match="nobody has to say") as caught:
        Listener(place, "0.0.0.0")
    assert caught.value.exit_code == 2


def test_a_port_that_is_taken_is_told(place: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(HiveError, match="in use") as caught:
            Listener(place, port=taken.getsockname()[1])
    assert caught.value.exit_code == 3


async def test_the_server_begins_again_at_the_same_port(place: Workspace) -> None:
    """A part that failed begins again, and the port is still the host's."""
    listener, failed = Listener(place), False

    async def serve(hosted: Host) -> None:
        nonlocal failed
        task = asyncio.ensure_future(listener.serve(hosted))
        if not failed:
            failed = True
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise ZeroDivisionError
        await task

    async with host(place, roles=("http",), serve=serve), httpx.AsyncClient(base_url=listener.url) as client:
        while not failed:
            await asyncio.sleep(0.02)
        assert json.loads((await client.get("/healthz", timeout=10)).text) == {"status": "ok"}
    listener.close()
