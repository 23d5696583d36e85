"""Every stream that the server has, found by introspection, ends at the heartbeat after its caller lost a right."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import mint, revoke
from hive_agents.access.logins import begin_session, end_session, login_code, session_of_token
from hive_agents.access.rules import known_principal
from hive_agents.host import DocumentImports
from hive_agents.host.imports import WAITING
from hive_agents.runs import RunStore, end_person
from hive_agents.server import streams
from hive_agents.server.auth import COOKIE, csrf_of
from hive_agents.server.meta import OPERATIONS
from tests.sample import hive
from tests.server.serving import SETTINGS, bearer, sample, served

SENT: dict[str, Any] = {
    "/agui": {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
              "messages": [{"id": "m", "role": "user", "content": "how do I rotate a key?"}]},
    "/v1/chat/completions": {"stream": True, "messages": [{"role": "user", "content": "how do I rotate a key?"}]},
}  # fmt: skip
"""The bodies of the streams that a POST begins; nobody works on what they start."""
STREAMS = sorted(
    {(one.method, one.path) for one in OPERATIONS if one.media == "text/event-stream"}
    | {("POST", "/v1/chat/completions")}
)


def edited(place: Workspace, change: Callable[[dict[str, Any]], object]) -> None:
    for path in (place.root / "access").glob("*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "root" in content.get("principals", {}):
            change(content["principals"])
            path.write_text(json.dumps(content), encoding="utf-8")


ENDS: dict[str, Callable[[Workspace, str, str], object]] = {
    "a role is taken away": lambda place, jti, _: edited(
        place, lambda people: people["root"].update(roles=["reader"])
    ),
    "the entry is gone": lambda place, jti, _: edited(place, lambda people: people.pop("root")),
    "the files can't be read": lambda place, jti, _: (place.root / "access" / "zz.json").write_text("{"),
    "the token is revoked": lambda place, jti, _: revoke(place, jti),
    "the session is ended": lambda place, _, session: end_session(place, session),
    "the person is ended": lambda place, jti, _: end_person(place, "root", "acme", "user:amy"),
}  # fmt: skip


def test_every_stream_is_tried() -> None:
    assert {path for method, path in STREAMS if method == "POST" and "{" not in path} == SENT.keys()


@pytest.mark.parametrize("what", ENDS)
async def test_a_stream_ends_with_its_callers_rights(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.3)
    place = sample(tmp_path / "ws", SETTINGS)
    root = known_principal(place, "root")
    token = mint(place, root, 600)
    session = begin_session(place, login_code(place, "root"))
    if what == "the session is ended":
        headers = {"Cookie": f"{COOKIE}={session}", "X-CSRF-Token": csrf_of(session)}
    else:
        headers = {"Authorization": f"Bearer {token.token}"}
    row, _ = RunStore(place).insert("agent", {}, agent="digest", owner=root, status="waiting")
    upload = DocumentImports(place).add(root, "user:root", [("a.md", b"# A")])
    shutil.rmtree(place.root / WAITING)  # the file is on another host, which carries it out
    ids = {"run_id": row.run_id, "import_id": upload.import_id}
    wanted = [(method, path.format(**ids)) for method, path in STREAMS if "{agent}" not in path]
    async with served(place, roles=("http",)) as client:
        begun: list[asyncio.Event] = [asyncio.Event() for _ in wanted]

        async def follow(number: int, method: str, path: str) -> None:
            sent = {"json": SENT[path]} if path in SENT else {}
            async with client.stream(method, path, headers=headers, **sent) as response:
                assert response.status_code == 200, (path, await response.aread())
                async for _ in response.aiter_bytes():
                    begun[number].set()

        following = [asyncio.create_task(follow(n, *one)) for n, one in enumerate(wanted)]
        await asyncio.wait_for(asyncio.gather(*(one.wait() for one in begun)), 60)
        assert [path for (_, path), task in zip(wanted, following, strict=True) if task.done()] == []
        ENDS[what](place, token.jti, session)
        done, open_ = await asyncio.wait(following, timeout=30)
        assert [wanted[following.index(task)] for task in open_] == []
        assert [task.exception() for task in done] == [None] * len(done)
        again = await client.get("/api/events", headers=headers)
        assert again.status_code in (401, 403)


@pytest.mark.parametrize("what", ["a group", "a role", "the entry"])
async def test_a_token_of_before_has_no_more_than_is_left(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Of one who searches and decides: by HTTP and by commands, and by a session that began with it."""
    place = sample(tmp_path / "ws", SETTINGS)
    token = mint(place, known_principal(place, "dana"), 600).token
    session = session_of_token(place, token)
    doc_id, tries = "sops/deviation-closure.md", [("GET", "/api/approvals"), ("POST", "/api/query")]
    tries.append(("GET", f"/api/documents/{doc_id}"))
    by_token = {"Authorization": f"Bearer {token}"}
    holders = (by_token, {"Cookie": f"{COOKIE}={session}", "X-CSRF-Token": csrf_of(session)})
    monkeypatch.setenv("HIVE_TOKEN", token)
    commands = (("approvals", "list"), ("query", "deviation closure"), ("chat", "how are deviations closed?"))

    async def answers(client: httpx.AsyncClient) -> list[set[int]]:
        sent = {"POST": {"json": {"query": "deviation closure"}}}
        return [
            {(await client.request(*one, headers=held, **sent.get(one[0], {}))).status_code for held in holders}
            for one in tries
        ]

    def told() -> list[tuple[int, bool]]:
        ran = [hive(*command, "-w", place.root, "--json") for command in commands]
        return [(one.code, doc_id in one.out) for one in ran]

    async with served(place, roles=("http",)) as client:
        assert await answers(client) == [{200}, {200}, {200}]
        assert await asyncio.to_thread(told) == [(0, False), (0, True), (0, True)]
        taken: dict[str, dict[str, Any]] = {"a group": {"groups": []}, "a role": {"roles": ["approver"]}}
        edited(place, lambda people: people["dana"].update(taken[what]) if what in taken else people.pop("dana"))
        after, ran = await answers(client), await asyncio.to_thread(told)
    if what == "a group":
        assert (after, ran) == ([{200}, {200}, {404}], [(0, False)] * 3)
    elif what == "a role":
        assert (after, ran[0]) == ([{200}, {403}, {403}], (0, False))
    else:
        assert (after, ran) == ([{401}] * 3, [(2, False)] * 3)


async def test_every_stream_counts_for_its_caller_alone(tmp_path: Any) -> None:
    """With as many open as may be, one more of any kind is 429 and begins nothing; who closes one may open another."""
    place = sample(tmp_path / "ws", SETTINGS + "streams_per_caller = 2\n")
    root = known_principal(place, "root")
    row, _ = RunStore(place).insert("agent", {}, agent="digest", owner=root, status="waiting")
    upload = DocumentImports(place).add(root, "user:root", [("a.md", b"# A")])
    shutil.rmtree(place.root / WAITING)  # the file is on another host, which carries it out
    ids = {"run_id": row.run_id, "import_id": upload.import_id}
    async with served(place, roles=("http",)) as client:
        first, second = client.stream("GET", "/api/changes", headers=bearer(place, "root")), None
        async with first, client.stream("GET", "/api/events/stream", headers=bearer(place, "root")):
            for method, path in STREAMS:
                sent = {"json": SENT["/agui" if "agui" in path else path]} if method == "POST" else {}
                url = path.format(agent="digest", **ids)
                refused = await client.request(method, url, headers=bearer(place, "root"), **sent)
                assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True), (
                    path,
                    refused.text,
                )
                assert "2 streams open" in refused.text
            async with client.stream("GET", "/api/changes", headers=bearer(place, "hana")) as other:
                assert other.status_code == 200
        assert [one.run_id for one in RunStore(place).list()] == [row.run_id]
        while second is None or second.status_code == 429:  # the server sees that one is closed when it next looks
            async with client.stream("GET", "/api/changes", headers=bearer(place, "root")) as second:
                pass
        assert second.status_code == 200


async def test_who_leaves_is_ended_over_http(tmp_path: Any) -> None:
    place = sample(tmp_path / "ws", SETTINGS)
    admin = {"Authorization": f"Bearer {mint(place, known_principal(place, 'root')).token}"}
    dana = mint(place, known_principal(place, "dana"))
    row, _ = RunStore(place).insert("agent", {}, agent="digest", owner=known_principal(place, "dana"), status="waiting")
    async with served(place, roles=("http",)) as client:
        listed = (await client.get("/api/tokens", headers=admin)).json()["tokens"]
        assert dana.jti in {one["jti"] for one in listed}
        ended = await client.post("/api/people/dana/end", json={}, headers=admin)
        assert ended.json() == {"tokens": 1, "sessions": 0, "streams": 0, "runs": 1, "made_for": []}
        foreign = await client.post("/api/people/hana/end", json={"tenant": "globex"}, headers=admin)
        assert foreign.status_code == 403
        mine = {"Authorization": f"Bearer {dana.token}"}
        assert (await client.get("/api/session", headers=mine)).status_code == 401
    assert RunStore(place).get(row.run_id).status == "stopped"
