"""Runs over HTTP: started once, followed without a gap, seen by those who may, and kept within limits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Chat, Workspace
from hive_agents.access import Principal, known_principal
from hive_agents.base.errors import Busy
from hive_agents.copilot import ThreadStore
from hive_agents.events import Event, EventLog, EventType
from hive_agents.host.host import Host
from hive_agents.ranking import SearchEngine
from hive_agents.runs import Leases, RunStore
from hive_agents.runs.driver import leases_of
from hive_agents.server import feed, streams
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import agent_json, node, write_json
from tests.people import token_of
from tests.server.serving import SETTINGS, asked, bearer, followed, frames, sample, served

QUESTION = "what returns a fresh token?"


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place) as client:
        yield client


def text_of(found: list[Any]) -> str:
    return "".join(one.value["delta"] for one in found if one.type == "TEXT_MESSAGE_CONTENT")


async def test_no_name_makes_a_key_that_is_somebody_elses(place: Workspace, client: httpx.AsyncClient) -> None:
    """Names may hold a slash: `team` with the key `amy/k` isn't `team/amy` with the key `k`."""
    amy, team = (
        {"Authorization": f"Bearer {token_of(place, Principal('acme', user, roles=frozenset({'reader'})))}"}
        for user in ("team/amy", "team")
    )
    hers = await asked(client, amy | {"Idempotency-Key": "k"}, QUESTION)
    other = await client.post(
        "/api/runs", json={"input": {"text": QUESTION}}, headers=team | {"Idempotency-Key": "amy/k"}
    )
    assert other.status_code == 202
    assert {hers["run_id"], hers["thread_id"]} & set(other.json().values()) == set()


@pytest.mark.parametrize(
    ("demand", "code"),
    [
        ({"field": "nofield", "op": "eq", "value": "x"}, "HIVE-206"),
        ({"field": "status", "op": "gte", "value": "x"}, "HIVE-207"),
    ],
)
async def test_a_question_with_a_filter_that_can_not_be_fails_at_once_and_says_why(
    place: Workspace, client: httpx.AsyncClient, demand: dict[str, str], code: str
) -> None:
    dana = bearer(place)
    sent = await client.post("/api/runs", json={"input": {"text": QUESTION, "pinned": [demand]}}, headers=dana)
    run = sent.json()
    await followed(client, run["events"], dana)
    found = (await client.get(f"/api/runs/{run['run_id']}", headers=dana)).json()["run"]
    assert (found["status"], found["error"]["code"]) == ("failed", code)
    assert "worker" not in found["error"]["message"]


async def test_a_question_is_answered_as_a_stream(place: Workspace, client: httpx.AsyncClient) -> None:
    dana = bearer(place)
    run = await asked(client, dana, QUESTION)
    assert run["events"] == f"/api/runs/{run['run_id']}/events"
    found = await followed(client, run["events"], dana)
    types = [one.type for one in found]
    assert (types[0], types[1], types[-1]) == ("RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED")
    assert types.count("STEP_STARTED") == types.count("STEP_FINISHED")
    reply = found[-1].value["result"]
    assert reply["status"] == "results"
    assert reply["results"][0]["citation"] == "[1]"
    assert reply["results"][0]["windows"][0]["text"] in text_of(found)
    shown = (await client.get(f"/api/runs/{run['run_id']}", headers=dana)).json()
    assert shown["result"] == reply
    assert (await client.get(f"/api/threads/{run['thread_id']}", headers=dana)).json()["turns"][0]["text"] == QUESTION


async def test_a_reply_that_cannot_be_read_for_a_moment_is_none_that_is_not_there(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    dana = bearer(place)
    run = await asked(client, dana, QUESTION)
    await followed(client, run["events"], dana)

    def away(*_: object, **__: object) -> None:
        raise Busy.of("HIVE-402", "the records are away")

    with monkeypatch.context() as patch:
        patch.setattr(Chat, "render", away)
        assert (await client.get(f"/api/runs/{run['run_id']}", headers=dana)).status_code == 503
        with pytest.raises(httpx.RemoteProtocolError):  # the stream breaks off, and says nothing of an end
            await followed(client, run["events"], dana)
    assert (await followed(client, run["events"], dana))[-1].value["result"]["status"] == "results"


async def test_who_comes_back_with_the_last_id_misses_nothing_and_gets_nothing_twice(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    dana = bearer(place)
    run = await asked(client, dana, QUESTION)
    whole = await followed(client, run["events"], dana)
    ids = [one.id for one in whole if one.id]
    assert len(ids) == len(set(ids)) >= 2
    for id in ids[:-1]:
        at = next(n for n, one in enumerate(whole) if one.id == id)
        rest = await followed(client, run["events"], dana | {"Last-Event-ID": id})
        # What isn't logged, the steps, is told to those who are there.
        assert [one.value for one in rest] == [one.value for one in whole[at + 1 :] if "STEP" not in one.type]
    over = await client.get(run["events"], headers=dana | {"Last-Event-ID": ids[-1]})
    assert over.status_code == 204
    assert (await client.get(run["events"], headers=dana | {"Last-Event-ID": "yesterday"})).status_code == 400


async def test_the_same_key_starts_one_run_and_nothing_else(place: Workspace, client: httpx.AsyncClient) -> None:
    dana = bearer(place)
    first = await asked(client, dana | {"Idempotency-Key": "k1"}, QUESTION)
    again = await asked(client, bearer(place) | {"Idempotency-Key": "k1"}, QUESTION)
    assert again["run_id"] == first["run_id"]
    other = {"input": {"text": "something else"}}
    refused = await client.post("/api/runs", json=other, headers=dana | {"Idempotency-Key": "k1"})
    assert refused.status_code == 409
    theirs = await asked(client, bearer(place, "alice") | {"Idempotency-Key": "k1"}, "something else")
    assert theirs["run_id"] != first["run_id"]
    assert len((await client.get("/api/threads", headers=dana)).json()["threads"]) == 1


@pytest.mark.parametrize("who", ["alice", "hana"])
async def test_somebody_elses_run_is_an_unknown_one(place: Workspace, client: httpx.AsyncClient, who: str) -> None:
    run = await asked(client, bearer(place), QUESTION)
    await followed(client, run["events"], bearer(place))
    for path in ("", "/events", "/timeline", "/messages", "/steps", "/why?doc_id=x"):
        theirs = await client.get(f"/api/runs/{run['run_id']}{path}", headers=bearer(place, who))
        unknown = await client.get(f"/api/runs/r000{path}", headers=bearer(place, who))
        assert theirs.status_code == unknown.status_code == 404
        assert theirs.text.replace(run["run_id"], "r000") == unknown.text
    stopped = await client.post(f"/api/runs/{run['run_id']}/stop", headers=bearer(place, who))
    assert stopped.status_code == 404
    assert (await client.get("/api/runs", headers=bearer(place, who))).json()["runs"] == []


async def test_an_operator_sees_that_a_colleague_asked_and_not_what_came_of_it(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    run = await asked(client, bearer(place), QUESTION)
    await followed(client, run["events"], bearer(place))
    root = bearer(place, "root")
    shown = (await client.get(f"/api/runs/{run['run_id']}", headers=root)).json()
    assert (shown["run"]["status"], shown["result"], shown["run"]["about"]) == ("done", None, "")
    assert (await client.get("/api/runs", headers=bearer(place))).json()["runs"][0]["about"] == QUESTION
    seen = await followed(client, run["events"], root)
    assert text_of(seen) == ""


async def test_a_run_that_ends_while_it_is_looked_at_is_not_shown_as_stopped(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunStore(place).insert("worker", {}, owner=known_principal(place, "dana"), status="running")[0].run_id

    def ended(self: Leases) -> frozenset[str]:
        RunStore(place).update(run, "failed", error={"code": "HIVE-422", "message": "it failed"})
        return frozenset()

    with monkeypatch.context() as patch:
        patch.setattr(Leases, "held", ended)
        shown = (await client.get(f"/api/runs/{run}", headers=bearer(place))).json()["run"]
    assert shown["status"] == "failed"


async def test_runs_come_in_pages(place: Workspace, client: httpx.AsyncClient) -> None:
    dana = bearer(place)
    runs = [(await asked(client, dana, f"question {n}"))["run_id"] for n in range(5)]
    found, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/api/runs", params=query, headers=dana)).json()
        found += [one["run_id"] for one in page["runs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(found) == sorted(runs)
    refused = await client.get("/api/runs", params={"cursor": "rnever"}, headers=dana)
    assert (refused.status_code, refused.json()["code"]) == (404, "HIVE-409")


async def test_a_run_can_be_stopped_and_resumed_and_its_stream_says_so(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:  # nobody works on it
        dana = bearer(place)
        run = await asked(client, dana, QUESTION)
        path = f"/api/runs/{run['run_id']}"
        assert (await client.post(f"{path}/stop", headers=dana)).json()["status"] == "stopped"
        told = await followed(client, run["events"], dana)
        assert told[-1].value["outcome"] == {"type": "cancelled"}
        assert (await client.post(f"{path}/resume", headers=dana)).json()["status"] == "queued"
    async with served(place) as client:
        whole = await followed(client, run["events"], dana)
        assert whole[-1].value["outcome"] == {"type": "success"}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "HIVE-101"),
        ('{"graph": "worker", "graph": "worker"}', 400, None),
        ('{"grap": "worker"}', 422, "HIVE-103"),
        ('{"graph": "worker", "input": {}}', 422, "HIVE-106"),
        ('{"graph": "worker", "input": {"text": " "}}', 400, "HIVE-409"),
        ('{"graph": "worker", "input": {"text": "x"}, "thread_id": "t1"}', 404, "HIVE-409"),
        ('{"graph": "event_loop", "agent": "nobody"}', 403, "HIVE-415"),
        ("[]", 422, "HIVE-104"),
    ],
)
async def test_what_cannot_be_started_is_a_problem_with_its_code(
    place: Workspace, client: httpx.AsyncClient, body: str, status: int, code: str | None
) -> None:
    headers = bearer(place) | {"Content-Type": "application/json"}
    found = await client.post("/api/runs", content=body, headers=headers)
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/problem+json"
    assert code is None or found.json()["code"] == code
    assert RunStore(place).list() == []


async def test_a_run_of_no_agent_says_what_is_missing(place: Workspace, client: httpx.AsyncClient) -> None:
    found = await client.post("/api/runs", json={"graph": "event_loop"}, headers=bearer(place, "dana", "operator"))
    assert (found.status_code, found.json()["code"]) == (422, "HIVE-106")
    assert found.json()["diagnostics"][0]["path"] == "agent"


async def test_an_input_that_the_agent_does_not_take_is_a_fault_of_the_request(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    """As a webhook tells it."""
    wanted = {"graph": "event_loop", "agent": "curator", "input": {"topik": "keys"}}
    found = await client.post("/api/runs", json=wanted, headers=bearer(place, "root", "operator"))
    assert (found.status_code, {one["code"] for one in found.json()["diagnostics"]}) == (422, {"HIVE-103", "HIVE-106"})


async def test_anything_but_json_is_refused(place: Workspace, client: httpx.AsyncClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = bearer(place) | {"Content-Type": kind}
        refused = await client.post("/api/runs", content=b"{}", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (415, "HIVE-409")


async def test_a_request_repeated_under_its_key_finds_its_run_where_there_is_room_for_no_other(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS.replace("50", "1"))
    async with served(place, roles=("http",)) as client:
        keyed = bearer(place) | {"Idempotency-Key": "k1"}
        first = await asked(client, keyed, QUESTION)
        assert await asked(client, keyed, QUESTION) == first
        other = {"input": {"text": "something else"}}
        statuses = [
            (await client.post("/api/runs", json=other, headers=headers)).status_code
            for headers in (keyed, bearer(place), bearer(place) | {"Idempotency-Key": "k2"})
        ]
        assert statuses == [409, 429, 429]


async def test_each_answer_says_what_its_caller_may_still_ask_for(place: Workspace, client: httpx.AsyncClient) -> None:
    dana = bearer(place)
    first, second = [await client.get("/api/session", headers=dana) for _ in range(2)]
    left = [int(one.headers["x-ratelimit-remaining"]) for one in (first, second)]
    assert left[1] <= left[0] < int(first.headers["x-ratelimit-limit"]) == 10_000
    refused = await client.get("/api/metrics-of-nothing", headers=dana)
    assert "x-ratelimit-limit" not in refused.headers
    theirs = (await client.get("/v1/models", headers=dana)).headers
    assert theirs["x-ratelimit-limit-requests"] == "10000"
    assert int(theirs["x-ratelimit-remaining-requests"]) < 10_000
    assert theirs["x-ratelimit-reset-requests"].endswith("s")
    assert "x-ratelimit-limit" not in (await client.get("/healthz")).headers


async def test_too_many_requests_and_runs_are_told_when_to_come_again(tmp_path: Path) -> None:
    limits = SETTINGS.replace("10000", "6").replace("50", "2")
    place = sample(tmp_path / "ws", limits)
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        for _ in range(2):
            await asked(client, dana, QUESTION)
        third = await client.post("/api/runs", json={"input": {"text": "x"}}, headers=dana)
        assert (third.status_code, third.json()["code"]) == (429, "HIVE-433")
        statuses = [(await client.get("/api/session", headers=dana)).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        last = await client.get("/api/session", headers=dana)
        assert int(last.headers["retry-after"]) >= 1
        assert (last.headers["x-ratelimit-limit"], last.headers["x-ratelimit-remaining"]) == ("6", "0")
        assert int(last.headers["x-ratelimit-reset"]) >= int(last.headers["retry-after"])
        assert (await client.get("/api/session", headers=bearer(place, "alice"))).status_code == 200


async def test_a_heartbeat_ends_the_stream_of_a_token_that_was_revoked(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hive_agents.access import revoke
    from hive_agents.access.tokens import verify

    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        run = await asked(client, dana, QUESTION)
        async with client.stream("GET", run["events"], headers=dana) as response:
            pieces = response.aiter_bytes()
            while await anext(pieces) != streams.BEAT:
                pass  # that it was taken in
            revoke(place, str(verify(place, dana["Authorization"].removeprefix("Bearer ")).token_id))
            async for _ in pieces:
                pass  # it ends


async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_QUEUED", 3)
    watch = feed.Watch(Principal("acme", "dana"))
    for _ in range(4):
        watch.offer(None)  # type: ignore[arg-type]
    assert watch.lost
    assert await watch.next(1) is None


async def test_what_is_logged_while_the_feed_begins_is_missed_by_nobody(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_seq = EventLog.last_seq

    def slow(log: EventLog) -> int:
        asyncio.run_coroutine_threadsafe(logged(), loop).result()
        return last_seq(log)

    async def logged() -> None:
        await host.bus.publish(Event(EventType.RUN_STARTED, "r1"))

    loop = asyncio.get_running_loop()
    async with Host(place, roles=("runs",)) as host:
        monkeypatch.setattr(EventLog, "last_seq", slow)
        async with feed.Feed(host).watch(Principal("acme", "dana"), "r1") as watch:
            known = EventLog(place).replay(run_id="r1")
            event = None if known else await watch.next(5)
    assert known or event


async def test_the_last_watch_ends_the_reading_of_the_log(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        run = await asked(client, dana, QUESTION)
        async with client.stream("GET", run["events"], headers=dana):
            assert any(task.get_name() == "feed" for task in asyncio.all_tasks())
        while any(task.get_name() == "feed" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.01)


async def test_an_agent_is_followed_with_its_words_and_calls_and_waits_for_its_answer(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    script = [
        {"content": "Let me look.", "tool_calls": [{"name": "ask_user", "args": {"question": "Which one?"}}]},
        {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "the second"}}]},
    ]
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, script)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    agent = agent_json(
        node("write", output_keys=["text"], client_facing=True), id="writer", model="scripted:script.jsonl"
    )
    write_json(place, "agents/writer.json", agent)
    root = bearer(place, "root", "operator", "reader")
    async with served(place) as client:
        body = {"graph": "event_loop", "agent": "writer", "input": {}}
        started = await client.post("/api/runs", json=body, headers=root)
        assert started.status_code == 202, started.text
        run = started.json()
        found = []
        async with client.stream("GET", run["events"], headers=root) as response:
            async for one in frames(response):
                found.append(one)
                if one.type == "RUN_FINISHED" and one.value["outcome"]["type"] == "interrupt":
                    (interrupt,) = one.value["outcome"]["interrupts"]
                    answer = {"verb": "respond", "message": "the second"}
                    decided = await client.post(
                        f"/api/approvals/{interrupt['id']}/decide", json=answer, headers=bearer(place)
                    )  # fmt: skip
                    assert decided.status_code == 200, decided.text
        lasting = [one for one in found if "STEP" not in one.type]  # steps are told to those who are there
        for at in [n for n, one in enumerate(lasting[:-1]) if one.id]:
            rest = await followed(client, run["events"], root | {"Last-Event-ID": str(lasting[at].id)})
            told, missed = (sorted(json.dumps(one.value) for one in part) for part in (rest, lasting[at + 1 :]))
            assert [one for one in told if "STEP" not in one] == missed, lasting[at].id
    types = [one.type for one in found]
    assert types.count("RUN_STARTED") == types.count("RUN_FINISHED") == 2
    assert types.count("TOOL_CALL_START") == types.count("TOOL_CALL_END") == types.count("TOOL_CALL_RESULT") == 2
    assert "Let me look." in text_of(found)
    assert found[-1].value["result"]["outputs"] == {"text": "the second"}


async def test_a_turn_that_computes_holds_up_nobody(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()
    search = SearchEngine.retrieve

    def long(*args: Any, **how: Any) -> Any:
        begun.set()
        assert free.wait(60)  # stands still in the middle of a turn
        return search(*args, **how)

    monkeypatch.setattr(SearchEngine, "retrieve", staticmethod(long))
    dana = bearer(place)
    async with served(place) as client:
        first = await asked(client, dana, QUESTION)
        await asyncio.to_thread(begun.wait, 60)
        second = await asked(client, dana, QUESTION)
        assert (await client.get("/healthz")).status_code == 200
        async with client.stream("GET", second["events"], headers=dana) as response:
            opened = [await anext(frames(response))]
        free.set()
        told = await followed(client, first["events"], dana)
    assert opened[0].type == "RUN_STARTED"
    assert told[-1].value["outcome"] == {"type": "success"}


@pytest.mark.slow
async def test_a_turn_that_waits_for_its_model_is_stopped(tmp_path: Path) -> None:
    models = '[models]\nplanner = ["scripted:late.jsonl"]\ndeadline_seconds = 600\n'
    place = sample(tmp_path / "ws", SETTINGS + models)
    write_json(place, "late.jsonl", json.dumps({"content": "late", "delay_seconds": 600}))
    trust(place)
    dana, thread = bearer(place), ThreadStore(place, known_principal(place, "dana")).create(QUESTION)
    lease = leases_of(place).acquire(thread, "another")
    assert lease is not None
    async with served(place) as client:
        run = await asked(client, dana, QUESTION, thread_id=thread)
        async with client.stream("GET", run["events"], headers=dana) as response:
            while not any(task.get_name() == "feed" for task in asyncio.all_tasks()):
                await asyncio.sleep(0.01)
            lease.release()  # steps are told as they happen, to who listens by then
            async for one in frames(response):
                if one.type == "STEP_STARTED":
                    stopped = await client.post(f"/api/runs/{run['run_id']}/stop", headers=dana)
                    assert stopped.status_code == 200
        assert one.value["outcome"] == {"type": "cancelled"}
