"""A server that is killed in the middle of a stream: its client goes on where it was."""

from __future__ import annotations

import json
import signal
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents.conftest import agent_json, node, write_json
from tests.cli.test_serve import serve
from tests.server.serving import bearer, followed, frames, sample

SCRIPT = [
    {"content": "Let me ask.", "tool_calls": [{"name": "ask_user", "args": {"question": "Which one?"}}]},
    {"content": "So it is.", "tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "the second"}}]},
]


@pytest.mark.slow
async def test_a_client_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = sample(tmp_path / "ws")
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, SCRIPT)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    agent = agent_json(node("write", output_keys=["text"]), id="writer", model="scripted:script.jsonl")
    write_json(place, "agents/writer.json", agent)
    root, url = bearer(place, "root", "operator", "approver"), f"http://127.0.0.1:{port}"
    told: list[Any] = []
    options = ("--headless", "--port", str(port), "--quiet", "--roles", "runs,http")
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        first = serve(place, *options)
        await ready(client)
        body = {"graph": "event_loop", "agent": "writer"}
        run = (await client.post("/api/runs", json=body, headers=root)).json()
        async with client.stream("GET", run["events"], headers=root) as response:
            with suppress(httpx.RemoteProtocolError):
                async for one in frames(response):
                    told.append(one)
                    if one.type == "RUN_FINISHED":
                        first.send_signal(signal.SIGKILL)
        first.communicate()
        second = serve(place, *options)
        await ready(client)
        (interrupt,) = told[-1].value["outcome"]["interrupts"]
        answer = {"verb": "respond", "message": "the second"}
        decided = await client.post(f"/api/approvals/{interrupt['id']}/decide", json=answer, headers=root)
        assert decided.status_code == 200, decided.text
        last = next(one.id for one in reversed(told) if one.id)
        told += await followed(client, run["events"], root | {"Last-Event-ID": last})
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=60)
        assert second.returncode == 0
    types = [one.type for one in told]
    assert types.count("RUN_STARTED") == types.count("RUN_FINISHED") == 2
    assert types.count("TOOL_CALL_START") == types.count("TOOL_CALL_RESULT") == 2
    texts = [one.value["delta"] for one in told if one.type == "TEXT_MESSAGE_CONTENT"]
    assert texts == ["Let me ask.", "So it is."]
    assert told[-1].value["result"]["outputs"] == {"text": "the second"}


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
