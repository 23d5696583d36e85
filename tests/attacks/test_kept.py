"""What a reader may have the records keep: each door that writes is found by itself, and has an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import HiveError, Workspace
from hive_agents.access import known_principal, proofs
from hive_agents.access.logins import session_of_token
from hive_agents.copilot import ThreadStore
from hive_agents.server.app import ROUTES
from hive_agents.server.auth import READER
from hive_agents.server.meta import OPERATIONS
from hive_agents.server.pages.entrance import PARTS
from hive_agents.store import connected
from hive_agents.store.schema import INDEX_TABLES
from tests.server.serving import SETTINGS, bearer, sample, served, token
from tests.server.test_mcp import connected as mcp

QUESTION = {"role": "user", "content": "how do I rotate a key"}
AGUI = {"runId": "r", "state": {}, "messages": [QUESTION | {"id": "m"}], "tools": [], "context": []}
KEEPS: dict[str, dict[str, Any]] = {
    "POST /api/runs": {"input": {"text": "how do I rotate a key"}},
    "POST /agui": AGUI | {"threadId": "another", "forwardedProps": {}},
    "POST /v1/chat/completions": {"messages": [QUESTION]},
    "POST /api/threads": {},
    "POST /api/feedback": {"run_id": "r1", "verdict": "relevant", "result": 1},
}
"""Operations that a reader may call and that leave something behind, each with a body."""
KEEPS_NOTHING = {
    "POST /agui/{agent}": "starts runs of agents, for operators",
    "POST /api/query": "has no conversation",
    "POST /api/runs/{run_id}/stop": "changes a run that is there",
    "POST /api/runs/{run_id}/pause": "changes a run that is there",
    "POST /api/runs/{run_id}/resume": "changes a run that is there",
    "POST /api/runs/{run_id}/retry": "continues runs of agents, which operators start",
    "POST /api/runs/{run_id}/messages": "speaks to agents, which operators start",
    "DELETE /api/runs/{run_id}": "deletes",
    "PATCH /api/threads/{thread_id}": "changes a title, of a limited length",
    "DELETE /api/threads/{thread_id}": "deletes",
    "POST /api/threads/{thread_id}/files": "has ends of its own, of a conversation and of a reader",
    "DELETE /api/threads/{thread_id}/files/{file_id}": "deletes",
    "POST /login": "begins a session, of which there are `MOST_SESSIONS`",
    "POST /logout": "ends a session",
    "POST /webhooks/{trigger}": "needs the signature of a trigger",
}

OWN = INDEX_TABLES | {"consumers", "open_streams"}


def test_every_door_by_which_a_reader_writes_was_looked_at() -> None:
    operations = {(one.method, one.path): one.roles for one in OPERATIONS}
    others = {(view.method, view.path): view.roles for part in PARTS for view in part.pages.views}
    doors = {
        f"{method} {route.path}"
        for route in ROUTES
        for method in (route.methods or set()) - {"GET", "HEAD"}
        if READER & {"reader"} & (operations | others).get((method, route.path), READER)
    }
    assert doors == KEEPS.keys() | KEEPS_NOTHING.keys()


def rows(place: Workspace) -> dict[str, int]:
    """The rows of each table, but for those that a host keeps for itself."""
    with connected(place.records) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for (name,) in tables
            if name not in OWN
        }


async def ask(client: httpx.AsyncClient, who: dict[str, str], **body: Any) -> dict[str, Any]:
    sent = await client.post("/api/runs", json={"input": {"text": "rotate a key"}} | body, headers=who)
    assert sent.status_code == 202, sent.text
    found: dict[str, Any] = sent.json()
    return found


async def test_who_fills_their_share_of_the_records_writes_no_more_until_they_delete(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + "kept_per_caller = 2\n")
    async with served(place, roles=("http",)) as client:
        who, other = bearer(place), bearer(place, "alice")
        empty = rows(place)
        first = await ask(client, who)
        await ask(client, who, thread_id=first["thread_id"])
        full = rows(place)
        for door, body in KEEPS.items():
            found = await client.post(door.split()[1], json=body, headers=who)
            assert found.status_code == 429, (door, found.text)
            assert "2 questions of dana are kept, and 2 are the most" in found.text
            assert "server.kept_per_caller" in found.text
        async with mcp(client, who["Authorization"].removeprefix("Bearer ")) as session:
            result = await session.call_tool("ask", {"question": "how do I rotate a key"})
            assert result.is_error
            assert "2 are the most" in result.content[0].text
        assert rows(place) == full
        await ask(client, other)
        assert (await client.delete(f"/api/threads/{first['thread_id']}", headers=who)).status_code == 200
        for thread in (await client.get("/api/threads", headers=other)).json()["threads"]:
            await client.delete(f"/api/threads/{thread['thread_id']}", headers=other)
        left = rows(place)
        assert {name: left[name] - number for name, number in empty.items() if left[name] != number} == {}
        await ask(client, who)


async def test_no_refused_question_begins_a_conversation(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS.replace("concurrent_runs = 50", "concurrent_runs = 1"))
    async with served(place, roles=("http",)) as client:
        who = bearer(place)
        first = await ask(client, who)
        before = rows(place)["threads"]
        for number in range(3):
            body = KEEPS["POST /agui"] | {"threadId": f"t{number}"}
            assert (await client.post("/agui", json=body, headers=who)).status_code == 429
        assert rows(place)["threads"] == before
        await client.post(f"/api/runs/{first['run_id']}/pause", headers=who)
        await ask(client, who)
        # What rests comes back into the queue as one more.
        assert (await client.post(f"/api/runs/{first['run_id']}/resume", headers=who)).status_code == 429


def test_the_workspace_s_owner_has_no_share_on_the_command_line(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + "kept_per_caller = 1\n")
    threads = ThreadStore(place, known_principal(place, "dana"))
    for _ in range(3):
        threads.create("a conversation")
    with pytest.raises(HiveError, match="3 conversations of dana are kept, and 3 are the most"):
        threads.require_room(3)
    threads.require_room(4)
    columns = "id, created_at, tenant, thread_id, run_id, query, doc_id, verdict, by, status"
    with connected(place.records) as connection:
        for number in range(4):
            row = (f"f{number}", "", "acme", "t", "r", "q", f"d{number}", "relevant", "dana", "pending")
            connection.execute(f"INSERT INTO feedback ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    with pytest.raises(HiveError, match="4 opinions that wait for a review of dana"):
        threads.require_room(4)


def test_sessions_have_an_end_however_often_their_user_signs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hive_agents.access.logins import end_session

    monkeypatch.setattr(proofs, "MOST_SESSIONS", 2)
    place = sample(tmp_path / "ws")
    for _ in range(2):
        end_session(place, session_of_token(place, token(place)))
    with pytest.raises(HiveError, match="dana has signed in 2 times"):
        session_of_token(place, token(place))
    session_of_token(place, token(place, "alice"))
