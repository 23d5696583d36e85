"""examples/serve: systemd takes the unit, and Caddy serves a host with TLS, its streams as they come."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from tests.ports import lasting_port
from tests.server.serving import asked, bearer, frames, sample, served

pytestmark = pytest.mark.slow
SERVE = Path(__file__).parents[2] / "examples" / "serve"
OPTIONS = """{{
	admin off
	skip_install_trust
	auto_https disable_redirects
	storage file_system {storage}
}}
import {example}
"""


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = (SERVE / "hive.service").read_text(encoding="utf-8")
    command = next(line for line in text.splitlines() if line.startswith("ExecStart=")).split("=", 1)[1].split()[0]
    unit = tmp_path / "hive.service"
    unit.write_text(text.replace(command, sys.executable), encoding="utf-8")
    ran = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


@asynccontextmanager
async def caddy(folder: Path, site: str, upstream: str) -> AsyncIterator[Callable[[], None]]:
    """Caddy with the example's file, while the block runs; what is yielded fails once it has ended."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("caddy is not installed")
    config, log = folder / "Caddyfile", folder / "log"
    config.write_text(OPTIONS.format(storage=folder / "caddy", example=SERVE / "Caddyfile"), encoding="utf-8")
    environment = {**os.environ, "HIVE_SITE": site, "HIVE_UPSTREAM": upstream, "HOME": str(folder)}
    command = (program, "run", "--config", str(config), "--adapter", "caddyfile")
    with log.open("wb") as told:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=told)

    def runs() -> None:
        assert process.returncode is None, log.read_text()

    try:
        yield runs
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def client(place: Workspace, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of Caddy before a host on which nobody works on runs; it trusts Caddy's own authority and no other."""
    site, authority = f"localhost:{lasting_port()}", tmp_path / "caddy/pki/authorities/local/root.crt"
    async with (
        served(place, roles=("http",)) as direct,
        caddy(tmp_path, site, f"127.0.0.1:{direct.base_url.port}") as runs,
    ):
        while not authority.exists():
            runs()
            await asyncio.sleep(0.05)
        context = ssl.create_default_context(cafile=authority)
        async with httpx.AsyncClient(base_url=f"https://{site}", verify=context, timeout=60) as client:
            while not await answers(client):
                runs()
                await asyncio.sleep(0.05)
            yield client


async def answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx.TransportError:
        return False


async def test_a_stream_comes_through_while_it_goes_on_and_ends_when_its_reader_leaves(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    dana = bearer(place)
    run = await asked(client, dana, "what returns a fresh token?")
    async with client.stream("GET", run["events"], headers=dana) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert (await anext(frames(response))).type == "RUN_STARTED"
    root = bearer(place, "root")
    for _ in range(200):  # ten seconds, where a proxy that reads on for those who have left takes a minute
        if "hive_event_streams 0.0" in (await client.get("/metrics", headers=root)).text:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the host still streams to a reader who has left")


async def test_a_browser_gets_a_cookie_for_tls_alone(place: Workspace, client: httpx.AsyncClient) -> None:
    found = await client.get("/login", params={"code": login_code(place, "alice")})
    cookie = found.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("secure", "httponly", "samesite=strict"))
    assert (await client.get("/api/session")).json()["user"] == "alice"


async def test_nothing_that_a_proxy_says_is_a_proof(place: Workspace, client: httpx.AsyncClient) -> None:
    claimed = {"X-Forwarded-User": "root", "X-Remote-User": "root", "X-Forwarded-For": "127.0.0.1"}
    assert (await client.get("/api/session", headers=claimed)).status_code == 401


async def test_what_is_read_is_answered_by_the_other_host_when_one_is_gone(tmp_path: Path) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    hosts = [await asyncio.start_server(reply, "127.0.0.1", lasting_port()) for _ in range(2)]
    upstream = " ".join(f"127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in hosts)
    url = f"http://127.0.0.1:{lasting_port()}"
    async with (
        caddy(tmp_path, url, upstream) as runs,
        httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client,
    ):
        while not await answers(client):
            runs()
            await asyncio.sleep(0.05)
        hosts[0].close()
        found = [(await client.get("/api/runs")).status_code for _ in range(8)]
    hosts[1].close()
    assert found == [200] * 8
