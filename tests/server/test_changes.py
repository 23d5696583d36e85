"""The stream of what changes: names of what its caller may see, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import revoke
from hive_agents.access.tokens import verify
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import Event, EventLog, EventType
from hive_agents.server import streams
from tests.server.serving import asked, bearer, frames, served

LAST = EventType.CONFIG_DEPLOYED
"""What every operator hears of: by then all that was logged before is told."""


@asynccontextmanager
async def listening(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> AsyncIterator[AsyncIterator[tuple[str, str]]]:
    """(kind, id) of each change, after the first frame has said to look at everything."""
    async with client.stream("GET", "/api/changes", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")

        async def changes() -> AsyncIterator[tuple[str, str]]:
            async for one in frames(response):
                assert one.id is None
                assert set(one.value) == {"kind", "id"}
                yield one.value["kind"], one.value["id"]

        heard = changes()
        assert await anext(heard) == ("all", None)
        yield heard


async def until(heard: AsyncIterator[tuple[str, str]], last: tuple[str, str]) -> list[tuple[str, str]]:
    found = []
    async for one in heard:
        if one == last:
            break
        found.append(one)
    return found


async def test_each_hears_of_what_they_may_see(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client, AsyncExitStack() as stack:
        people = {
            "dana": bearer(place, "dana", "reader"),
            "alice": bearer(place, "alice", "approver"),
            "root": bearer(place, "root", "operator"),
            "hana": bearer(place, "hana", "approver", "reader"),  # of another tenant
        }
        heard = {who: await stack.enter_async_context(listening(client, one)) for who, one in people.items()}
        filing = Filing(kind="question", title="Which one?", requester="user:kim", tenant="acme")
        request = ApprovalStore(place).file(filing).id
        mine = (await asked(client, people["dana"], "how do I rotate a token?"))["run_id"]
        theirs = (await asked(client, people["hana"], "hello"))["run_id"]
        EventLog(place).append([Event(LAST, payload={"config": "v9"})])
        assert set(await until(heard["root"], ("config", "v9"))) == {("request", request), ("run", mine)}
        assert await anext(heard["alice"]) == ("request", request)
        assert await anext(heard["dana"]) == ("run", mine)
        assert await anext(heard["hana"]) == ("run", theirs)


async def test_what_a_reader_is_not_told_does_not_come_either(place: Workspace) -> None:
    """What is theirs comes at once behind what isn't: nothing stood between."""
    async with served(place, roles=("http",)) as client:
        alice = bearer(place, "alice", "reader")
        async with listening(client, alice) as heard:
            ApprovalStore(place).file(Filing(kind="question", title="a secret", requester="user:kim", tenant="acme"))
            await asked(client, bearer(place, "dana"), "hello")
            EventLog(place).append([Event(LAST, payload={"config": "v9"})])
            mine = (await asked(client, alice, "hello"))["run_id"]
            assert await anext(heard) == ("run", mine)


async def test_a_revoked_token_ends_the_stream(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        async with listening(client, dana) as heard:
            revoke(place, str(verify(place, dana["Authorization"].removeprefix("Bearer ")).token_id))
            assert [one async for one in heard] == []
        assert (await client.get("/api/changes", headers=dana)).status_code == 401


async def test_a_tokens_end_is_noticed_at_the_next_change_too(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        async with listening(client, dana) as heard:
            revoke(place, str(verify(place, dana["Authorization"].removeprefix("Bearer ")).token_id))
            EventLog(place).append([Event(EventType.RUN_STARTED, "r1", "t1", tenant="acme")])
            assert [one async for one in heard] == []


async def test_the_last_listener_ends_the_reading_of_the_log(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        async with listening(client, bearer(place)):
            assert any(task.get_name() == "feed" for task in asyncio.all_tasks())
        while any(task.get_name() == "feed" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)


async def test_another_config_than_was_looked_at_is_not_deployed_nor_rolled_back(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root")
        shown = (await client.get("/api/configs/v1-naive", headers=root)).json()
        changed = await client.post("/api/deploy", json={"config": "v1-naive", "hash": "0" * 64}, headers=root)
        assert (changed.status_code, changed.json()["code"]) == (409, "HIVE-307")
        assert "was changed since it was looked at" in changed.json()["detail"]
        first = {"config": "v1-naive", "hash": shown["hash"], "of": 0, "allow_inconclusive": True}
        deployed = await client.post("/api/deploy", json=first, headers=root)
        assert deployed.status_code == 200, deployed.text
        before = (await client.get("/api/history", headers=root)).json()["versions"]
        late = await client.post("/api/deploy", json=first, headers=root)
        assert (late.status_code, late.json()["code"]) == (409, "HIVE-307")
        assert "root made v1-naive serve since" in late.json()["detail"]
        stale = await client.post("/api/rollback", json={"of": before[0]["id"] + 1}, headers=root)
        assert (stale.status_code, stale.json()["code"]) == (409, "HIVE-307")
        assert (await client.get("/api/history", headers=root)).json()["versions"] == before
