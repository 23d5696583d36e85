"""Who lost the role by which they began a run may end it, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.ranking import versions
from hive_agents.runs import control
from hive_agents.server import account, configs
from hive_agents.server.pages import settings
from tests.server.serving import asking_writer, bearer, sample, served, token


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = sample(tmp_path / "ws")
    asking_writer(place)
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place, roles=("http",)) as client:
        yield client


def let_dana(place: Workspace, *roles: str) -> None:
    people = place.root / "access" / "principals.json"
    listed = json.loads(people.read_text())
    listed["principals"]["dana"]["roles"] = list(roles)
    people.write_text(json.dumps(listed))


AGENT = {"graph": "event_loop", "agent": "writer", "input": {}}
CHANGES = {"resume": {}, "retry": {}, "messages": {"text": "Pay the order."}}


@pytest.mark.parametrize("begun", [AGENT, {"graph": "optimizer"}])
async def test_who_may_no_longer_start_a_run_makes_none_go_on(
    place: Workspace, client: httpx.AsyncClient, begun: dict[str, object]
) -> None:
    """A reader who had been an operator went on with the agents that they had begun: whoever sees a run changes it."""
    let_dana(place, "operator")
    who = bearer(place, "dana", "operator", "reader")
    run = (await client.post("/api/runs", json=begun, headers=who)).json()["run_id"]
    assert (await client.post(f"/api/runs/{run}/pause", headers=who)).json()["status"] == "paused"
    let_dana(place, "reader")
    for change, body in CHANGES.items():
        answer = await client.post(f"/api/runs/{run}/{change}", json=body, headers=who)
        assert (change, answer.status_code) == (change, 403)
    assert (await client.get(f"/api/runs/{run}", headers=who)).json()["run"]["status"] == "paused"
    assert (await client.post(f"/api/runs/{run}/stop", headers=who)).json()["status"] == "stopped"
    assert (await client.delete(f"/api/runs/{run}", headers=who)).status_code == 200


async def test_a_reader_goes_on_with_their_own_question(place: Workspace, client: httpx.AsyncClient) -> None:
    who = bearer(place, "alice")
    asked = await client.post("/api/runs", json={"input": {"text": "Who approves deviations?"}}, headers=who)
    run = asked.json()["run_id"]
    assert (await client.post(f"/api/runs/{run}/pause", headers=who)).json()["status"] == "paused"
    assert (await client.post(f"/api/runs/{run}/resume", headers=who)).json()["status"] == "queued"


@pytest.mark.parametrize("taken", ["role", "proof"])
@pytest.mark.parametrize("change", ["deploy", "rollback"])
async def test_a_deployment_counts_by_the_rights_of_when_it_is_made(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, change: str, taken: str
) -> None:
    """The gate measures for minutes, and others hold the lock: who lost the role meanwhile deployed all the same."""
    let_dana(place, "operator")
    who = bearer(place, "dana", "operator")
    body = {"config": "v1-naive", "allow_inconclusive": True, "reason": "try"}
    if change == "rollback":
        assert (await client.post("/api/deploy", json=body, headers=who)).status_code == 200
    before = [one.id for one in versions(place)]
    real = getattr(configs, change)

    def meanwhile(*given: Any, **named: Any) -> Any:
        """What another one does while it is measured."""
        if taken == "role":
            let_dana(place, "reader")
        else:
            control.end_person(place, "dana", "acme", "user:root")
        return real(*given, **named)

    monkeypatch.setattr(configs, change, meanwhile)
    answer = await client.post(f"/api/{change}", json=body if change == "deploy" else {}, headers=who)
    assert answer.status_code == (403 if taken == "role" else 401)
    assert [one.id for one in versions(place)] == before


@pytest.mark.parametrize("taken", ["role", "proof"])
async def test_settings_count_by_the_rights_of_when_they_are_written(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """Whoever writes a file holds the others back: an admin who was ended meanwhile named another one all the same."""
    let_dana(place, "admin", "reader")
    await client.post("/login", json={"token": token(place, "dana", "admin", "reader")})
    form = {"csrf": (await client.get("/api/session")).json()["csrf"], "user": "ghost", "act": "write", "role": "admin"}
    shown = await client.post("/settings/person", data=form)
    read = re.search(r'name="read" value="(\w+)"', shown.text)
    assert read is not None
    real = settings.edits.write_changes

    def meanwhile(*given: Any) -> bool:
        if taken == "role":
            (place.root / "access" / "zz.json").write_text("{")  # who can't be looked up has none
        else:
            control.end_person(place, "dana", "acme", "user:root")
        return real(*given)

    monkeypatch.setattr(settings.edits, "write_changes", meanwhile)
    answer = await client.post("/settings/person", data=form | {"read": read[1]})
    assert answer.status_code in (303, 403)
    assert answer.headers.get("location", "/login").startswith("/login")
    assert "ghost" not in (place.root / "access" / "principals.json").read_text()


async def test_a_token_counts_by_its_makers_rights_of_when_it_is_made(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred tokens that were made while their maker was ended, seven counted afterwards."""
    let_dana(place, "admin")
    who, real = bearer(place, "dana", "admin"), account.mint

    def meanwhile(*given: Any, **named: Any) -> Any:
        control.end_person(place, "dana", "acme", "user:root")
        return real(*given, **named)

    monkeypatch.setattr(account, "mint", meanwhile)
    answer = await client.post("/api/tokens", json={"user": "ghost"}, headers=who)
    assert answer.status_code == 401
    root = bearer(place, "root", "admin")
    listed = (await client.get("/api/tokens", headers=root)).json()["tokens"]
    assert "ghost" not in [one["user"] for one in listed]


@pytest.mark.parametrize(("path", "body"), [("evaluate", {}), ("compare", {"b": "v1-naive"})])
async def test_who_is_ended_while_it_is_measured_is_told_nothing(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, str]
) -> None:
    """It takes minutes, and the documents that were found were told to whoever had asked."""
    let_dana(place, "operator")
    who, real = bearer(place, "dana", "operator"), getattr(configs, path)

    def meanwhile(*given: Any, **named: Any) -> Any:
        control.end_person(place, "dana", "acme", "user:root")
        return real(*given, **named)

    monkeypatch.setattr(configs, path, meanwhile)
    answer = await client.post(f"/api/{path}", json=body, headers=who)
    assert answer.status_code == 401
