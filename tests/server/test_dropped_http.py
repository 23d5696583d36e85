"""Files of conversations over HTTP: each reader's own, in their own conversation, and nobody else's by any route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from tests.copilot.test_dropped import LEASE, QUESTION, stored
from tests.server.serving import SETTINGS, asked, bearer, followed, sample, served
from tests.server.test_documents_http import pieces


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


async def begun(client: httpx.AsyncClient, who: dict[str, str]) -> str:
    made = await client.post("/api/threads", headers=who)
    assert made.status_code == 201, made.text
    return str(made.json()["thread_id"])


async def drop(
    client: httpx.AsyncClient, thread: str, who: dict[str, str], name: str = "borealis.md", data: bytes = LEASE
) -> httpx.Response:
    return await client.post(f"/api/threads/{thread}/files", files={"file": (name, data)}, headers=who)


async def reply(client: httpx.AsyncClient, who: dict[str, str], **body: Any) -> dict[str, Any]:
    run = (await asked(client, who, QUESTION, **body))["run_id"]
    await followed(client, f"/api/runs/{run}/events", who)
    found: dict[str, Any] = (await client.get(f"/api/runs/{run}", headers=who)).json()["result"]
    return found


async def test_a_file_is_dropped_listed_searched_and_removed(place: Workspace) -> None:
    async with served(place) as client:
        who = bearer(place)
        thread = await begun(client, who)
        made = await drop(client, thread, who)
        assert made.status_code == 201, made.text
        file = made.json()
        assert file["name"] == "borealis.md"
        listed = f"/api/threads/{thread}/files"
        assert (await client.get(listed, headers=who)).json() == {"files": [file]}
        found = await reply(client, who, thread_id=thread)
        assert [one["name"] for one in found["files"]] == ["borealis.md"]
        assert "files" not in await reply(client, who)
        exported = await client.get(f"/api/threads/{thread}/export", headers=who)
        assert QUESTION in exported.text
        assert "4,200" not in exported.text
        page = await client.get(f"/chat/{thread}", headers=who)
        assert "Your file borealis.md" in page.text
        assert (await client.delete(f"{listed}/{file['file_id']}", headers=who)).status_code == 200
        assert (await client.delete(f"{listed}/{file['file_id']}", headers=who)).status_code == 404
        page = await client.get(f"/chat/{thread}", headers=who)
        assert page.status_code == 200
        assert QUESTION in page.text
        assert "borealis.md" not in page.text
        assert "zarquon deposit is" not in str(stored(place))


@pytest.mark.parametrize(
    ("user", "roles", "status"),
    [("alice", (), 404), ("hana", (), 404), ("root", ("reader", "operator", "approver", "admin"), 404),
     ("dana", ("operator",), 403), ("dana", ("approver",), 403)],
)  # fmt: skip
async def test_only_its_reader_has_it(place: Workspace, user: str, roles: tuple[str, ...], status: int) -> None:
    async with served(place, roles=("http",)) as client:
        who = bearer(place)
        thread = await begun(client, who)
        file = (await drop(client, thread, who)).json()
        listed, other = f"/api/threads/{thread}/files", bearer(place, user, *roles)
        tried = [await client.get(listed, headers=other), await drop(client, thread, other),
                 await client.delete(f"{listed}/{file['file_id']}", headers=other),
                 await client.get(f"/chat/{thread}", headers=other)]  # fmt: skip
        assert {one.status_code for one in tried} == {status}
        assert not any("zarquon" in one.text or "borealis.md" in one.text for one in tried)
        unknown = await client.get("/api/threads/t0000000000/files", headers=other)
        assert unknown.text.replace("t0000000000", thread) == tried[0].text
        assert (await client.get(listed, headers=who)).json() == {"files": [file]}


async def test_nobody_gets_none_and_who_was_ended_has_none(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        who = bearer(place)
        thread = await begun(client, who)
        await drop(client, thread, who)
        listed = f"/api/threads/{thread}/files"
        assert (await client.get(listed)).status_code == 401
        assert (await drop(client, thread, {})).status_code == 401
        admin = bearer(place, "root", "admin")
        ended = await client.post("/api/people/dana/end", json={}, headers=admin)
        assert ended.json().keys() == {"tokens", "sessions", "streams", "runs", "made_for"}
        assert (await client.get(listed, headers=who)).status_code == 401
        assert "borealis.md" not in str(stored(place))


async def test_a_refused_file_says_why_and_a_large_one_comes_by_this_route_alone(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + "body_bytes = 2000\nupload_bytes = 20000\n")
    async with served(place, roles=("http",)) as client:
        who = bearer(place)
        thread = await begun(client, who)
        for name, data, why in (("a.jpg", b"x", "not a supported kind of file"), ("a.pdf", b"x", "not a PDF file")):
            refused = await drop(client, thread, who, name, data)
            assert (refused.status_code, refused.json()["code"]) == (400, "HIVE-105")
            assert why in refused.json()["detail"]
        assert (await drop(client, thread, who, data=LEASE + b"word " * 3000)).status_code == 201
        assert (await drop(client, thread, who, data=LEASE + b"word " * 5000)).status_code == 413
        form = {"Content-Type": "multipart/form-data; boundary=x"} | who
        sent = await client.post(f"/api/threads/{thread}/files", content=pieces(b"x" * 30_000), headers=form)
        assert sent.status_code == 413
        two = [("file", ("a.md", LEASE)), ("file", ("b.md", LEASE))]
        assert (await client.post(f"/api/threads/{thread}/files", files=two, headers=who)).status_code == 400
        assert (await client.post(f"/api/threads/{thread}/files", json={}, headers=who)).status_code == 415


async def test_a_client_that_asks_the_same_questions_has_no_word_of_the_file(place: Workspace) -> None:
    """A conversation that a client of OpenAI's protocol keeps by itself was taken for the one with the file."""
    async with served(place) as client:
        who = bearer(place)
        thread = await begun(client, who)
        await drop(client, thread, who)
        assert (await reply(client, who, thread_id=thread))["files"]
        sent = [{"role": "user", "content": text} for text in (QUESTION, QUESTION)]
        answer = await client.post("/v1/chat/completions", json={"messages": sent}, headers=who)
        assert answer.json()["hive"]["thread_id"] != thread
        assert "4,200" not in answer.text
        named = {"messages": sent, "metadata": {"thread_id": thread}}
        assert "4,200" in (await client.post("/v1/chat/completions", json=named, headers=who)).text


async def test_another_site_drops_nothing(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place, "dana")})
        assert (await client.post("/api/threads")).status_code == 403
        csrf = {"X-CSRF-Token": (await client.get("/api/session")).json()["csrf"]}
        thread = await begun(client, csrf)
        assert (await drop(client, thread, {})).status_code == 403
        assert (await drop(client, thread, csrf)).status_code == 201
