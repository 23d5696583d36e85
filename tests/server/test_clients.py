"""Clients that others wrote complete a session: question, stream, citation, approval, resume, cancel, reconnect."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.runs import RunStore
from tests.agents.conftest import agent_json, node, write_json
from tests.environments import node_with, python_with
from tests.server.serving import sample, served, token

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
ASKS = [
    {"content": "Let me ask.", "tool_calls": [{"name": "ask_user", "args": {"question": "Which one?"}}]},
    {"content": "So it is.", "tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "the second"}}]},
]
SLEEPS = [{"content": "late", "delay_seconds": 600}]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """The sample, with an agent that asks a person, and one whose model is silent for longer than any test."""
    place = sample(tmp_path / "ws")
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    for id, script in (("writer", ASKS), ("sleeper", SLEEPS)):
        write_json(place, f"{id}.jsonl", "\n".join(map(json.dumps, script)))
        only = node("write", output_keys=["text"], client_facing=id == "writer")
        write_json(place, f"agents/{id}.json", agent_json(only, id=id, model=f"scripted:{id}.jsonl"))
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place) as client:
        yield client


def people(place: Workspace) -> tuple[str, str]:
    """The tokens of a reader, and of an operator who may decide."""
    return token(place), token(place, "root", "operator", "approver")


async def output_of(*command: object, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), env=os.environ | environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, out.decode()[-2000:] + errors.decode()[-4000:]
    return out.decode()


def url_of(client: httpx.AsyncClient) -> str:
    return str(client.base_url).rstrip("/")


async def test_the_agui_client_completes_a_session(place: Workspace, client: httpx.AsyncClient) -> None:
    programs = await asyncio.to_thread(node_with, "@ag-ui/client@1.0.0")
    out = await output_of(
        "node", CLIENTS / "agui_client.mjs", programs.parent, url_of(client), *people(place)
    )  # fmt: skip
    seen = json.loads(out.splitlines()[-1])
    assert seen["question"]["outcome"] == {"type": "success"}
    assert seen["question"]["types"].count("TEXT_MESSAGE_CONTENT") >= 1
    reply = seen["question"]["result"]
    assert (reply["status"], reply["results"][0]["citation"]) == ("results", "[1]")
    assert re.search(r"\[\d\]", seen["question"]["said"])
    assert seen["question"]["status"] == "done"
    assert seen["second"]["outcome"] == {"type": "success"}
    assert seen["interrupt"]["outcome"]["type"] == "interrupt"
    assert seen["resumed"]["result"]["outputs"] == {"text": "the second"}
    assert seen["resumed"]["pending"] == 0
    assert seen["cancelled"]["outcome"] == {"type": "cancelled"}
    assert "RUN_FINISHED" not in seen["lost"].get("types", [])
    assert seen["again"]["outcome"] == {"type": "success"}
    threads = [row.thread_id for row in RunStore(place).list(graph="worker")]
    assert len(threads) == 3  # two questions of one conversation, and one that was sent twice
    assert len(set(threads)) == 2


async def test_openais_and_langchains_packages_complete_a_session(place: Workspace, client: httpx.AsyncClient) -> None:
    programs = await asyncio.to_thread(python_with, "openai==3.54.0", "langchain-openai==1.7.3", "httpx==0.28.1")
    out = await output_of(programs / "python", CLIENTS / "openai_client.py", url_of(client), *people(place))
    seen = json.loads(out.splitlines()[-1])
    assert {"copilot", "agent/writer", "agent/sleeper"} <= set(seen["models"])
    assert (seen["finish"], seen["usage"]) == ("stop", 0)
    assert re.fullmatch(r"\[\d\]", seen["citation"]["mark"])
    assert seen["citation"]["title"] in seen["text"]
    assert len(seen["pieces"]) > 1
    assert "".join(seen["pieces"]) == seen["text"] == seen["langchain"]
    assert "Waits for a person" in seen["waits"]
    assert seen["decided"] == 200
    assert "So it is." in seen["resumed"]["text"]
    assert seen["outputs"] == {"text": "the second"}
    assert [seen[name][:2] for name in ("forged", "reader")] == [
        ["AuthenticationError", "HIVE-417"],
        ["PermissionDeniedError", "HIVE-415"],
    ]
    assert all("; " in seen[name][2] for name in ("forged", "reader")), "the message has its fix"
    assert "".join(seen["langchain_pieces"])
    assert "Waits for a person" in seen["langchain_waits"]
    assert "So it is." in seen["langchain_resumed"]
    assert seen["left"] != seen["langchain_left"]
    for left in (seen["left"], seen["langchain_left"]):
        while RunStore(place).get(left).status != "stopped":
            await asyncio.sleep(0.1)


async def test_curl_completes_a_session(place: Workspace, client: httpx.AsyncClient) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    reader, operator = people(place)
    named = {"URL": url_of(client), "READER": reader, "OPERATOR": operator}
    out = await output_of("bash", CLIENTS / "curl_client.sh", **named)
    seen = dict(part.split("\n", 1) for part in out.split("\n== ")[1:])
    whole = told(seen["question"])
    assert whole[0]["type"] == "RUN_STARTED"
    assert whole[-1]["result"]["results"][0]["citation"] == "[1]"
    rest = told(seen["reconnect"])
    assert whole[-len(rest) :] == rest
    assert seen["nothing_more"].strip() == "204"
    assert told(seen["interrupt"])[-1]["outcome"]["type"] == "interrupt"
    (asked,) = json.loads(seen["pending"])["items"]
    assert (asked["title"], asked["status"]) == ("Which one?", "pending")
    assert json.loads(seen["decided"])["by"] == "user:root"
    assert told(seen["resumed"])[-1]["result"]["outputs"] == {"text": "the second"}
    assert told(seen["cancelled"])[-1]["outcome"] == {"type": "cancelled"}


def told(stream: str) -> list[dict[str, Any]]:
    """The events of a stream without what isn't told again: how far a turn has come."""
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    return [one for one in events if not one["type"].startswith("STEP_")]
