"""The inbox in a browser: a list in groups beside the open request, batches, keys, and two people at once."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, Route

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.server.auth import csrf_of
from tests.pages.browser import chromium, needs_chromium, require_accessible, signed_in
from tests.pages.test_approvals import filed
from tests.pages.test_assets import BUDGET, painted
from tests.pages.test_settings import HIDDEN
from tests.server.serving import bearer, sample, served, token

SCHEMA = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}, "text": {"type": "string"}}}
PHONE, DESK = {"width": 390, "height": 850}, {"width": 1440, "height": 900}


def mails(place: Workspace, n: int, **changes: Any) -> list[str]:
    """Requests of one agent to send mails, each to somebody else, in the order in which the inbox has them."""
    for k in range(n):
        args = {"to": f"kim{k}@example.org", "text": f"Dear Kim,\n\nyour pipette {k} is ready."}
        filed(place, 1, **{
            "kind": "tool_call", "title": "support wants to call send_mail", "requester": "agent:support",
            "context": {"tool": "send_mail", "args": args}, "args_schema": SCHEMA,
            "allowed_decisions": ["approve", "edit", "reject"],
        } | changes)  # fmt: skip
    return [one.id for one in reversed(ApprovalStore(place).list("pending"))]


async def queue(client: httpx.AsyncClient, place: Workspace, *who: str) -> str:
    return (await client.get("/approvals", headers=bearer(place, *who))).text


async def test_requests_of_one_kind_are_a_group_that_is_named_by_what_it_is(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    ids = mails(place, 12)
    filed(place, 2, kind="tool_call", title="two are no group", context={"tool": "publish", "args": {"page": "x"}})
    async with served(place, roles=("http",)) as client:
        page = await queue(client, place)
        assert page.count("data-group") == 1
        assert "<span data-count>12</span> × <bdi>send_mail</bdi> by agent <bdi>support</bdi>" in page
        assert f'<a data-open href="/approvals/{ids[3]}"><bdi>kim3@example.org</bdi></a>' in page
        assert page.count("data-choose") == 14
        assert page.count("data-all") == 1
        every = (await client.get("/approvals?status=all", headers=bearer(place))).text
        assert "data-group" not in every


ALONE: dict[str, tuple[dict[str, Any], str]] = {
    "outcome unknown": ({"title": "call it again?", "context": {"tool": "send_mail", "args": {}, "question": "it died"},
                         "allowed_decisions": ["respond", "approve", "reject"]}, "it may have happened already"),
    "four eyes": ({"kind": "tool_call", "requester": "user:dana", "approvers": {"exclude_requester": True}},
                  "another person with the role approver decides it"),
    "words": ({"allowed_decisions": ["respond", "reject"]}, "Open it to decide: it wants an answer in words"),
    "more": ({"signals": [{"source": "llm", "action": "retry"}]}, "more belongs to it"),
    "long": ({"kind": "tool_call", "context": {"tool": "mail", "args": {"text": "long " * 500}}}, "too long to be"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
async def test_what_no_batch_may_hold_can_not_be_chosen_and_says_why(tmp_path: Path, kind: str) -> None:
    place = sample(tmp_path / "ws")
    changes, why = ALONE[kind]
    (id,) = filed(place, 1, **changes)
    async with served(place, roles=("http",)) as client:
        page = await queue(client, place)
        assert why in page
        assert "data-choose" not in page
        filed(place, 1)
        assert (await queue(client, place)).count("data-choose") == 1, "another one can be"
        assert why not in (await queue(client, place, "root", "operator")), "who decides nothing chooses nothing"
        assert id in (await queue(client, place, "root", "operator"))


async def test_a_hundred_long_requests_come_in_pages_of_less_than_150_kb(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    text = "Dear Kim & Lee, " * 120
    mails(place, 50, context={"tool": "send_mail", "args": {f"part {k}": text[: 90 * k] for k in range(40)}})
    mails(place, 50, context={"tool": "send_mail", "args": {"to": "kim", "text": text[:1900]}})
    seen: set[str] = set()
    async with served(place, roles=("http",)) as client:
        address = "/approvals"
        while address:
            headers = bearer(place) | {"Accept-Encoding": "gzip"}
            page = (await client.get(address, headers=headers)).text
            assert await painted(client, address, headers) < BUDGET, address
            rows = page.split('data-request="')[1:]
            assert not seen.intersection(row[:11] for row in rows)
            seen |= {row[:11] for row in rows}
            more = page.partition("cursor=")[2].partition('"')[0]
            address = more and f"/approvals?status=pending&cursor={more}"
    assert len(seen) == 100


async def test_the_next_request_is_one_that_the_person_may_decide(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    four_eyes = {"exclude_requester": True}
    first = filed(place, 1)[0]
    theirs = filed(place, 1, tenant="elsewhere")[0]
    own = filed(place, 1, requester="user:dana", approvers=four_eyes)[0]
    last = filed(place, 1)[0]
    async with served(place, roles=("http",)) as client:

        async def after(id: str, *who: str) -> str:
            page = (await client.get(f"/approvals/{id}", headers=bearer(place, *who))).text
            return page.partition('rel="next" href="/approvals/')[2].partition('"')[0]

        assert await after(first) == await after(own) == last
        assert await after(last) == ""
        assert await after(first, "alice", "approver") == own
        assert theirs not in [await after(one, "root", "operator") for one in (first, own, last)]


async def settled(page: Page, before: str | None) -> str:
    """Wait until another request than `before` is open, and return its id."""
    shown = page.locator(f'#request:not([data-request="{before}"])[data-status=pending]')
    await shown.wait_for()
    return str(await shown.get_attribute("data-request"))


async def into_the_group(page: Page) -> None:
    """To the first request of the group, by keys alone."""
    await page.goto("/approvals")
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.matches('.group summary')")
    if not await page.locator(".group details[open]").count():
        await page.keyboard.press("Enter")
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.matches('.group [data-open]')")


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
async def test_twelve_requests_are_decided_by_two_people_with_keys_and_mouse_and_none_twice(
    tmp_path: Path, viewport: dict[str, Any]
) -> None:
    place = sample(tmp_path / "ws")
    ids = mails(place, 12)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        how: dict[str, Any] = {"viewport": viewport}
        async with (
            signed_in(browser, url, place, "dana", **how) as dana,
            signed_in(browser, url, place, "alice", "approver", expected=("409", "ERR_FAILED"), **how) as alice,
        ):
            await into_the_group(dana)
            await dana.keyboard.press("Enter")
            shown = await settled(dana, None)
            assert shown == ids[0]
            for keys in (["a"], ["a"], ["r"]):  # three by two keys each, and on to the next
                for key in (*keys, "Enter"):
                    await dana.keyboard.press(key)
                shown = await settled(dana, shown)
            assert shown == ids[3]
            await require_accessible(dana)
            await dana.keyboard.press("e")
            await dana.keyboard.press("Control+A")
            await dana.keyboard.type("lee@example.org")
            await dana.locator("form[data-decide=edit] [type=submit]").press("Enter")
            shown = await settled(dana, shown)
            await dana.get_by_role("button", name="Approve", exact=True).click()
            assert await settled(dana, shown) == ids[5]

            await into_the_group(dana)
            await dana.evaluate("window.stays = true")
            boxes = dana.locator(".group [data-choose]")
            await boxes.nth(0).click()
            await boxes.nth(2).click(modifiers=["Shift"])
            assert await dana.locator("#chosen").inner_text() == "3 chosen"
            await require_accessible(dana)
            await dana.locator("#batch-reason").fill("as agreed")
            await dana.get_by_role("button", name="Approve them").click()
            await dana.get_by_text("3 decided.").wait_for()
            assert await dana.locator("#conflict:not(:empty)").count() == 0, "nobody was faster"
            assert [ApprovalStore(place).get(id).status for id in ids[5:8]] == ["approved"] * 3

            await dana.locator(".group [data-open]").first.focus()
            for key in ("Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowUp"):
                await dana.keyboard.press(key)
            assert await dana.locator("#chosen").inner_text() == "2 chosen"
            for key in ("r", "Enter"):
                await dana.keyboard.press(key)
            await dana.get_by_text("2 decided.").wait_for()
            assert [ApprovalStore(place).get(id).status for id in ids[8:10]] == ["rejected"] * 2
            assert await dana.evaluate("window.stays"), "the page was never loaded again"

            await alice.goto(f"/approvals/{ids[10]}")
            await alice.get_by_role("button", name="Reject").click()
            row = dana.locator(f'#queue [data-request="{ids[10]}"]')
            await row.get_by_text("alice rejected this").wait_for()
            assert await row.locator("[data-choose]").is_disabled()
            assert await dana.evaluate("window.stays")
            assert await settled(alice, ids[10]) == ids[11]

            await alice.route("**/api/changes", lambda one: one.abort())  # her page doesn't hear of it
            await alice.goto(f"/approvals/{ids[11]}")
            await alice.locator("#reject-reason").fill("I would rather not")
            await dana.goto(f"/approvals/{ids[11]}")
            await dana.keyboard.press("a")
            await dana.keyboard.press("Enter")
            await dana.get_by_text("dana approved it").wait_for()
            await alice.get_by_role("button", name="Reject").click()
            await alice.get_by_text("dana approved this").wait_for()
            assert await alice.locator("#reject-reason").input_value() == "I would rather not"
            assert await alice.get_by_role("button", name="Reject").is_disabled()
    decided = {one.id: one for one in ApprovalStore(place).list()}
    assert [len(decided[id].decisions) for id in ids] == [1] * 12
    by = [(decided[id].status, decided[id].decisions[0].by.removeprefix("user:")) for id in ids]
    assert by == [
        *[("approved", "dana")] * 2, ("rejected", "dana"), ("edited", "dana"), *[("approved", "dana")] * 4,
        *[("rejected", "dana")] * 2, ("rejected", "alice"), ("approved", "dana"),
    ]  # fmt: skip
    assert decided[ids[3]].context["args"]["to"] == "lee@example.org"
    assert {one.reason for id in ids[5:8] for one in decided[id].decisions} == {"as agreed"}


@pytest.mark.slow
@needs_chromium
async def test_a_request_beside_the_list_says_at_once_who_decided_it(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    first, second = filed(place, 2)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, viewport=DESK) as page:
            await page.goto("/approvals")
            assert await settled(page, None) == first
            await page.locator("#reject-reason").fill("a draft")
            alice = bearer(place, "alice", "approver")
            sent = await client.post(f"/api/approvals/{first}/decide", json={"verb": "approve"}, headers=alice)
            assert sent.status_code == 200, sent.text
            await page.locator("#request").get_by_text("alice approved this").wait_for()
            assert await page.get_by_role("button", name="Approve", exact=True).is_disabled()
            assert await page.locator("#reject-reason").input_value() == "a draft"
            await page.get_by_role("link", name="question 0").focus()
            await page.keyboard.press("ArrowDown")
            assert await settled(page, first) == second
            await page.reload()
            assert await settled(page, None) == second, "the address keeps the place"


@pytest.mark.slow
@needs_chromium
async def test_ones_own_batch_is_never_told_as_somebody_elses_decision(tmp_path: Path) -> None:
    """What the stream says of it comes before the answer does."""
    place = sample(tmp_path / "ws")
    filed(place, 2)
    changed = "document.dispatchEvent(new CustomEvent('hive:changed', { detail: [{ kind: 'all', id: null }] }))"
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, viewport=DESK) as page:

            async def late(route: Route) -> None:
                answer = await route.fetch()
                await page.evaluate(changed)
                await page.evaluate("hive.api('GET', '/api/session')")
                await route.fulfill(response=answer)

            await page.goto("/approvals")
            first = await settled(page, None)
            await page.route("**/decide", late)
            await page.locator("[data-choose]").first.check()
            await page.get_by_role("button", name="Approve them").click()
            await page.get_by_text("1 decided.").wait_for()
            await settled(page, first)
            assert await page.locator("#conflict:not(:empty)").count() == 0


async def answered(client: httpx.AsyncClient, path: str, verb: str, **fields: str) -> httpx.Response:
    """The form of an answer on a request's page, sent as a browser without scripts sends it."""
    page, address = (await client.get(path)).text, path.partition("?")[0]
    form = page.partition(f'data-decide="{verb}" method="post" action="{address}"')[2].partition("</form>")[0]
    hidden = dict(HIDDEN.findall(form))
    assert hidden["verb"] == verb
    shown = re.findall(r'name="(arg\.\w+)"[^>]*>\n([^<]*)<', form)
    given = {name: html.unescape(value).replace("\n", "\r\n") for name, value in shown}
    return await client.post(address, data=hidden | given | fields)


async def test_requests_are_decided_one_by_one_without_scripts(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    ids = mails(place, 3)
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place)})
        following = await answered(client, f"/approvals/{ids[0]}", "approve", reason="as agreed")
        assert following.headers["location"] == f"/approvals/{ids[1]}?done=next"
        assert "This is the next one." in (await client.get(following.headers["location"])).text
        following = await answered(client, f"/approvals/{ids[1]}?done=next", "edit", **{"arg.to": "lee@example.org"})
        assert following.headers["location"] == f"/approvals/{ids[2]}?done=next"
        last = await answered(client, f"/approvals/{ids[2]}", "reject")
        assert last.headers["location"] == "/approvals?done=last"
        page = (await client.get("/approvals?done=last")).text
        assert "Nothing else waits for you." in page
        assert 'href="/approvals?status=all">See what was decided' in page
    decided = {one.id: one for one in ApprovalStore(place).list()}
    assert [decided[id].status for id in ids] == ["approved", "edited", "rejected"]
    assert decided[ids[0]].decisions[0].reason == "as agreed"
    assert decided[ids[1]].context["args"] == {
        "to": "lee@example.org", "text": "Dear Kim,\n\nyour pipette 1 is ready."
    }  # fmt: skip


async def test_a_form_decides_only_what_it_showed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = mails(place, 1)
    async with served(place, roles=("http",)) as client:
        await client.post("/login", json={"token": token(place)})
        own = {"csrf": csrf_of(client.cookies["hive_session"]), "verb": "approve"}
        assert (await client.post(f"/approvals/{id}", data=own | {"content_hash": "0" * 64})).status_code == 409
        assert (await client.post(f"/approvals/{id}", data={"verb": "approve"})).status_code == 403
        assert (await client.post(f"/approvals/{id}", data=own | {"verb": "edit"})).status_code == 400
        assert ApprovalStore(place).get(id).status == "pending"
