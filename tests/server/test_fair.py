"""One reader's cost is shared out: who fills their places waits for themselves, and nobody else does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import HiveError, Workspace
from hive_agents.access import Principal
from hive_agents.models.breaker import forget_breakers
from hive_agents.ranking.config import point_active
from hive_agents.server import rates
from hive_agents.server.rates import LINE, PLACES, Places
from hive_agents.workspace.trusted import trust
from tests.models.openai_server import model_server
from tests.server.serving import SETTINGS, bearer, sample, served, token
from tests.server.test_mcp import connected

ENDPOINT = """
[models]
embedding = "lab:small"
deadline_seconds = 300

[models.endpoints.lab]
base_url = "{url}"
"""


@dataclass
class Gate:
    """Where questions with the word `slow` or `late` stand still: they are embedded when that word's gate opens."""

    place: Workspace
    open: dict[str, threading.Event] = field(default_factory=lambda: {w: threading.Event() for w in ("slow", "late")})
    standing: list[str] = field(default_factory=list)

    def passes(self, body: dict[str, Any]) -> None:
        word = body["input"][0].split()[0]
        if word in self.open:
            self.standing.append(word)
            assert self.open[word].wait(120)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    forget_breakers()
    with model_server() as models:
        place = sample(tmp_path / "ws", SETTINGS + ENDPOINT.format(url=models.url))
        config = json.loads((place.configs / "v1.json").read_text(encoding="utf-8"))
        config["retrieval"]["method"] = "hybrid"
        (place.configs / "v1.json").write_text(json.dumps(config), encoding="utf-8")
        point_active(place, place.configs / "v1.json")
        trust(place)
        place.index()
        gate = Gate(place)
        models.faulty = gate.passes
        yield gate
        for word in gate.open.values():
            word.set()


async def stand(gate: Gate, number: int, word: str = "slow") -> None:
    async with asyncio.timeout(60):
        while gate.standing.count(word) < number:
            await asyncio.sleep(0.01)


def ask(
    client: httpx.AsyncClient, headers: dict[str, str], count: int, word: str = "slow"
) -> list[asyncio.Task[httpx.Response]]:
    return [
        asyncio.ensure_future(client.post("/api/query", json={"query": f"{word} key {number}"}, headers=headers))
        for number in range(count)
    ]


async def test_who_fills_their_places_waits_alone_and_beyond_the_line_comes_again(gate: Gate) -> None:
    async with served(gate.place, roles=("http",)) as client:
        dana, alice = bearer(gate.place), bearer(gate.place, "alice")
        sent = ask(client, dana, PLACES)
        await stand(gate, PLACES)
        waiting = [asyncio.ensure_future(client.get("/api/session", headers=dana)) for _ in range(LINE)]
        more: list[httpx.Response] = []
        while not more or more[-1].status_code != 429:  # until the line is full, one more waits
            one = asyncio.ensure_future(client.get("/api/fields", headers=dana))
            done, _ = await asyncio.wait([one], timeout=0.2)
            waiting += [one] if not done else []
            more += [one.result()] if done else []
            assert len(more) <= 1, "it was answered, though all places are taken"
        assert more[-1].json()["code"] == "HIVE-433"
        assert int(more[-1].headers["retry-after"]) >= 1
        page = await client.get("/chat", headers=dana)
        assert page.status_code == 429
        async with connected(client, token(gate.place)) as session:
            for tool, arguments in (("query", {"query": "key"}), ("open_document", {"doc_id": "x"})):
                result = await session.call_tool(tool, arguments)
                assert result.is_error
                assert "HIVE-433" in result.content[0].text
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/api/session", headers=alice)).status_code == 200
        assert (await client.post("/api/query", json={"query": "key"}, headers=alice)).status_code == 200
        assert len(gate.standing) == PLACES
        gate.open["slow"].set()
        found = [await one for one in (*sent, *waiting)]
        refused = [one for one in found if one.status_code != 200]
        assert all(one.status_code == 429 for one in refused)
        assert len(found) - len(refused) == PLACES + LINE
        assert (await client.get("/chat", headers=dana)).status_code == 200


async def test_five_callers_who_fill_their_places_keep_nobody_from_being_known(gate: Gate) -> None:
    """All threads that work for callers are taken: who calls, and whether the host is well, is told by others."""
    async with served(gate.place, roles=("http",)) as client:
        people = [bearer(gate.place, user, "operator", "reader") for user in ("dana", "alice", "guest", "root", "hana")]
        sent = [
            asyncio.ensure_future(client.get("/api/golden/pool", params={"query": f"slow {n}"}, headers=who))
            for who in people
            for n in range(PLACES)
        ]
        await stand(gate, len(sent))
        async with asyncio.timeout(30):
            for path in ("/healthz", "/readyz"):
                assert (await client.get(path)).status_code == 200
            refused = await client.get("/api/session", headers={"Authorization": "Bearer x.y.z"})
            assert refused.status_code == 401
            assert (await client.get("/login", params={"code": "x"})).status_code in (401, 403)
        gate.open["slow"].set()
        assert {(await one).status_code for one in sent} == {200}


async def test_places_are_given_back_after_errors_and_by_those_who_left(gate: Gate) -> None:
    async with served(gate.place, roles=("http",)) as client:
        dana = bearer(gate.place)
        for _ in range(PLACES + LINE + 1):
            assert (await client.get("/api/documents/none", headers=dana)).status_code == 404
            assert (await client.post("/api/query", json={"query": 7}, headers=dana)).status_code in (400, 422)
        sent = ask(client, dana, PLACES)
        await stand(gate, PLACES)
        left = ask(client, dana, LINE)  # all places are taken: these wait in line
        await asyncio.sleep(0.2)
        for one in (*sent, *left):
            one.cancel()
        await asyncio.gather(*sent, *left, return_exceptions=True)
        gate.open["slow"].set()

        async def asked_again(number: int) -> httpx.Response:
            """The reply, once those who left are out of the line."""
            while (found := (await ask(client, dana, 1, f"late {number}")[0])).status_code == 429:
                await asyncio.sleep(0.05)
            return found

        late = [asyncio.ensure_future(asked_again(number)) for number in range(PLACES)]
        await stand(gate, PLACES, "late")  # each has a place
        gate.open["late"].set()
        assert {(await one).status_code for one in late} == {200}


async def test_who_left_is_no_longer_in_the_line(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "LOOK_SECONDS", 0.05)
    async with served(gate.place, roles=("http",)) as client:
        dana = bearer(gate.place)
        sent = ask(client, dana, PLACES)
        await stand(gate, PLACES)
        left = [asyncio.ensure_future(client.get("/api/session", headers=dana)) for _ in range(LINE)]
        left[: LINE // 2] = ask(client, dana, LINE // 2)
        await asyncio.wait(left, timeout=0.5)
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        async with asyncio.timeout(30):  # all places are taken meanwhile
            while True:
                waits = asyncio.ensure_future(client.get("/api/session", headers=dana))
                done, _ = await asyncio.wait([waits], timeout=0.3)
                if not done:
                    break
                assert waits.result().status_code == 429
        assert len(gate.standing) == PLACES
        gate.open["slow"].set()
        assert {(await one).status_code for one in (*sent, waits)} == {200}


async def test_who_is_cancelled_leaves_the_line_to_the_next() -> None:
    places, dana = Places(), Principal("acme", "dana", frozenset(), frozenset({"reader"}))
    held = [await places.take(dana) for _ in range(PLACES)]
    waiting = [asyncio.ensure_future(places.take(dana)) for _ in range(LINE)]
    await asyncio.sleep(0)
    with pytest.raises(HiveError, match="HIVE-433"):
        await places.take(dana)
    waiting.pop(3).cancel()
    await asyncio.sleep(0)
    waiting.append(asyncio.ensure_future(places.take(dana)))
    other = await places.take(Principal("acme", "alice", frozenset(), frozenset({"reader"})))
    for give_back in [other, *held]:
        give_back()
    for one in waiting:
        (await one)()
    assert not places._gates  # nothing is kept of whoever asks for nothing
