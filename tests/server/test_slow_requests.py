"""Who is let in, and has the server wait for the rest of the request, does nothing by rights that ended meanwhile."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from anyio import to_thread

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from hive_agents.runs import control
from hive_agents.server.meta import OPERATIONS
from hive_agents.server.rates import Places

READS = [one for one in OPERATIONS if one.body or one.form or one.takes]
ROLES = frozenset({"reader", "approver", "operator", "admin"})


def bearer(place: Workspace, user: str) -> dict[str, str]:
    """Of somebody whom `access/*.json` doesn't name."""
    return {"Authorization": f"Bearer {mint(place, Principal('acme', user, frozenset(), ROLES)).token}"}


async def held_back(body: bytes, meanwhile: Callable[[], Any]) -> AsyncIterator[bytes]:
    yield body[:1]
    meanwhile()
    yield body[1:]


async def test_a_body_that_is_held_back_counts_by_the_rights_of_when_it_is_there(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    """Who was admitted could send the body half a minute later: an admin who had been ended by then made a token."""
    answers = {}
    for number, one in enumerate(READS):
        user = f"mallory{number}"
        headers = bearer(place, user) | {"Content-Type": "application/json"}
        sent = held_back(b'{"user": "ghost"}', lambda user=user: control.end_person(place, user, "acme", "user:root"))
        path = re.sub(r"\{[^}]+\}", "x", one.path)
        answers[f"{one.method} {one.path}"] = (
            await client.request(one.method, path, content=sent, headers=headers)
        ).status_code
    assert len(answers) > 20
    assert {name: status for name, status in answers.items() if status != 401} == {}


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [("POST", "/api/tokens", {"json": {"user": "ghost"}}), ("POST", "/api/queen/messages", {"json": {"text": "stop"}}),
     ("POST", "/api/query", {"json": {"query": "deviation"}}), ("GET", "/api/documents", {}), ("GET", "/chat", {}),
     ("POST", "/api/runs", {"json": {"input": {"text": "deviation"}}})],
)  # fmt: skip
async def test_who_waits_in_line_counts_by_the_rights_of_when_it_is_their_turn(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, given: Any
) -> None:
    """Eight slow requests of one's own, and each further one waited with the rights of when it came."""
    headers, real = bearer(place, "mallory"), Places.take

    async def take(self: Places, *of: Any) -> Callable[[], None]:
        control.end_person(place, "mallory", "acme", "user:root")
        return await real(self, *of)

    monkeypatch.setattr(Places, "take", take)
    answer = await client.request(method, path, headers=headers, **given)
    assert answer.status_code == (303 if path == "/chat" else 401)


async def test_who_waits_for_a_thread_counts_by_the_rights_of_when_it_is_free(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rights were looked up before the threads that all share were waited for."""
    headers, real = bearer(place, "mallory"), to_thread.run_sync

    async def run_sync(act: Callable[..., Any], *given: Any, **how: Any) -> Any:
        if how.get("limiter") is not None:  # admission takes a thread of the library's own
            control.end_person(place, "mallory", "acme", "user:root")
        return await real(act, *given, **how)

    monkeypatch.setattr(to_thread, "run_sync", run_sync)
    assert (await client.get("/api/documents", headers=headers)).status_code == 401
