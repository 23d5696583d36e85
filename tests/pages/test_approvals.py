"""Approvals in a browser: a call is read, edited and allowed, and its run goes on; two people never both decide."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from hive_agents.approvals import ApprovalStore, Filing
from tests.pages.browser import NARROW, chromium, needs_chromium, reached, require_accessible, signed_in, skipped
from tests.pages.filled import CERTIFICATE, MEASURED
from tests.pages.people import NOTE, noting_agent
from tests.server.serving import bearer, sample, served


async def started(client: httpx.AsyncClient, place: Workspace) -> tuple[str, str]:
    """A run that waits, and the request that it waits for."""
    root = bearer(place, "root", "operator", "reader")
    body = {"graph": "event_loop", "agent": "writer", "input": {}}
    run: str = (await client.post("/api/runs", json=body, headers=root)).json()["run_id"]
    while not (found := (await client.get(f"/api/runs/{run}", headers=root)).json())["approval_ids"]:
        assert found["run"]["status"] in ("queued", "running", "waiting"), found
        await asyncio.sleep(0.05)
    return run, found["approval_ids"][0]


def filed(place: Workspace, n: int, **changes: Any) -> list[str]:
    store = ApprovalStore(place)
    return [
        store.file(Filing(**{"kind": "question", "title": f"question {k}", "requester": "user:root"} | changes)).id
        for k in range(n)
    ]


async def test_the_queue_is_by_due_time_and_risk_and_says_what_is_asked(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    filed(place, 1, title="a small thing", risk="low")
    filed(place, 1, title="a great thing", risk="high", context={"args": {"to": "kim"}, "tool": "mail"})
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        rows = (await client.get("/api/approvals?order=due", headers=dana)).json()["items"]
        assert {len(one["content_hash"]) for one in rows} == {64}
        page = (await client.get("/approvals", headers=dana)).text
        assert page.count('data-hash="') == 2
        assert "kim" in page
        assert (await client.get("/approvals", headers=bearer(place, "guest"))).status_code == 403


async def test_only_what_can_be_decided_together_can_be_chosen(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    filed(place, 2)
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        assert (await client.get("/approvals", headers=dana)).text.count('type="checkbox"') == 2
        every = (await client.get("/approvals?status=all", headers=dana)).text
        assert "data-batch" not in every
        assert 'type="checkbox"' not in every


async def test_an_argument_that_is_short_is_on_one_line(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    long = [f"file {n}.pdf" for n in range(20)]
    filed(place, 1, kind="tool_call", context={"tool": "mail", "args": {"attach": ["a.pdf"], "more": long}})
    async with served(place, roles=("http",)) as client:
        page = (await client.get("/approvals", headers=bearer(place))).text
        assert "[&#34;a.pdf&#34;]" in page
        assert "[\n &#34;file 0.pdf&#34;," in page


async def test_an_empty_queue_says_what_comes_next(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        page = (await client.get("/approvals", headers=bearer(place))).text
        assert "Nothing waits for a person." in page
        missing = await client.get("/approvals/a000", headers=bearer(place))
        assert missing.status_code == 404
        assert "HIVE-409" in missing.text


async def test_a_decision_is_in_the_audit_log_that_the_page_shows(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1)
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        sent = await client.post(
            f"/api/approvals/{id}/decide", json={"verb": "approve", "reason": "it is fine"}, headers=dana
        )
        assert sent.status_code == 200, sent.text
        trail = (await client.get(f"/api/approvals/{id}/audit", headers=dana)).json()
        assert trail["ok"]
        assert [one["event"] for one in trail["entries"]][:2] == ["requested", "decided"]
        page = (await client.get(f"/approvals/{id}", headers=dana)).text
        assert "dana approved it" in page
        assert "it is fine" in page
        assert trail["entries"][-1]["digest"][:16] in page


async def test_an_answer_is_offered_only_to_whoever_may_give_it(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    four_eyes = {"exclude_requester": True}
    own, mine = filed(place, 1, requester="user:dana", approvers=four_eyes), filed(place, 1, requester="user:dana")
    alices = filed(place, 1, requester="agent:writer", on_behalf_of="user:alice", approvers=four_eyes)
    (both,) = filed(place, 1, approvers={"min": 2})
    async with served(place, roles=("http",)) as client:
        dana, alice = bearer(place), bearer(place, "alice", "approver")

        async def offered(id: str, who: dict[str, str]) -> list[str]:
            page = (await client.get(f"/approvals/{id}", headers=who)).text
            assert ('accesskey="a"' in page) == ("data-decide" in page)
            return re.findall('data-decide="([a-z]+)"', page)

        assert await offered(own[0], dana) == []
        assert await offered(mine[0], dana) == ["approve", "reject"]
        assert await offered(alices[0], alice) == []
        assert await offered(alices[0], dana) == await offered(own[0], alice) == ["approve", "reject"]
        page = (await client.get(f"/approvals/{own[0]}", headers=dana)).text
        assert "another person with the role approver decides it" in page
        assert "/delegate" not in page
        queue = (await client.get("/approvals", headers=dana)).text
        assert queue.count('type="checkbox"') == 3

        agreed = await client.post(f"/api/approvals/{both}/decide", json={"verb": "approve"}, headers=dana)
        assert agreed.status_code == 200, agreed.text
        assert await offered(both, dana) == ["reject"]
        assert await offered(both, alice) == ["approve", "reject"]
        assert "You agreed to this already" in (await client.get(f"/approvals/{both}", headers=dana)).text
        handed = await client.post(f"/api/approvals/{mine[0]}/delegate", json={"to": "alice"}, headers=dana)
        assert handed.status_code == 200, handed.text
        assert await offered(mine[0], dana) == []
        assert "You handed it to alice" in (await client.get(f"/approvals/{mine[0]}", headers=dana)).text


async def test_who_decides_a_deployment_sees_what_the_gate_measured_where_they_may_view_all(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (measured,) = filed(place, 1, kind="deploy", context={"config": "v2", "evaluation": MEASURED})
    (other,) = filed(place, 1, kind="deploy", context={"agent": "writer", "evaluation": {"won": 3, "lost": 1}})
    async with served(place, roles=("http",)) as client:
        hidden = (await client.get(f"/approvals/{measured}", headers=bearer(place))).text
        assert "0.561" not in hidden  # some documents are another tenant's
        assert 'data-decide="approve"' in hidden
        await client.get("/login", params={"code": login_code(place)})
        page = (await client.get(f"/approvals/{measured}")).text
        assert "The lists are better: 0.56 instead of 0.41" in page
        assert "0.412 → 0.561 (+0.149)" in page
        assert "the true gain lies between +0.061 and +0.238" in page
        assert "1.42 → 0.61" in page
        assert "Chance alone would show such a gain in at most 2 of 1000 cases" in page
        assert "p = 0.0012, α = 0.0167" in page
        hidden = (await client.get(f"/approvals/{other}", headers=bearer(place))).text
        assert "won" not in hidden  # so is an agent's evaluation
        page = (await client.get(f"/approvals/{other}")).text
        assert "What the gate says" not in page
        assert "&#34;won&#34;: 3" in page


async def test_a_deployment_is_told_as_what_changes_for_readers_and_what_the_gate_says(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    changes = [{"path": "retrieval.top_k", "a": 10, "b": 6}]
    context = {"config": "v2", "changes": changes, "diagnosis": "of no use", "certificate": CERTIFICATE}
    diff = {"json_patch": [{"op": "replace", "path": "/retrieval/top_k", "value": 6}]}
    (told,) = filed(place, 1, kind="deploy", context=context, diff=diff)
    async with served(place, roles=("http",)) as client:
        page = (await client.get(f"/approvals/{told}", headers=bearer(place))).text
    shown, _, unfolded = page.partition("The exact settings</summary>")
    assert "lists have up to 6 passages instead of 10" in shown
    assert "/<wbr>top_k" not in shown
    assert "/<wbr>top_k" in unfolded
    assert "It is proved better, and readers lose nothing that counts." in unfolded


async def test_what_is_decided_is_due_no_more(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, kind="deploy", approvers={"exclude_requester": True}, on_timeout="reject")
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        assert "then it is rejected" in (await client.get(f"/approvals/{id}", headers=dana)).text
        await client.post(f"/api/approvals/{id}/decide", json={"verb": "reject"}, headers=dana)
        for path in (f"/approvals/{id}", "/approvals?status=all"):
            page = (await client.get(path, headers=dana)).text
            assert "dana rejected it" in page
            assert "then it is rejected" not in page
            assert "Due" not in page


async def test_a_tenants_requests_are_nobody_elses(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, tenant="elsewhere", title="a secret matter")
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        assert "a secret matter" not in (await client.get("/approvals?status=all", headers=dana)).text
        unknown, theirs = [await client.get(f"/approvals/{one}", headers=dana) for one in ("a000", id)]
        assert unknown.status_code == theirs.status_code == 404
        assert theirs.text.replace(id, "a000") == unknown.text
        assert (await client.get(f"/api/approvals/{id}/audit", headers=dana)).status_code == 404


@pytest.mark.slow
@needs_chromium
async def test_a_call_is_allowed_with_an_edit_by_keyboard_and_the_run_goes_on(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    async with served(place) as client, chromium() as browser:
        run, _ = await started(client, place)
        async with signed_in(browser, str(client.base_url), place, "dana", viewport=NARROW) as page:
            await page.goto("/approvals")
            await require_accessible(page)
            await skipped(page, "#queue-list")
            await reached(page, "#queue-list h2 a")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/approvals/a*")
            await page.get_by_text(NOTE["text"]).first.wait_for()
            await require_accessible(page)
            await page.get_by_role("link", name="Your answer", exact=True).click()  # a phone shows it far below
            await expect(page.locator("#answer-title")).to_be_in_viewport()
            await skipped(page, "#answer")
            await reached(page, "[data-arg=text]")
            await page.keyboard.press("Control+A")
            await page.keyboard.type("Dear customer, coffee is served.")
            await reached(page, "form[data-decide=edit] button")
            await page.keyboard.press("Enter")
            await page.get_by_text("dana approved it with changes").wait_for()
            assert await page.get_by_text("coffee is served").first.is_visible()
            await require_accessible(page)
        root = bearer(place, "root", "operator", "reader")
        while (found := (await client.get(f"/api/runs/{run}", headers=root)).json())["run"]["status"] != "done":
            assert found["run"]["status"] in ("queued", "running", "waiting"), found
            await asyncio.sleep(0.05)
        assert found["result"]["outputs"] == {"text": "noted"}
    saved = [path.read_text() for path in place.root.rglob("note.txt")]
    assert saved == ["Dear customer, coffee is served."]


@pytest.mark.slow
@needs_chromium
async def test_what_is_no_json_is_told_beside_its_field_until_it_is_mended(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    lists = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"to": lists, "cc": lists, "text": {"type": "string"}}}
    (id,) = filed(
        place, 1, kind="tool_call", context={"tool": "mail", "args": {"to": ["kim"], "cc": [], "text": "hello"}},
        args_schema=schema, allowed_decisions=["approve", "edit", "reject"],
    )  # fmt: skip
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "dana", viewport=NARROW, expected=("409",)) as page:
            await page.goto(f"/approvals/{id}")
            edit = page.get_by_role("button", name="Approve as edited")
            faults, told = page.locator("[data-fault]"), page.locator("#told p")
            await page.get_by_label("to", exact=True).fill('["kim"')
            await page.get_by_label("cc", exact=True).fill("alice")
            await edit.click()
            assert await faults.all_inner_texts() == [
                "“to” is no JSON: put texts into quotes, and look at brackets and commas.",
                "“cc” is no JSON: put texts into quotes, and look at brackets and commas.",
            ]
            field = page.get_by_label("to", exact=True)
            assert await field.evaluate("field => field === document.activeElement && field.ariaInvalid") == "true"
            assert await told.count() == 0
            await require_accessible(page)
            await field.fill('["mo"]')
            assert await faults.count() == 1, "the one that was mended is gone"
            await page.get_by_label("cc", exact=True).fill("[]")
            assert await faults.count() == 0
            await field.fill('["kim"]')
            await edit.click()
            assert "Nothing was changed" in await told.inner_text()
            await field.fill("mo")
            await edit.click()
            assert (await faults.count(), await told.count()) == (1, 0), "one message, of the last action"
            sent = await client.post(
                f"/api/approvals/{id}/decide", json={"verb": "reject"}, headers=bearer(place, "alice", "approver")
            )
            assert sent.status_code == 200, sent.text
            await page.get_by_text("alice rejected this").wait_for()
            assert (await faults.count(), await told.count()) == (0, 0), "it can't be mended any more"
            assert await field.input_value() == "mo"
    assert ApprovalStore(place).get(id).status == "rejected"


@pytest.mark.slow
@needs_chromium
async def test_the_second_of_two_approvers_is_told_who_was_quicker_and_loses_no_word(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with (
            signed_in(browser, url, place, "dana") as first,
            signed_in(browser, url, place, "alice", "approver", expected=("409", "ERR_FAILED")) as second,
        ):
            await second.route("**/api/changes", lambda one: one.abort())  # else the page may say it first
            for page in (first, second):
                await page.goto(f"/approvals/{id}")
            await second.locator("#reject-reason").fill("I would rather not")
            await first.get_by_role("button", name="Approve", exact=True).click()
            await first.get_by_text("dana approved it").wait_for()
            await second.get_by_role("button", name="Reject").click()
            told = second.locator("#conflict")
            await told.get_by_text("dana approved this").wait_for()
            assert await second.locator("#reject-reason").input_value() == "I would rather not"
            await require_accessible(second)
    assert [one.by for one in ApprovalStore(place).get(id).decisions] == ["user:dana"]


CHOOSE_ALL = """() => {
    document.querySelectorAll("#queue input[type=checkbox]").forEach((box) => box.click());
    const heard = document.querySelectorAll("#queue li .warn").length;
    document.querySelector("[data-batch=approve]").click();
    return heard;
}"""


@pytest.mark.slow
@needs_chromium
async def test_a_batch_decides_what_was_looked_at_and_nothing_that_changed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    verbs = ["approve", "edit", "reject"]
    ids = filed(place, 3, kind="tool_call", context={"args": {"n": 1}}, args_schema=schema, allowed_decisions=verbs,
                approvers={"min": 2})  # fmt: skip
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "dana", expected=("409",)) as page:
            await page.goto("/approvals")
            changed = await client.post(
                f"/api/approvals/{ids[0]}/decide", json={"verb": "edit", "patch": {"n": 900}},
                headers=bearer(place, "alice", "approver"),
            )  # fmt: skip
            assert changed.status_code == 200, changed.text
            heard = await page.evaluate(CHOOSE_ALL)
            if not heard:  # else the page said so before anybody chose
                await page.locator("#batch-told li").wait_for()
                assert await page.locator("#batch-told li").count() == 1
            while not all(ApprovalStore(place).get(id).approvals for id in ids):
                await asyncio.sleep(0.05)
    decided = [[one.by for one in ApprovalStore(place).get(id).approvals] for id in ids]
    assert decided == [["user:alice"], ["user:dana"], ["user:dana"]]
