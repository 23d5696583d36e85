"""Slow clients against a real port: whoever is waited for too long goes, and makes room for others before that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hive_agents import Workspace
from hive_agents.runs import RunStore
from hive_agents.server import Listener, app
from hive_agents.workspace.trusted import trust
from tests.host.hosting import SECRET, host, prepared, until
from tests.server.slow_clients import HEAD, PART
from tests.server.test_webhooks_http import BODY, signed

UNREAD = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
LARGE = 8_000_000


@asynccontextmanager
async def serving(place: Workspace, **server: Any) -> AsyncIterator[Listener]:
    settings = "".join(f"{name} = {value}\n" for name, value in server.items())
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text() + f"[server]\nport = 0\n{settings}")
    trust(place)
    listener = Listener(Workspace(place.root))
    async with host(Workspace(place.root), roles=("runs", "http"), serve=listener.serve):
        try:
            yield listener
        finally:
            listener.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_TEST_RING", SECRET)
    return prepared(tmp_path / "ws")


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that came until the server closed the connection."""
    with suppress(ConnectionError):
        return await reader.read()
    return b""


async def sent(listener: Listener, begun: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(begun)
    await writer.drain()
    return reader, writer


async def is_alive(listener: Listener) -> bool:
    async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
        return (await client.get("/healthz")).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begun", "told"),
    [
        (b"", b""),
        (HEAD, b"HTTP/1.1 408"),
        (PART, b"HTTP/1.1 408"),
        (UNREAD, b"HTTP/1.1 404"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEAD, b"HTTP/1.1 200"),
    ],
)
async def test_whoever_does_not_finish_a_request_is_cut_off(place: Workspace, begun: bytes, told: bytes) -> None:
    async with serving(place, header_seconds=0.3, body_seconds=0.3) as listener:
        reader, writer = await sent(listener, begun)
        assert (await ended(reader)).startswith(told)
        writer.close()


@pytest.mark.parametrize("begun", [HEAD, PART])
async def test_sending_a_byte_now_and_then_buys_no_time(place: Workspace, begun: bytes) -> None:
    async with serving(place, header_seconds=0.5, body_seconds=0.5) as listener:
        reader, writer = await sent(listener, begun)

        async def drip() -> None:
            with suppress(ConnectionError):
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        await ended(reader)
        dripping.cancel()
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False])
async def test_whoever_does_not_read_the_answer_is_cut_off(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    async def large(_: Any) -> PlainTextResponse:
        return PlainTextResponse("x" * LARGE)

    monkeypatch.setattr(app, "ROUTES", [*app.ROUTES, Route("/large", large)])
    async with serving(place, read_seconds=0.3) as listener:
        closes = b"" if keeps else b"Connection: close\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n" + closes + b"\r\n")
        await writer.drain()
        assert (await reader.read(12)).startswith(b"HTTP/1.1 200")
        while not writer.transport.is_closing():  # cut off, whatever is still in the socket's buffers
            await asyncio.sleep(0.05)
            writer.write(b"x")
        writer.close()


@pytest.mark.parametrize("begun", [b"", HEAD, PART])
async def test_slow_clients_at_the_cap_make_room(place: Workspace, begun: bytes) -> None:
    """More slow ones than the cap, which would stay for an hour: others are answered, and a run goes through."""
    async with serving(place, connections_per_address=10, header_seconds=3600, body_seconds=3600) as listener:
        slow = [await sent(listener, begun) for _ in range(40)]
        assert await is_alive(listener)
        async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
            run = (await client.post("/webhooks/ring", content=BODY, headers=signed())).json()["run_id"]
        await until(place, "done", run)
        first, _ = slow[0]
        await ended(first)  # the one that came first made room
        for _, writer in slow:
            writer.close()
        assert [row.run_id for row in RunStore(place).list()] == [run]


async def test_who_was_answered_stays_before_those_who_never_asked(place: Workspace) -> None:
    async with serving(place, connections_per_address=3, header_seconds=3600) as listener:
        asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        reader, writer = await sent(listener, asked)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        slow = [await sent(listener, HEAD) for _ in range(9)]
        await ended(slow[0][0])
        writer.write(asked)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        for _, one in [*slow, (reader, writer)]:
            one.close()


@pytest.mark.parametrize("cap", ["connections", "connections_per_address"])
async def test_who_is_being_answered_is_not_cut_off_for_others(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, cap: str
) -> None:
    going = asyncio.Event()

    async def patient(_: Any) -> PlainTextResponse:
        await going.wait()
        return PlainTextResponse("here")

    monkeypatch.setattr(app, "ROUTES", [*app.ROUTES, Route("/patient", patient)])
    async with serving(place, **{cap: 2}) as listener:
        request = b"GET /patient HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        patiently = [await sent(listener, request) for _ in range(2)]
        refused, writer = await sent(listener, b"")
        assert (await ended(refused)).startswith(b"HTTP/1.1 503")
        writer.close()
        going.set()
        for reader, writer in patiently:
            assert (await ended(reader)).endswith(b"here")
            writer.close()
        assert await is_alive(listener)


async def test_all_bodies_together_are_bounded(place: Workspace) -> None:
    async with serving(place, bodies_bytes=2_000, body_seconds=3600) as listener:
        half = b"POST /webhooks/ring HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1900\r\n\r\n" + b"x" * 1_500
        _, first = await sent(listener, half)
        reader, second = await sent(listener, half)
        assert (await ended(reader)).startswith(b"HTTP/1.1 503")
        first.close()
        second.close()
        while True:  # room again, once the first one is gone
            async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
                if (await client.post("/webhooks/ring", content=BODY, headers=signed())).status_code != 503:
                    break


FRAMINGS = {
    "length and chunks": (b"1.1", b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
    "chunks and length": (b"1.1", b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
    "chunks on a folded line": (b"1.1", b"Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n"),
    "chunks in HTTP/1.0": (b"1.0", b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n"),
    "another coding": (b"1.1", b"Transfer-Encoding: xchunked\r\n"),
    "two codings": (b"1.1", b"Transfer-Encoding: chunked, identity\r\n"),
    "chunks twice": (b"1.1", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    "two lengths": (b"1.1", b"Content-Length: 4\r\nContent-Length: 5\r\n"),
    "two lengths in one": (b"1.1", b"Content-Length: 4, 5\r\n"),
    "a signed length": (b"1.1", b"Content-Length: +4\r\n"),
    "a negative length": (b"1.1", b"Content-Length: -4\r\n"),
    "a space before the colon": (b"1.1", b"Transfer-Encoding : chunked\r\n"),
    "a bare return": (b"1.1", b"X: a\rTransfer-Encoding: chunked\r\n"),
    "a null": (b"1.1", b"X: a\0\r\n"),
    "two hosts": (b"1.1", b"Host: y\r\nContent-Length: 4\r\n"),
}


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_request_that_ends_at_two_places_is_refused_and_nothing_after_it_is_read(
    place: Workspace, framing: str
) -> None:
    version, headers = FRAMINGS[framing]
    begun = b"POST /webhooks/ring HTTP/%b\r\nHost: localhost\r\n%b\r\n0\r\n\r\n" % (version, headers)
    async with serving(place) as listener:
        reader, writer = await sent(listener, begun + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answered = await ended(reader)
        writer.close()
        assert answered.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
        assert answered.count(b"HTTP/1.1") == 1
        assert await is_alive(listener)


async def test_the_memory_of_a_body_is_given_back_however_its_request_ends(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(request: Any) -> PlainTextResponse:
        await request.body()
        raise RuntimeError("a fault of a handler")

    monkeypatch.setattr(app, "ROUTES", [*app.ROUTES, Route("/failing", failing, methods=["POST"])])
    async with serving(place, bodies_bytes=2_000, body_bytes=1_900, body_seconds=0.3) as listener:
        async with httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
            ends = {
                "/failing": {500},
                "/nothing": {404, 405},
                "/webhooks/ring": {401},
                "/api/query": {401},
                "/v1/chat/completions": {401},
                "/mcp": {401},
            }
            for path, statuses in ends.items():
                for _ in range(3):
                    assert (await client.post(path, content=b"x" * 1_500)).status_code in statuses, path
            for _ in range(3):  # too large, though nothing says so beforehand
                too_large = await client.post("/failing", content=iter_of(b"x" * 1_000, 3))
                assert too_large.status_code == 413
                half = b"POST /failing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1600\r\n\r\n" + b"x" * 1_500
                reader, writer = await sent(listener, half)
                assert (await ended(reader)).startswith(b"HTTP/1.1 408")
                writer.close()
            assert (await client.post("/webhooks/ring", content=b"x" * 1_500)).status_code == 401


async def iter_of(part: bytes, times: int) -> AsyncIterator[bytes]:
    for _ in range(times):
        yield part


@pytest.mark.slow
async def test_two_thousand_slow_connections_hold_nobody_up(place: Workspace) -> None:
    """For a minute: heads, bodies and silence, from one address, each back again when it is cut off.

    How long an answer took at most is printed (`-s`): on a busy machine that tells of the machine.
    """
    served = subprocess.Popen(
        [sys.executable, "-m", "tests.host.hosting", str(place.root), "0"], stdout=subprocess.PIPE, text=True
    )
    assert served.stdout is not None
    port = json.loads(served.stdout.readline())["port"]
    slow: subprocess.Popen[bytes] | None = None
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.1)
            await client.post("/webhooks/ring", content=BODY, headers=signed(id="warm"))
            before = most = resident(served.pid)
            slow = subprocess.Popen([sys.executable, "-m", "tests.server.slow_clients", str(port), "2000"])
            began, slowest, runs = time.monotonic(), 0.0, []
            while time.monotonic() - began < 60:
                asked = time.monotonic()
                assert health(port).startswith(b"HTTP/1.1 200")
                slowest = max(slowest, time.monotonic() - asked)
                most = max(most, resident(served.pid))
                answer = await client.post("/webhooks/ring", content=BODY, headers=signed(id=f"r{len(runs)}"))
                runs.append(answer.json()["run_id"])
                await asyncio.sleep(1)
        for run in runs:
            await until(place, "done", run)
        print(f"slowest {slowest:.3f} s, {len(runs)} runs, {(most - before) / 2**20:.1f} MB more")
        assert most - before < 200 * 2**20
    finally:
        if slow is not None:
            slow.kill()
            slow.wait()
        served.send_signal(signal.SIGTERM)
        served.wait(timeout=60)
        served.stdout.close()


def health(port: int) -> bytes:
    """The answer to a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(100)


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
