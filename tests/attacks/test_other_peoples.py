"""What a caller may learn of agents, runs and requests that are none of theirs, by the doors of foreign protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.approvals import ApprovalRequest, ApprovalStore, log
from tests.agents.conftest import write_json
from tests.approvals.asking import filing
from tests.people import token_of
from tests.records import execute
from tests.sample import hive
from tests.server.serving import asking_writer, bearer, posted, sample, served


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = sample(tmp_path / "ws")
    asking_writer(place)
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place) as client:
        yield client


def turn(text: str, **more: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": text}]} | more


async def told(client: httpx.AsyncClient, path: str, body: Any, who: dict[str, str], *names: str) -> tuple[int, str]:
    """Return the status and the text of an answer, without the names that were sent."""
    answer = await client.post(path, json=body, headers=who)
    text = answer.text
    for name in names:
        text = text.replace(name, "…")
    return answer.status_code, text


async def test_a_reader_is_not_told_which_agents_there_are(place: Workspace, client: httpx.AsyncClient) -> None:
    who = bearer(place)
    names = ("writer", "nothing")
    by_agui = [await told(client, f"/agui/{name}", turn("go"), who, name) for name in names]
    said = [{"role": "user", "content": "go"}]
    asked = [{"model": f"agent/{name}", "messages": said} for name in names]
    by_openai = [await told(client, "/v1/chat/completions", body, who, *names) for body in asked]
    assert by_agui[0] == by_agui[1]
    assert by_openai[0] == by_openai[1]
    assert {by_agui[0][0], by_openai[0][0]} == {403}


@pytest.mark.parametrize(("user", "roles"), [("dana", ("reader",)), ("hana", ("approver",)), ("hana", ("operator",))])
async def test_somebody_elses_interrupt_answers_as_a_missing_one(
    place: Workspace, client: httpx.AsyncClient, user: str, roles: tuple[str, ...]
) -> None:
    found = await posted(client, "/agui/writer", turn("go"), bearer(place, "root", "operator"))
    [interrupt] = found[-1].value["outcome"]["interrupts"]
    answers = []
    for id in (interrupt["id"], "a0000000000"):
        resume = [{"interruptId": id, "status": "resolved", "payload": "mine"}]
        answers.append(await told(client, "/agui", turn("", resume=resume), bearer(place, user, *roles), id))
    assert answers[0] == answers[1]
    assert answers[0][0] in (403, 404)


async def test_the_events_of_a_readers_run_do_not_count_those_of_others(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    numbers = []
    for user in ("dana", "hana", "hana", "dana"):
        said = {"messages": [{"role": "user", "content": "what returns a fresh token?"}]}
        who = bearer(place, user, "reader")
        run = (await client.post("/v1/chat/completions", json=said, headers=who)).json()["hive"]["run_id"]
        events = (await client.get(f"/api/runs/{run}/timeline", headers=who)).json()["events"]
        numbers.append([event["seq"] for event in events])
    assert numbers == [list(range(1, len(each) + 1)) for each in numbers]
    assert all(numbers)


async def test_no_name_and_no_key_makes_a_run_that_is_a_triggers(place: Workspace, client: httpx.AsyncClient) -> None:
    """Somebody called `trigger` took the run of a time to come, so that the trigger started none; and of two people of
    one name, in two tenants, the second got the run of the first."""
    every = {"id": "nightly", "type": "interval", "every_seconds": 86_400, "agent": "writer"}
    write_json(place, "triggers/nightly.json", every)
    write_json(place, "triggers/theirs.json", {**every, "id": "theirs"})
    write_json(place, "access/services.json", {"principals": {"service:theirs": {"tenant": "acme"}}})
    named = {"Authorization": f"Bearer {token_of(place, Principal('acme', 'trigger', roles=frozenset({'reader'})))}"}
    question = {"input": {"text": "what returns a fresh token?"}}
    for key in (("theirs", "user", "root", "k"), ("theirs", "root", "k")):
        headers = named | {"Idempotency-Key": "/".join(key)}
        assert (await client.post("/api/runs", json=question, headers=headers)).status_code == 202
    runs = []
    for who in (bearer(place, "root"), bearer(place, "root"), namesake(place)):
        key = {"Idempotency-Key": "k"}
        answers = [await client.post(f"/api/triggers/{id}/fire", json={}, headers=who | key) for id in IDS]
        runs.append([answer.json().get("run_id", answer.status_code) for answer in answers])
    assert runs[0] == runs[1]
    assert runs[2][0] == 404
    assert runs[2][1] not in runs[0]
    assert all(str(run).startswith("r") for run in (*runs[0], runs[2][1]))


IDS = ("theirs", "nightly")


def namesake(place: Workspace) -> dict[str, str]:
    """A `root` of another tenant, by a provider that calls them so."""
    root = Principal("globex", "root", roles=frozenset({"operator"}))
    return {"Authorization": f"Bearer {token_of(place, root)}"}


async def test_an_altered_request_of_another_tenant_answers_as_a_missing_one(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP, over AG-UI, and by the commands that name one; the work is that of a missing one, too."""
    store = ApprovalStore(place)
    found, altered = [store.file(filing(tenant="acme")).id for _ in range(2)]
    execute(place, "UPDATE approvals SET status = 'approved' WHERE id = ?", altered)
    who, missing = bearer(place, "hana", "approver"), "a0123456789"
    looked: list[str] = []

    def standing(request: ApprovalRequest, entries: Any) -> ApprovalRequest:
        looked.append(request.id)
        return standing_of(request, entries)

    standing_of = log.standing
    monkeypatch.setattr(log, "standing", standing)
    monkeypatch.setenv("HIVE_TOKEN", who["Authorization"].split()[1])
    answers = []
    for one in (found, altered, missing):
        resume = [{"interruptId": one, "status": "resolved", "payload": {"verb": "approve"}}]
        tried = [
            await client.get(f"/api/approvals/{one}", headers=who),
            await client.get(f"/api/approvals/{one}/audit", headers=who),
            await client.post(f"/api/approvals/{one}/decide", json={"verb": "approve"}, headers=who),
            await client.post(f"/api/approvals/{one}/delegate", json={"to": "eve"}, headers=who),
            await client.post("/agui", json=turn("", resume=resume), headers=who),
        ]
        commands = [("approvals", "show", one), ("receipt", "decision", one)]
        ran = [await asyncio.to_thread(hive, *command, "-w", place.root, "--json") for command in commands]
        answers.append(
            [(each.status_code, each.text.replace(one, "…")) for each in tried]
            + [(each.code, each.out.replace(one, "…")) for each in ran]
        )
    assert answers[0] == answers[2]
    assert answers[1] == answers[2]
    assert {code for code, _ in answers[2]} <= {404, 1, 2}
    assert looked == []
