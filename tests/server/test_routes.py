"""Requests, configs and events over HTTP: in the scope of the caller, and nothing of the holdout."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.runs import RunStore
from tests.agents.conftest import write_json
from tests.server.serving import asked, bearer


def filed(place: Workspace, tenant: str = "acme", **changes: Any) -> str:
    filing = Filing(kind="question", title="Which one?", requester="user:kim", tenant=tenant, **changes)
    return ApprovalStore(place).file(filing).id


async def test_a_request_is_decided_once_and_who_comes_second_hears_who_was_first(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    id = filed(place)
    listed = (await client.get("/api/approvals?status=pending", headers=bearer(place))).json()["items"]
    assert [one["id"] for one in listed] == [id]
    path = f"/api/approvals/{id}/decide"
    stale = await client.post(path, json={"verb": "approve", "version": 2}, headers=bearer(place))
    assert (stale.status_code, stale.json()["code"]) == (409, "HIVE-416")
    first = await client.post(path, json={"verb": "approve", "version": 1}, headers=bearer(place))
    assert (first.status_code, first.json()["by"], first.json()["authn"]) == (200, "user:dana", "token")
    again = await client.post(path, json={"verb": "approve", "version": 1}, headers=bearer(place))
    assert again.json() == first.json()
    other = bearer(place, "root", "approver")
    second = await client.post(path, json={"verb": "reject"}, headers=other)
    assert (second.status_code, second.json()["code"]) == (409, "HIVE-414")
    assert "user:dana" in second.json()["detail"]


async def test_words_that_are_chosen_from_a_list_may_be_written_in_any_case(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    id = filed(place)
    listed = await client.get("/api/approvals?status=PENDING&order=Due", headers=bearer(place))
    assert [one["id"] for one in listed.json()["items"]] == [id]
    decided = await client.post(f"/api/approvals/{id}/decide", json={"verb": "Approve"}, headers=bearer(place))
    assert (decided.status_code, decided.json()["decision"]) == (200, "approve")
    operator = bearer(place, "root", "operator", "reader")
    evaluated = await client.post("/api/evaluate", json={"split": "TRAIN"}, headers=operator)
    assert (evaluated.status_code, evaluated.json()["split"]) == (200, "train")
    started = await client.post("/api/runs", json={"graph": "WORKER", "input": {"text": "q"}}, headers=operator)
    assert started.status_code == 202, started.text
    runs = await client.get("/api/runs?status=Queued&graph=Worker", headers=operator)
    assert [one["run_id"] for one in runs.json()["runs"]] == [started.json()["run_id"]]


async def test_an_answer_that_names_no_content_counts_for_the_request_as_it_is(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    id = filed(place)
    store = ApprovalStore(place)
    read = store.get(id).content_hash
    store.revise(id, context={"more": "by now"})
    path = f"/api/approvals/{id}/decide"
    stale = await client.post(path, json={"verb": "approve", "content_hash": read}, headers=bearer(place))
    assert (stale.status_code, stale.json()["code"]) == (409, "HIVE-416")
    assert (await client.post(path, json={"verb": "approve"}, headers=bearer(place))).status_code == 200
    assert store.get(id).decisions[-1].version == 2


async def test_a_request_of_another_tenant_is_an_unknown_one(place: Workspace, client: httpx.AsyncClient) -> None:
    id, hana = filed(place), bearer(place, "hana")
    assert (await client.get("/api/approvals", headers=hana)).json()["items"] == []
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/decide", {"verb": "approve"}),
        ("POST", "/delegate", {"to": "kim"}),
    ):
        theirs = await client.request(method, f"/api/approvals/{id}{path}", json=body, headers=hana)
        unknown = await client.request(method, f"/api/approvals/a0{path}", json=body, headers=hana)
        assert theirs.status_code == unknown.status_code == 404
    assert ApprovalStore(place).get(id).status == "pending"


async def test_a_request_is_handed_to_another_person(place: Workspace, client: httpx.AsyncClient) -> None:
    id = filed(place)
    assert (
        await client.post(f"/api/approvals/{id}/delegate", json={"to": ""}, headers=bearer(place))
    ).status_code < 500
    handed = await client.post(f"/api/approvals/{id}/delegate", json={"to": "root"}, headers=bearer(place))
    assert handed.json()["request"]["delegations"][0]["to"] == "user:root"
    mine = await client.post(f"/api/approvals/{id}/decide", json={"verb": "approve"}, headers=bearer(place))
    assert mine.status_code == 403


async def test_configs_have_etags_and_are_named_by_nothing_but_names(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    root = bearer(place, "root")
    first = await client.get("/api/configs/active", headers=root)
    assert first.json()["active"] is True
    again = await client.get("/api/configs/active", headers=root | {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for known in (f'"other", W/{first.headers["etag"]}', "*"):  # a proxy that compresses makes it weak
        unchanged = await client.get("/api/configs/active", headers=root | {"If-None-Match": known})
        assert unchanged.status_code == 304
    changed = await client.get("/api/configs/active", headers=root | {"If-None-Match": '"other"'})
    assert changed.status_code == 200
    for name in ("..%2Fhive", "v1.json", "%2Fetc%2Fpasswd", "nothing"):
        assert (await client.get(f"/api/configs/{name}", headers=root)).status_code == 404


async def test_a_body_that_needs_nothing_may_be_left_out(place: Workspace, client: httpx.AsyncClient) -> None:
    root = bearer(place, "root")
    assert (await client.post("/api/evaluate", headers=root)).json()["config"] == "v1-naive"
    assert (await client.post("/api/query", headers=root)).status_code == 415
    described = (await client.get("/api/openapi.json", headers=root)).json()["paths"]
    required = {path: described[path]["post"]["requestBody"]["required"] for path in ("/api/evaluate", "/api/query")}
    assert required == {"/api/evaluate": False, "/api/query": True}


async def test_the_holdout_is_in_no_answer(place: Workspace, client: httpx.AsyncClient) -> None:
    root = bearer(place, "root")
    measured = (await client.post("/api/evaluate", json={}, headers=root)).json()
    assert measured["n"] > len(measured["queries"])
    assert all(one["split"] != "holdout" for one in measured["queries"])
    golden = (await client.get("/api/golden", headers=root)).json()
    assert golden["holdout"] == measured["n"] - len(measured["queries"])
    assert all(one["split"] != "holdout" for one in golden["queries"])


async def test_what_is_measured_shows_no_hit_that_the_caller_may_not_view(
    place: Workspace, client: httpx.AsyncClient
) -> None:
    found = (
        await client.post("/api/evaluate", json={"split": "train"}, headers=bearer(place, "hana", "operator"))
    ).json()
    shown = {hit["doc_id"] for one in found["queries"] for hit in one["hits"]}
    for doc_id in shown:
        assert (await client.get(f"/api/documents/{doc_id}", headers=bearer(place, "hana"))).status_code == 200


async def test_events_are_those_of_the_callers_tenant(place: Workspace, client: httpx.AsyncClient) -> None:
    for who in ("dana", "hana"):
        await client.post("/api/runs", json={"input": {"text": "hello"}}, headers=bearer(place, who))
    found = (await client.get("/api/events", headers=bearer(place, "hana", "operator"))).json()["events"]
    assert {one["tenant"] for one in found} == {"globex"}


async def test_the_queen_names_the_runs_that_she_speaks_of(place: Workspace, client: httpx.AsyncClient) -> None:
    operator = bearer(place, "dana", "reader", "operator")
    run = await asked(client, operator, "what returns a fresh token?")
    told = await client.post("/api/queen/messages", json={"text": "what is running?"}, headers=operator)
    assert told.status_code == 200, told.text
    assert told.json()["runs"] == [run["run_id"]]
    assert run["run_id"] in told.json()["answer"]


async def test_the_numbers_have_no_label_that_a_caller_could_grow(place: Workspace, client: httpx.AsyncClient) -> None:
    for n in range(5):
        await client.get(f"/api/runs/r{n}", headers=bearer(place))
        await client.get(f"/nothing/{n}")
    text = (await client.get("/metrics", headers=bearer(place, "root"))).text
    assert 'hive_http_requests_total{method="GET",route="/api/runs/{run_id}",status="404"} 5.0' in text
    assert 'route="none"' in text
    assert "/nothing" not in text
    assert "dana" not in text


async def test_what_depends_on_who_asks_is_kept_by_no_cache(place: Workspace, client: httpx.AsyncClient) -> None:
    mine = bearer(place)
    asked_for = (
        "/api/threads",
        "/api/documents/api-docs/authentication.md",
        "/api/documents/nowhere.md",
        "/api/runs/r0",
    )
    answers = [await client.get(path, headers=mine) for path in asked_for]
    answers.append(await client.post("/api/query", json={"query": "rotate an API key"}, headers=mine))
    answers.append(await client.get("/chat", headers=mine))
    async with client.stream("GET", "/api/events", headers=mine | bearer(place, "root", "operator")) as stream:
        answers.append(stream)
    assert {answer.headers.get("cache-control") for answer in answers} == {"no-store, private"}
    assert not any("etag" in answer.headers for answer in answers)


async def test_what_to_do_instead_is_said_for_who_came_by_http(place: Workspace, client: httpx.AsyncClient) -> None:
    unknown = await client.get("/api/documents/none.md", headers=bearer(place))
    assert "doc_id" in unknown.json()["diagnostics"][0]["fix"]
    stopped = await client.post("/api/runs/none/stop", headers=bearer(place))
    assert "GET /api/runs" in stopped.json()["diagnostics"][0]["fix"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs", {"graph": "event_loop", "agent": "nobody"}),
        ("/agui/nobody", {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "go"}]}),
        ("/v1/chat/completions", {"model": "agent/nobody", "messages": [{"role": "user", "content": "go"}]}),
        ("/api/triggers/nothing/fire", {}),
    ],
)
async def test_an_agent_or_trigger_that_there_is_not_is_not_found(
    place: Workspace, client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    unknown = await client.post(path, json=body, headers=bearer(place, "root"))
    assert (unknown.status_code, unknown.json()["code"]) == (404, "HIVE-107")


async def test_a_trigger_is_seen_and_fired_by_its_own_tenant(place: Workspace, client: httpx.AsyncClient) -> None:
    write_json(place, "access/services.json", {"principals": {"service:theirs": {"tenant": "acme"}}})
    for id in ("theirs", "workspaces"):
        every = {"id": id, "type": "interval", "every_seconds": 86_400, "agent": "curator", "input": {"topic": "keys"}}
        write_json(place, f"triggers/{id}.json", every)
    root, hana = bearer(place, "root"), bearer(place, "hana", "operator", "admin")
    seen = {}
    for who, headers in (("root", root), ("hana", hana)):
        listed = (await client.get("/api/triggers", headers=headers)).json()["triggers"]
        seen[who] = {one["id"] for one in listed}
    assert seen == {"root": {"theirs", "workspaces"}, "hana": {"workspaces"}}
    hidden, missing = [
        await client.post(f"/api/triggers/{id}/fire", json={}, headers=hana) for id in ("theirs", "nobodys")
    ]
    assert (hidden.status_code, hidden.text) == (404, missing.text.replace("nobodys", "theirs"))
    assert RunStore(place).list() == []
    assert (await client.post("/api/triggers/theirs/fire", json={}, headers=root)).status_code == 202
