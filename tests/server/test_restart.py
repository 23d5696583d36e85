"""A server that is killed in the middle of a stream: its client goes on where it was."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from tests.agents.conftest import agent_json, node, write_json
from tests.cli.test_serve import serve
from tests.ports import lasting_port
from tests.server.serving import SETTINGS, bearer, followed, frames, posted, sample

SCRIPT = [
    {"content": "Let me ask.", "tool_calls": [{"name": "ask_user", "args": {"question": "Which one?"}}]},
    {"content": "So it is.", "tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "the second"}}]},
]


pytestmark = pytest.mark.slow


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = sample(tmp_path / "ws", SETTINGS + "[runs]\nlease_seconds = 2.0\n")  # a dead worker is soon replaced
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, SCRIPT)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    agent = agent_json(node("write", output_keys=["text"]), id="writer", model="scripted:script.jsonl")
    write_json(place, "agents/writer.json", agent)
    return place


class Server:
    """`hive serve` in a process of its own, which can be killed and begun again at the same port."""

    def __init__(self, place: Workspace) -> None:
        self.port = lasting_port()
        self._place = place
        self._process: Any = None

    async def begin(self, client: httpx.AsyncClient) -> None:
        options = ("--headless", "--port", str(self.port), "--quiet", "--roles", "runs,http")
        self._process = serve(self._place, *options)
        await ready(client)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    async def again(self, client: httpx.AsyncClient) -> None:
        self._process.communicate()
        await self.begin(client)

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


@pytest.fixture
async def server(place: Workspace) -> AsyncIterator[Server]:
    server = Server(place)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        await server.begin(client)
        yield client


@pytest.fixture
def root(place: Workspace) -> dict[str, str]:
    return bearer(place, "root", "operator", "approver")


async def test_a_client_goes_on_after_the_server_was_killed(
    server: Server, client: httpx.AsyncClient, root: dict[str, str]
) -> None:
    told: list[Any] = []
    body = {"graph": "event_loop", "agent": "writer"}
    run = (await client.post("/api/runs", json=body, headers=root)).json()
    async with client.stream("GET", run["events"], headers=root) as response:
        with suppress(httpx.RemoteProtocolError, httpx.ReadError):
            async for one in frames(response):
                told.append(one)
                if one.type == "RUN_FINISHED":
                    server.kill()
    await server.again(client)
    await decided(client, told[-1].value, root)
    last = next(one.id for one in reversed(told) if one.id)
    told += await followed(client, run["events"], root | {"Last-Event-ID": last})
    types = [one.type for one in told]
    assert types.count("RUN_STARTED") == types.count("RUN_FINISHED") == 2
    assert types.count("TOOL_CALL_START") == types.count("TOOL_CALL_RESULT") == 2
    texts = [one.value["delta"] for one in told if one.type == "TEXT_MESSAGE_CONTENT"]
    assert texts == ["Let me ask.", "So it is."]
    assert told[-1].value["result"]["outputs"] == {"text": "the second"}


async def test_an_agui_client_sends_its_run_again_and_gets_the_rest(
    server: Server, client: httpx.AsyncClient, root: dict[str, str]
) -> None:
    said = {"messages": [{"id": "m1", "role": "user", "content": "go"}]}
    first = {"threadId": "mine", "runId": "first", **said}
    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
        async with client.stream("POST", "/agui/writer", json=first, headers=root) as response:
            async for one in frames(response):
                if one.type == "TEXT_MESSAGE_CONTENT":
                    server.kill()
    await server.again(client)
    told = await posted(client, "/agui/writer", first, root)
    assert (told[0].type, told[-1].value["outcome"]["type"]) == ("RUN_STARTED", "interrupt")
    assert [one.value["delta"] for one in told if one.type == "TEXT_MESSAGE_CONTENT"] == ["Let me ask."]
    (interrupt,) = told[-1].value["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": "the second"}]
    rest = await posted(client, "/agui/writer", {"threadId": "mine", "runId": "second", "resume": resume, **said}, root)
    assert rest[-1].value["result"]["outputs"] == {"text": "the second"}
    assert len((await client.get("/api/runs", headers=root)).json()["runs"]) == 1


async def test_a_completion_under_a_key_is_asked_for_again(
    server: Server, client: httpx.AsyncClient, root: dict[str, str]
) -> None:
    body = {"model": "agent/writer", "messages": [{"role": "user", "content": "{}"}], "stream": True}
    keyed = root | {"Idempotency-Key": "mine"}
    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
        async with client.stream("POST", "/v1/chat/completions", json=body, headers=keyed) as response:
            async for line in response.aiter_lines():
                if "Let me ask." in line:
                    server.kill()
    await server.again(client)
    found = (await client.post("/v1/chat/completions", json=body | {"stream": False}, headers=keyed)).json()
    text = found["choices"][0]["message"]["content"]
    assert text.startswith("Let me ask.")
    assert text.count("Waits for a person") == 1
    assert len((await client.get("/api/runs", headers=root)).json()["runs"]) == 1


async def decided(client: httpx.AsyncClient, finished: dict[str, Any], headers: dict[str, str]) -> None:
    (interrupt,) = finished["outcome"]["interrupts"]
    answer = {"verb": "respond", "message": "the second"}
    found = await client.post(f"/api/approvals/{interrupt['id']}/decide", json=answer, headers=headers)
    assert found.status_code == 200, found.text


async def ready(client: httpx.AsyncClient) -> None:
    import asyncio

    for _ in range(600):
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.1)
    pytest.fail("the server isn't ready")
