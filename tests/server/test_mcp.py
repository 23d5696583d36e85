"""MCP with the SDK's own client, over HTTP and stdio: the verbs as tools, in the scope of whoever calls."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import revoke
from hive_agents.access.tokens import verify
from tests.server.serving import served, token, value_of

mcp = pytest.importorskip("mcp")

TOOLS = {
    "query", "ask", "open_document", "validate", "evaluate", "compare", "propose_config", "deploy", "list_approvals",
    "decide_approval",
}  # fmt: skip


@asynccontextmanager
async def connected(client: httpx.AsyncClient, proof: str) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url = f"{str(client.base_url).rstrip('/')}/mcp"
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {proof}"}, timeout=60) as http:
        async with mcp.Client(streamable_http_client(url, http_client=http)) as session:
            yield session


async def test_tools_say_what_they_change(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client, connected(client, token(place)) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert set(tools) == TOOLS
    assert {name for name, tool in tools.items() if tool.annotations.destructive_hint} == {"deploy", "decide_approval"}
    assert not tools["propose_config"].annotations.read_only_hint
    assert tools["query"].annotations.read_only_hint
    assert tools["query"].output_schema["properties"]["results"]


async def test_a_search_is_in_the_callers_scope(place: Workspace) -> None:
    question = {"query": "how many days to close a deviation"}
    async with served(place, roles=("http",)) as client:
        found = {}
        for who in ("dana", "hana"):
            async with connected(client, token(place, who)) as session:
                found[who] = value_of(await session.call_tool("query", question))["results"]
        direct = await client.post("/api/query", json=question, headers={"Authorization": f"Bearer {token(place)}"})
    assert found["dana"] == direct.json()["results"]
    dana, hana = ({one["doc_id"] for one in found[who]} for who in ("dana", "hana"))
    assert "sops/deviation-closure.md" in dana - hana
    assert "sops/carrow-deviations.md" in hana - dana


async def test_a_role_that_is_missing_and_what_is_wrong_are_structured(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client, connected(client, token(place)) as session:
        refused = await session.call_tool("evaluate", {})
        unknown = await session.call_tool("open_document", {"doc_id": "no.md"})
    for result, code in ((refused, "HIVE-415"), (unknown, "HIVE-409")):
        assert result.is_error
        assert json.loads(result.content[0].text)["diagnostics"][0]["code"] == code


async def test_arguments_that_do_not_fit_are_told_as_any_other_fault(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client, connected(client, token(place)) as session:
        refused = await session.call_tool("query", {"filters": "status=effective"})
    found = json.loads(refused.content[0].text)
    assert (refused.is_error, found["ok"]) == (True, False)
    assert {one["path"] for one in found["diagnostics"]} == {"query", "filters"}
    assert {one["code"] for one in found["diagnostics"]} == {"HIVE-409"}


async def test_resources_are_listed_as_far_as_the_caller_may_read_them(place: Workspace) -> None:
    listed = {}
    async with served(place, roles=("http",)) as client:
        for who in ("dana", "root"):
            async with connected(client, token(place, who)) as session:
                listed[who] = {str(one.uri) for one in (await session.list_resources()).resources}
                for uri in sorted(listed[who]):
                    assert json.loads((await session.read_resource(uri)).contents[0].text)
    both = {"hive://collections/knowledge-base", "hive://schemas/config", "hive://schemas/goal"}
    assert both <= listed["dana"] < listed["root"]
    assert listed["root"] - listed["dana"] == {"hive://configs/v1-naive"}


async def test_without_the_sdk_the_first_request_is_told_as_all_others(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("mcp", *(one for one in list(sys.modules) if one.split(".")[0] in ("mcp", "mcp_types"))):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "hive_agents.server.protocols.mcp_tools", raising=False)
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with served(place, roles=("http",)) as client:
        headers = {"Authorization": f"Bearer {token(place)}"}
        both = await asyncio.gather(*(client.post("/mcp", json=sent, headers=headers) for _ in range(2)))
        later = await client.post("/mcp", json=sent, headers=headers)
    for found in (*both, later):
        assert (found.status_code, found.json()["code"]) == (503, "HIVE-411")
        assert "hive-agents[mcp]" in found.json()["diagnostics"][0]["fix"]
    gc.collect()  # a task whose failure nobody looked at tells of it then
    assert "never retrieved" not in caplog.text


async def test_a_token_that_was_revoked_is_refused(place: Workspace) -> None:
    proof = token(place)
    async with served(place, roles=("http",)) as client:
        revoke(place, str(verify(place, proof).token_id))
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        found = await client.post("/mcp", json=sent, headers={"Authorization": f"Bearer {proof}"})
        assert found.status_code == 401
        assert (await client.post("/mcp", json=sent)).status_code == 401


async def test_an_operator_improves_a_config(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client, connected(client, token(place, "root")) as session:
        made = {"name": "v2-short", "changes": {"retrieval": {"top_k": 5}}, "reason": "fewer"}
        assert value_of(await session.call_tool("propose_config", made))
        assert value_of(await session.call_tool("validate", {"config": "v2-short"}))["ok"]
        compared = value_of(await session.call_tool("compare", {"b": "v2-short"}))
        assert compared["changes"] == [{"path": "retrieval.top_k", "a": 10, "b": 5}]
        shown = await session.read_resource("hive://configs/v2-short")
        assert json.loads(shown.contents[0].text)["config"]["retrieval"]["top_k"] == 5
        schema = await session.read_resource("hive://schemas/config")
        assert json.loads(schema.contents[0].text)["title"] == "RetrievalConfig"


@pytest.mark.slow
async def test_over_stdio_the_holder_of_the_token_calls(place: Workspace) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "hive_agents", "mcp", "-w", str(place.root)]
    environment = {**os.environ, "HIVE_TOKEN": token(place), "PYTHONPATH": str(Path(__file__).parents[2])}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with mcp.Client(stdio_client(parameters)) as session:
        found = value_of(await session.call_tool("query", {"query": "rotate an API token"}))
        assert found["results"]
        assert (await session.call_tool("deploy", {"config": "v1-naive", "reason": "x"})).is_error


async def test_over_stdio_documents_are_shown_to_somebody_who_is_named(place: Workspace) -> None:
    """Nobody in particular finds no document; a program would take that for the answer."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "hive_agents", "mcp", "-w", str(place.root)]
    unnamed = {name: value for name, value in os.environ.items() if name != "HIVE_TOKEN"}
    environment = unnamed | {"PYTHONPATH": str(Path(__file__).parents[2])}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    calls = [
        ("query", {"query": "rotate an API token"}),
        ("ask", {"question": "rotate an API token"}),
        ("open_document", {"doc_id": "api-docs/api-tokens.md"}),
    ]
    async with mcp.Client(stdio_client(parameters)) as session:
        for name, arguments in calls:
            refused = await session.call_tool(name, arguments)
            assert refused.is_error
            assert "nobody asks: permissions are enforced here" in refused.content[0].text
        assert not (await session.call_tool("validate", {"config": "active"})).is_error
