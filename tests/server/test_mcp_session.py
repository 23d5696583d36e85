"""A session of MCP's own client: question, progress, citation, approval, resume, cancel, and a server that restarts."""

from __future__ import annotations

import asyncio
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
from hive_agents.ranking import versions
from hive_agents.runs import RunStore
from tests.server.serving import SETTINGS, bearer, sample, served, token, value_of

mcp = pytest.importorskip("mcp")

QUESTION = {"question": "what returns a fresh token?"}
DEPLOY = {"config": "v2-short", "reason": "shorter lists"}
SLOW = '[models]\nplanner = ["scripted:slow.jsonl"]\ndeadline_seconds = 600.0\n'
ROLES = ("reader", "operator", "approver")


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return _with_short(sample(tmp_path / "ws"))


def _with_short(place: Workspace) -> Workspace:
    """A second config, which nobody has deployed yet."""
    config = json.loads((place.configs / "v1.json").read_text(encoding="utf-8"))
    config |= {"name": "v2-short", "retrieval": config["retrieval"] | {"top_k": 5}}
    (place.configs / "v2-short.json").write_text(json.dumps(config), encoding="utf-8")
    return place


class Person:
    """Who sits at a client and answers what a server asks."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer or {"action": "accept", "content": {"agreed": True}}
        self.asked: list[str] = []

    async def __call__(self, _: Any, params: Any) -> Any:
        from mcp_types import ElicitResult

        self.asked.append(params.message)
        return ElicitResult(**self.answer)


@asynccontextmanager
async def over_http(client: httpx.AsyncClient, proof: str, person: Person | None = None) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    url = f"{str(client.base_url).rstrip('/')}/mcp"
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {proof}"}, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, elicitation_callback=person) as session:
            yield session


@asynccontextmanager
async def over_stdio(
    place: Workspace, proof: str, person: Person | None = None, mode: str = "auto"
) -> AsyncIterator[Any]:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command = ["-m", "hive_agents", "mcp", "-w", str(place.root)]
    environment = {**os.environ, "HIVE_TOKEN": proof, "PYTHONPATH": str(Path(__file__).parents[2])}
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with mcp.Client(stdio_client(parameters), elicitation_callback=person, mode=mode) as session:
        yield session


async def asks_with_progress(session: Any) -> None:
    steps: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        steps.append(str(message))

    found = value_of(await session.call_tool("ask", QUESTION, progress_callback=told))
    assert found["status"] == "results"
    cited = [one for one in found["results"] if one["citation"] in found["text"]]
    assert cited
    assert all(one["title"] in found["text"] for one in cited)
    assert steps
    goes_on = {"question": "and who may do that?", "thread_id": found["thread_id"]}
    assert value_of(await session.call_tool("ask", goes_on))["thread_id"] == found["thread_id"]


async def waits_for_an_approver(session: Any, client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """A client that can't ask its person: somebody else decides by the API, and the same call goes on."""
    waiting = value_of(await session.call_tool("deploy", DEPLOY))
    assert (waiting["decision"], waiting["deployed"]) == ("waiting", None)
    assert value_of(await session.call_tool("deploy", DEPLOY))["approval_id"] == waiting["approval_id"]
    shown = (await client.get(f"/api/approvals/{waiting['approval_id']}", headers=headers)).json()["request"]
    assert shown["context"]["args"]["reason"] == DEPLOY["reason"]
    path = f"/api/approvals/{waiting['approval_id']}/decide"
    decided = await client.post(path, json={"verb": "approve", "version": shown["version"]}, headers=headers)
    assert decided.status_code == 200, decided.text
    gone_on = value_of(await session.call_tool("deploy", DEPLOY))
    assert gone_on["decision"] != "waiting"
    assert gone_on["certificate"]
    once_more = value_of(await session.call_tool("deploy", DEPLOY))
    assert once_more["decision"] == "waiting"  # one approval is for one call
    assert once_more["approval_id"] != waiting["approval_id"]
    path = f"/api/approvals/{once_more['approval_id']}/decide"
    await client.post(path, json={"verb": "reject", "reason": "not today"}, headers=headers)
    refused = await session.call_tool("deploy", DEPLOY)
    assert refused.is_error
    assert "not today" in refused.content[0].text


@pytest.mark.slow
async def test_a_session_over_http(place: Workspace) -> None:
    async with served(place) as client:
        async with over_http(client, token(place)) as session:
            await asks_with_progress(session)
        async with over_http(client, token(place, "root", *ROLES)) as session:
            await waits_for_an_approver(session, client, bearer(place, "root", *ROLES))


@pytest.mark.slow
async def test_a_session_over_stdio(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        async with over_stdio(place, token(place)) as session:
            await asks_with_progress(session)
        async with over_stdio(place, token(place, "root", *ROLES)) as session:
            await waits_for_an_approver(session, client, bearer(place, "root", *ROLES))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["http", "stdio"])
async def test_what_a_destructive_tool_does_its_person_has_agreed_to(place: Workspace, how: str) -> None:
    proof, agrees = token(place, "root", *ROLES), Person()
    async with served(place, roles=("http",)) as client:
        for person, done in (
            (agrees, True),
            (Person(action="decline"), False),
            (Person(action="accept", content={"agreed": False}), False),
        ):
            before = len(versions(place))
            opened = over_http(client, proof, person) if how == "http" else over_stdio(place, proof, person)
            async with opened as session:
                found = await session.call_tool("deploy", DEPLOY)
            assert found.is_error is not done
            assert len(person.asked) == 1
            assert "v2-short" in person.asked[0]
            assert DEPLOY["reason"] in person.asked[0]
            if not done:
                assert "HIVE-409" in found.content[0].text
                assert len(versions(place)) == before


@pytest.mark.slow
async def test_a_request_is_decided_only_where_the_person_can_be_asked(place: Workspace) -> None:
    headers, proof = bearer(place, "root", *ROLES), token(place, "root", *ROLES)
    async with served(place, roles=("http",)) as client:
        async with over_http(client, proof) as session:
            request = value_of(await session.call_tool("deploy", DEPLOY))["approval_id"]
            decision = {"request_id": request, "verb": "reject", "version": 1, "reason": "no"}
            refused = await session.call_tool("decide_approval", decision)
            assert "HIVE-415" in refused.content[0].text
        person = Person()
        async with over_http(client, proof, person) as session:
            assert value_of(await session.call_tool("decide_approval", decision))["status"] == "rejected"
        assert request in person.asked[0]
        shown = (await client.get(f"/api/approvals/{request}", headers=headers)).json()["request"]
        assert shown["status"] == "rejected"


async def test_a_reader_is_asked_nothing(place: Workspace) -> None:
    person = Person()
    async with served(place, roles=("http",)) as client, over_http(client, token(place), person) as session:
        assert "HIVE-415" in (await session.call_tool("deploy", DEPLOY)).content[0].text
    assert person.asked == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_config_that_changes_while_its_person_thinks_is_not_what_they_agreed_to(
    place: Workspace, mode: str
) -> None:
    class Slow(Person):
        async def __call__(self, context: Any, params: Any) -> Any:
            file = place.configs / "v2-short.json"
            file.write_text(file.read_text(encoding="utf-8").replace('"top_k": 5', '"top_k": 9'), encoding="utf-8")
            answered = await super().__call__(context, params)
            self.answer = {"action": "decline"}  # they are asked about the new one, and see what it is
            return answered

    before, person = len(versions(place)), Slow()
    async with over_stdio(place, token(place, "root", *ROLES), person, mode) as session:
        found = await session.call_tool("deploy", DEPLOY)
    assert found.is_error
    assert len(set(person.asked)) == {"auto": 2, "legacy": 1}[mode]
    assert ("HIVE-307" in found.content[0].text) is (mode == "legacy")
    assert len(versions(place)) == before


async def test_an_answer_is_for_its_own_question_alone(place: Workspace) -> None:
    """Neither for another call, nor without what was asked."""
    from mcp_types import ElicitResult

    proof, before = token(place, "root", *ROLES), len(versions(place))
    async with served(place, roles=("http",)) as client, over_http(client, proof, Person()) as session:
        asked = await session.session.call_tool("deploy", DEPLOY, allow_input_required=True)
        (name,) = asked.input_requests
        answers = {name: ElicitResult(action="accept", content={"agreed": True})}
        other = DEPLOY | {"config": "v1-naive"}
        with pytest.raises(mcp.MCPError):
            await session.call_tool("deploy", other, input_responses=answers, request_state=asked.request_state)
        forged = asked.request_state[:-2] + ("AA" if asked.request_state[-2:] != "AA" else "BB")
        with pytest.raises(mcp.MCPError):
            await session.call_tool("deploy", DEPLOY, input_responses=answers, request_state=forged)
        unasked = await session.session.call_tool("deploy", DEPLOY, input_responses=answers, allow_input_required=True)
        assert unasked.input_requests
    assert len(versions(place)) == before


@pytest.mark.slow
async def test_an_answer_finds_its_question_after_the_server_began_again_and_is_its_senders_alone(
    place: Workspace,
) -> None:
    """The protocol has no sessions to lose: what was asked is sealed in what the client sends back."""
    from mcp_types import ElicitResult

    proof, person = token(place, "root", *ROLES), Person()
    async with served(place, roles=("http",)) as client, over_http(client, proof, person) as session:
        asked = await session.session.call_tool("deploy", DEPLOY, allow_input_required=True)
    (name,) = asked.input_requests
    answers = {name: ElicitResult(action="accept", content={"agreed": False})}
    async with served(place, roles=("http",)) as client:
        async with over_http(client, proof, person) as session:
            again = await session.call_tool(
                "deploy", DEPLOY, input_responses=answers, request_state=asked.request_state
            )
            assert "HIVE-409" in again.content[0].text
        assert person.asked == []
        async with over_http(client, token(place, "hana", *ROLES), person) as session:
            with pytest.raises(mcp.MCPError):
                await session.call_tool("deploy", DEPLOY, input_responses=answers, request_state=asked.request_state)


@pytest.mark.slow
async def test_a_client_that_goes_away_cancels_its_question(tmp_path: Path) -> None:
    """Going away is how a call is cancelled here, and the protocol has no way back into it: its progress isn't
    numbered. The question is asked again, in its thread or anew."""
    place = sample(tmp_path / "ws", SETTINGS + SLOW)
    (place.root / "slow.jsonl").write_text(json.dumps({"content": "late", "delay_seconds": 600}), encoding="utf-8")
    async with served(place) as client, over_http(client, token(place)) as session:
        call = asyncio.ensure_future(session.call_tool("ask", QUESTION))
        while not (rows := RunStore(place).list(status="running")):
            await asyncio.sleep(0.02)
        call.cancel()
        while RunStore(place).get(rows[0].run_id).status != "stopped":
            await asyncio.sleep(0.02)


async def test_another_sites_page_is_refused(place: Workspace) -> None:
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with served(place, roles=("http",)) as client:
        foreign = bearer(place) | {"Origin": "http://evil.example.com"}
        assert (await client.post("/mcp", json=sent, headers=foreign)).status_code == 403
        own = bearer(place) | {"Origin": str(client.base_url).rstrip("/"), "Accept": "application/json"}
        assert (await client.post("/mcp", json=sent, headers=own)).status_code == 200


@pytest.mark.slow
async def test_questions_without_an_end_are_as_few_as_anybody_may_ask(tmp_path: Path) -> None:
    few = SETTINGS.replace("rate_per_minute = 10000", "rate_per_minute = 1")
    place = _with_short(sample(tmp_path / "ws", few))
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": QUESTION}}
    async with served(place) as client:
        found = [await client.post("/mcp", json=sent, headers=bearer(place)) for _ in range(60)]
    refused = [one for one in found if one.status_code == 429]
    assert len(refused) >= 50
    assert all(one.json()["code"] == "HIVE-433" and int(one.headers["retry-after"]) >= 1 for one in refused)
    assert len(RunStore(place).list()) <= len(found) - len(refused)
