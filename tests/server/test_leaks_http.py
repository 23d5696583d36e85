"""Every channel of the server gives the same bytes, with 500 documents that its reader may not see or none."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import local_key, mint
from tests.leaks.corpus import Doc, Rules, canary, make, random_documents, readers
from tests.server.serving import SETTINGS, served

READER = readers()[0]
RANDOM = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b[rtaf][0-9a-f]{10}(?:[0-9a-f]{10})?\b"), "ID"),
    (re.compile(r'"created": ?\d+'), "CREATED"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*(?:\+00:00|Z)"), "TIME"),
)


OBJECT = re.compile(r"\{[^{}]*\}")


def corpus(hidden: int) -> list[Doc]:
    rng = random.Random(7)
    mine = [
        Doc(n, f"open/{n}.md", ("acme",), ("tenant",), "effective", tuple(rng.sample(WORDS, 5)), "glass", "mei")
        for n in range(1, 21)
    ]
    others = [
        Doc(one.number, f"hidden/{one.number}.md", one.tenants, (), one.status, one.words, one.topic, one.owner)
        for one in random_documents(random.Random(8), hidden, first=1000)
    ]
    return [*mine, *others]


WORDS = ("rotor", "pump", "beaker", "lamp", "valve", "balance", "buffer")
TARGETS = ("hidden/1000.md", canary("v", 1000), canary("o", 1003), canary("b", 1001))
QUESTIONS = (
    "where is the rotor kept?",
    f"what does {canary('b', 1001)} say?",
    f"list documents owned by {canary('o', 1003)}",
    "list all documents",
    f"documents about {canary('v', 1000)}",
)


OF_THE_MOMENT = {"date", *(f"x-ratelimit-{name}{of}" for name in ("remaining", "reset") for of in ("", "-requests"))}
"""Headers that change with the time between two requests."""


def settled(text: str) -> str:
    for found, shown in RANDOM:
        text = found.sub(shown, text)
    return text


async def sent(client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], **how: Any) -> str:
    # Not compressed: the length of what is would change with random ids.
    found = await client.request(method, path, headers=headers | {"Accept-Encoding": "identity"}, **how)
    kept = {name: value for name, value in found.headers.items() if name not in OF_THE_MOMENT}
    return settled(f"{method} {path} {found.status_code} {json.dumps(kept)} {found.text}")


async def streamed(client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], **how: Any) -> str:
    async with client.stream(method, path, headers=headers, **how) as response:
        text = (await response.aread()).decode()
    # Steps are told to whoever is there when they begin.
    steps = ("STEP_", "notifications/progress", "event: message")
    told = (line for line in text.splitlines() if line and not any(step in line for step in steps))
    return settled("\n".join(told))


async def every_channel(place: Workspace) -> dict[str, str]:
    proof = mint(place, READER).token
    headers = {"Authorization": f"Bearer {proof}"}
    told: dict[str, str] = {}
    async with served(place) as client:
        for n, question in enumerate(QUESTIONS):
            told[f"query {n}"] = await sent(client, "POST", "/api/query", headers, json={"query": question})
            run = (await client.post("/api/runs", json={"input": {"text": question}}, headers=headers)).json()
            path = f"/api/runs/{run['run_id']}"
            told[f"events {n}"] = await streamed(client, "GET", f"{path}/events", headers)
            for part in ("", "/timeline", "/messages", "/steps", "/why?doc_id=hidden/1000.md", "/why?doc_id=open/1.md",
                         "/next"):
                told[f"run{part} {n}"] = await sent(client, "GET", path + part, headers)
            told[f"thread {n}"] = await sent(client, "GET", f"/api/threads/{run['thread_id']}", headers)
            told[f"export {n}"] = await sent(client, "GET", f"/api/threads/{run['thread_id']}/export", headers)
            said = [{"id": "m", "role": "user", "content": question}]
            body: dict[str, Any] = {"threadId": f"x{n}", "runId": f"y{n}", "messages": said}
            told[f"agui {n}"] = await streamed(client, "POST", "/agui", headers, json=body)
            body = {"messages": said}
            told[f"openai {n}"] = await sent(client, "POST", "/v1/chat/completions", headers, json=body)
            body["stream"] = True
            told[f"openai stream {n}"] = await streamed(client, "POST", "/v1/chat/completions", headers, json=body)
            told[f"mcp {n}"] = await sent(client, "POST", "/mcp", MCP | headers, json=called("query", query=question))
            call = called("ask", question=question)
            told[f"mcp ask {n}"] = await sent(client, "POST", "/mcp", MCP | headers, json=call)
            modern = (
                MCP | headers | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask"}
            )
            told[f"mcp ask as a stream {n}"] = await streamed(client, "POST", "/mcp", modern, json=with_progress(call))
        for target in TARGETS:
            told[f"document {target}"] = await sent(client, "GET", f"/api/documents/{target}", headers)
            call = called("open_document", doc_id=target)
            told[f"mcp document {target}"] = await sent(client, "POST", "/mcp", MCP | headers, json=call)
            for field in ("topic", "owner", "keeper", "view"):
                body = {"query": "rotor", "filters": [f"{field}={target}"]}
                told[f"filter {field} {target}"] = await sent(client, "POST", "/api/query", headers, json=body)
            # What is refused is refused in the same words, whichever way it was asked for.
            opinion = {"run_id": run["run_id"], "doc_id": target, "verdict": "relevant"}
            told[f"opinion {target}"] = await sent(client, "POST", "/api/feedback", headers, json=opinion)
            body = {"input": {"text": "what is it?", "doc_id": target}}
            told[f"about {target}"] = await answered(client, headers, body)
            body = {"input": {"text": "rotor", "filters": [f"owner={target}"]}}
            told[f"asked within {target}"] = await sent(client, "POST", "/api/runs", headers, json=body)
            for place_of in ("hive://configs/", "hive://collections/", "hive://schemas/"):
                read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": place_of + target}}
                told[f"mcp {place_of} {target}"] = await sent(client, "POST", "/mcp", MCP | headers, json=read)
            body = {"model": target, "messages": [{"role": "user", "content": "x"}]}
            told[f"openai model {target}"] = await sent(client, "POST", "/v1/chat/completions", headers, json=body)
            body = {"threadId": "x", "runId": "x", "messages": [{"id": "m", "role": "user", "content": "x"}]}
            told[f"agui agent {target}"] = await sent(client, "POST", f"/agui/{target}", headers, json=body)
        for path in ("/api/fields", "/api/threads?search=zq", "/api/feedback", "/api/runs", "/v1/models"):
            # What happened within one second is in the order of ids, which are random.
            text = await sent(client, "GET", path, headers)
            told[path] = OBJECT.sub("", text) + "".join(sorted(OBJECT.findall(text)))
    return told


async def answered(client: httpx.AsyncClient, headers: dict[str, str], body: dict[str, Any]) -> str:
    """A question's stream to its end; or why it isn't taken."""
    asked = await client.post("/api/runs", json=body, headers=headers)
    if asked.status_code != 202:
        return settled(f"{asked.status_code} {asked.text}")
    return await streamed(client, "GET", asked.json()["events"], headers)


MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def with_progress(call: dict[str, Any]) -> dict[str, Any]:
    """The same call as a client sends it that wants to hear how far it is."""
    names = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()} | {"progressToken": "p"}
    return call | {"params": call["params"] | {"_meta": meta}}


def prepared(root: Path, hidden: int) -> Workspace:
    # Which answers people are asked to audit is drawn at random.
    place = make(root, corpus(hidden), settings=SETTINGS + "[judge]\naudit_rate = 0.0\naudit_rate_security = 0.0\n")
    Rules().write(place, readers())
    local_key(place)  # which signs cursors: the same for both
    (place.state / "local.key").write_text(bytes(range(32)).hex())
    return place


@pytest.mark.slow
async def test_no_channel_knows_whether_there_are_documents_that_its_reader_may_not_see(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    without = await every_channel(prepared(tmp_path / "a", 0))
    beside = await every_channel(prepared(tmp_path / "b", 500))
    assert list(without) == list(beside)
    for name, text in without.items():
        assert beside[name] == text, name
    assert "zqb00001x" in without["query 0"]  # one's own documents are there
