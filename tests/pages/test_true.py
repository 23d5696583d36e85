"""What a page shows is true at the moment one acts: streams, broken ones, two people at once, and a token that ends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, Route

from hive_agents import Workspace
from hive_agents.access import issued_tokens, known_principal, revoke
from hive_agents.approvals import ApprovalStore
from hive_agents.events import Event, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.server import feed, streams
from tests.pages.browser import chromium, needs_chromium, require_accessible, signed_in
from tests.pages.people import noting_agent
from tests.pages.test_approvals import filed, started
from tests.pages.test_optimize import OPERATES
from tests.ports import lasting_port
from tests.server.serving import SETTINGS, bearer, sample, served, token

pytestmark = [pytest.mark.slow, needs_chromium]
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "n": {"type": "integer"}}}
CALL = {"kind": "tool_call", "title": "a call", "context": {"tool": "mail", "args": {"to": "kim", "n": 1}},
        "args_schema": SCHEMA, "allowed_decisions": ["approve", "edit", "reject"]}  # fmt: skip


def another_config(place: Workspace) -> None:
    config = json.loads((place.configs / "v1.json").read_text()) | {"name": "v9"}
    config["retrieval"] = config["retrieval"] | {"top_k": 3}
    (place.configs / "v9.json").write_text(json.dumps(config))


def revoked(place: Workspace) -> None:
    """Revoke every token, with one of which the page's session began."""
    for made in issued_tokens(place):
        revoke(place, made["jti"])


async def sign_in_again(page: Page, proof: str) -> None:
    dialog = page.get_by_role("dialog", name="You are signed out")
    await dialog.wait_for()
    await dialog.get_by_label("Token").fill(proof)
    await page.keyboard.press("Enter")
    await dialog.wait_for(state="hidden")


async def until_broken(page: Page) -> None:
    await page.get_by_text("The server is away").wait_for()


@asynccontextmanager
async def unlucky(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Each event cuts every stream off: whoever comes back has missed it."""
    with monkeypatch.context() as patch:
        patch.setattr(feed, "MOST_QUEUED", 0)
        yield


async def test_what_a_colleague_decided_is_told_in_the_queue_and_what_is_new_comes_when_asked_for(
    tmp_path: Path,
) -> None:
    place = sample(tmp_path / "ws")
    first, second = filed(place, 2)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.goto("/approvals")
            boxes = page.locator("#queue input[type=checkbox]")
            for box in await boxes.all():
                await box.check()
            await page.locator("#batch-reason").fill("as we said")
            sent = await client.post(
                f"/api/approvals/{first}/decide", json={"verb": "reject"}, headers=bearer(place, "alice", "approver")
            )
            assert sent.status_code == 200, sent.text
            row = page.locator(f'#queue [data-request="{first}"]')
            await row.get_by_text("alice rejected this").wait_for()
            assert await row.locator("input").is_disabled()
            assert await page.locator("#chosen").inner_text() == "1 chosen"
            third = filed(place, 1, title="a new one", risk="high")[0]
            await page.get_by_role("button", name="Show what is new: 1").click()
            await page.locator(f'#queue [data-request="{third}"]').wait_for()
            other = page.locator(f'#queue [data-request="{second}"] input')
            assert await other.is_checked(), "what was chosen stays so"
            assert await page.locator("#batch-reason").input_value() == "as we said"
            await require_accessible(page)
            await page.get_by_role("button", name="Approve them").click()
            await page.get_by_text("1 decided.").wait_for()
        statuses = {id: ApprovalStore(place).get(id).status for id in (first, second, third)}
        assert statuses == {first: "rejected", second: "approved", third: "pending"}


async def test_what_a_colleague_decided_is_told_once_though_the_server_is_slow(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1)
    looks: list[Route] = []
    changed = "document.dispatchEvent(new CustomEvent('hive:changed', { detail: [{ kind: 'all', id: null }] }))"
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.route(f"**/api/approvals/{id}", lambda one: looks.append(one))
            await page.goto("/approvals")
            by = bearer(place, "alice", "approver")
            sent = await client.post(f"/api/approvals/{id}/decide", json={"verb": "reject"}, headers=by)
            assert sent.status_code == 200, sent.text
            while len(looks) < 4:  # two looks at once, of the list and of the request beside it
                await page.evaluate(changed)
                await page.wait_for_timeout(50)
            for one in list(looks):
                async with page.expect_response(one.request.url):
                    await one.continue_()
            told = page.locator("#queue").get_by_text("alice rejected this")
            await told.first.wait_for()
            await page.evaluate("hive.api('GET', '/api/session')")
            assert await told.count() == 1
            await page.unroute_all(behavior="ignoreErrors")


async def test_arguments_that_a_colleague_changed_meanwhile_are_shown_beside_what_was_typed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, **CALL, approvers={"min": 2})
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, expected=("409",)) as page:
            await page.goto(f"/approvals/{id}")
            await page.get_by_label("to", exact=True).fill("lee")
            await page.reload()
            assert await page.get_by_label("to", exact=True).input_value() == "lee", "it survives a reload"
            edited = await client.post(
                f"/api/approvals/{id}/decide", json={"verb": "edit", "patch": {"to": "mo"}},
                headers=bearer(place, "alice", "approver"),
            )  # fmt: skip
            assert edited.status_code == 200, edited.text
            await page.get_by_role("button", name="Approve as edited").click()
            await page.get_by_text("This was changed since you read it.").wait_for()
            assert await page.get_by_label("to", exact=True).input_value() == "lee"
            await page.get_by_role("button", name="Show how it stands now").click()
            await page.get_by_text("Before it was changed you had typed: lee").wait_for()
            assert await page.get_by_label("to", exact=True).input_value() == "mo"
            await require_accessible(page)
            await page.get_by_role("button", name="Use it").click()
            await page.get_by_role("button", name="Approve as edited").click()
            await page.locator("li", has_text="dana approved it with changes").wait_for()
        assert ApprovalStore(place).get(id).context["args"] == {"to": "lee", "n": 1}


NO_LOOKING = "window.setInterval = () => 0"
"""No page looks by itself every half minute: what it tells was pushed."""


async def test_whoever_edits_is_told_at_once_that_a_colleague_has_decided_and_loses_no_word(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, **CALL)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with (
            signed_in(browser, url, place, "dana") as first,
            signed_in(browser, url, place, "alice", "approver", expected=("409",)) as second,
        ):
            await second.context.add_init_script(NO_LOOKING)
            for page in (first, second):
                await page.goto(f"/approvals/{id}")
            await second.wait_for_function("window.setInterval() === 0")
            await second.get_by_label("to", exact=True).fill("lee")
            await second.locator("#edit-reason").fill("kim is away")
            await first.get_by_role("button", name="Approve", exact=True).click()
            await first.locator("li", has_text="dana approved it").wait_for()
            await second.locator("#conflict").get_by_text("dana approved this").wait_for()  # nothing was sent
            assert await second.get_by_label("to", exact=True).input_value() == "lee"
            assert await second.locator("#edit-reason").input_value() == "kim is away"
            assert await second.get_by_role("button", name="Approve as edited").is_disabled()
            await second.locator("#conflict").get_by_text("No answer of yours was counted").wait_for()
            await require_accessible(second)
    assert [(one.by, one.verb) for one in ApprovalStore(place).get(id).decisions] == [("user:dana", "approve")]


async def test_what_another_process_decided_is_told_to_whoever_edits(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, **CALL)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.context.add_init_script(NO_LOOKING)
            await page.goto(f"/approvals/{id}")
            await page.get_by_label("to", exact=True).fill("lee")
            elsewhere = [
                sys.executable,
                "-m",
                "hive_agents",
                "approvals",
                "reject",
                id,
                "--reason",
                "no",
                "-w",
                place.root,
            ]
            decided = await asyncio.create_subprocess_exec(*map(str, elsewhere))
            assert await decided.wait() == 0
            await page.locator("#conflict").get_by_text("rejected this").wait_for()
            assert await page.get_by_label("to", exact=True).input_value() == "lee"


async def test_a_decided_request_shows_how_its_run_goes_on(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    async with served(place) as client, chromium() as browser:
        run, request = await started(client, place)
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES) as page:
            await page.goto(f"/approvals/{request}")
            await page.get_by_role("button", name="Approve", exact=True).click()
            await page.locator("li", has_text="root approved it").wait_for()
            await page.locator(f'dd:has(a[href="/colony/runs/{run}"]) .badge.good').wait_for()


@pytest.mark.parametrize("luck", ["well", "cut off at every event"])
async def test_a_run_and_the_colony_are_followed_though_streams_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, luck: str
) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(served(place))
        browser = await stack.enter_async_context(chromium())
        run, request = await started(client, place)
        url = str(client.base_url)
        if luck != "well":
            await stack.enter_async_context(unlucky(monkeypatch))
        page = await stack.enter_async_context(signed_in(browser, url, place, "root", *OPERATES))
        colony = await page.context.new_page()
        await page.goto(f"/colony/runs/{run}")
        await colony.goto("/colony")
        await page.get_by_text("a person was asked").first.wait_for()
        await page.get_by_label("Tell the agent").fill("half a sentence")
        sent = await client.post(f"/api/approvals/{request}/decide", json={"verb": "approve"}, headers=bearer(place))
        assert sent.status_code == 200, sent.text
        await page.locator("#live .badge.good").wait_for()
        await page.get_by_text("run done").wait_for()
        assert await page.get_by_role("button", name="Stop").count() == 0
        assert await page.get_by_label("Tell the agent").input_value() == "half a sentence"
        await colony.bring_to_front()
        await colony.locator(f"#runs tr:has(a[href$='{run}'])").locator(".badge.good").wait_for()
        again, _ = await started(client, place)
        await colony.locator(f"#runs tr:has(a[href$='{again}'])").locator(".badge.warn").wait_for()


async def test_pages_go_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS.replace("port = 0", f"port = {lasting_port()}"))
    (id,) = filed(place, 1)
    owner = known_principal(place, "root")
    run = RunStore(place).insert("optimizer", {}, owner=owner, agent=None, status="waiting")[0]
    EventLog(place).append([Event(EventType.RUN_STARTED, run.run_id, run.thread_id, tenant=owner.tenant)])
    async with AsyncExitStack() as first, chromium() as browser:
        client = await first.enter_async_context(served(place, roles=("http",)))
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root", *OPERATES, expected=("ERR_", "503")) as page:
            pages = {"/approvals": page}
            for path in (f"/approvals/{id}", "/optimize", f"/optimize/{run.run_id}", "/colony",
                         f"/colony/runs/{run.run_id}"):  # fmt: skip
                pages[path] = await page.context.new_page()
            for path, one in pages.items():
                await one.goto(path)
            await pages[f"/approvals/{id}"].locator("#reject-reason").fill("a draft")
            await first.aclose()
            for one in pages.values():
                await until_broken(one)
            async with served(place, roles=("http",)) as again:
                for one in pages.values():
                    await one.locator("#broken").wait_for(state="hidden")
                dana = bearer(place)
                sent = await again.post(f"/api/approvals/{id}/decide", json={"verb": "approve"}, headers=dana)
                assert sent.status_code == 200, sent.text
                root = bearer(place, "root", *OPERATES)
                sent = await again.post(f"/api/runs/{run.run_id}/pause", headers=root)
                assert sent.status_code == 200, sent.text
                for path, one in pages.items():
                    told = "dana approved this" if path.startswith("/approvals") else "paused"
                    await one.get_by_text(told).last.wait_for(state="attached")
                kept = pages[f"/approvals/{id}"].locator("#reject-reason")
                assert await kept.input_value() == "a draft"


WRITTEN = {
    "/chat": ("#ask textarea", "a question"),
    "/golden/label": ("#query", "a query"),
    "/optimize/configs/v9": ("#deploy-reason", "a reason"),
    "/optimize": ("#budget-seed", "7"),
    "/approvals": ("#batch-reason", "a reason"),
    "/approvals/ID": ("[data-arg=to]", "lee"),
    "/colony": ("#queen-text", "what runs?"),
    "/colony/runs/RUN": ("#say", "be brief"),
}


@pytest.mark.parametrize("path", WRITTEN)
async def test_a_revoked_token_is_told_on_the_open_page_and_nothing_that_was_typed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.1)
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1, **CALL)
    another_config(place)
    owner = known_principal(place, "root")
    run = RunStore(place).insert("event_loop", {}, owner=owner, agent="writer", status="waiting")[0].run_id
    field, words = WRITTEN[path]
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES, expected=("401",)) as page:
            await page.goto(path.replace("ID", id).replace("RUN", run))
            await page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
            for box in await page.locator("[data-choose]").all():
                await box.check()  # what may be typed for a batch is there where something is chosen
            await page.locator(field).fill(words)
            revoked(place)
            dialog = page.get_by_role("dialog", name="You are signed out")
            await dialog.wait_for()  # by itself, before anything is sent
            await require_accessible(page)
            await dialog.get_by_label("Token").fill("no token")
            await page.keyboard.press("Enter")
            await dialog.get_by_role("alert").filter(has_text="token").wait_for()
            await sign_in_again(page, token(place, "root", *OPERATES))
            assert await page.locator(field).input_value() == words
            session = await page.evaluate("hive.api('POST', '/api/query', { query: 'token' })")
            assert session["query"] == "token", "what it sends is taken again"


async def test_who_signs_in_as_another_person_sees_their_own_page_and_no_draft_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.1)
    place = sample(tmp_path / "ws")
    (id,) = filed(place, 1)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, expected=("401",)) as page:
            await page.goto(f"/approvals/{id}")
            await page.locator("#reject-reason").fill("dana's own thought")
            revoked(place)
            dialog = page.get_by_role("dialog", name="You are signed out")
            await dialog.get_by_label("Token").fill(token(place, "alice", "approver"))
            await page.keyboard.press("Enter")
            await page.locator("details.account > summary", has_text="alice").wait_for()
            assert await page.locator("#reject-reason").input_value() == ""
        assert ApprovalStore(place).get(id).status == "pending"


async def test_a_deployment_over_what_somebody_else_deployed_is_refused_in_words(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    another_config(place)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        root = bearer(place, "root", *OPERATES)
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES, expected=("409",)) as page:
            await page.goto("/optimize/configs/v9")
            other = await page.context.new_page()
            await other.goto("/optimize")
            await page.get_by_label("Reason").fill("it is shorter")
            sent = await client.post(
                "/api/deploy", json={"config": "v1-naive", "allow_inconclusive": True, "reason": "as it was"},
                headers=bearer(place, "alice", "operator"),
            )  # fmt: skip
            assert sent.status_code == 200, sent.text
            await page.get_by_role("button", name="Deploy", exact=True).click()
            await page.get_by_text("alice made v1-naive serve since v9 was looked at").wait_for()
            assert await page.get_by_label("Reason").input_value() == "it is shorter"
            await other.bring_to_front()
            await (
                other.locator("#history").get_by_text("as it was").filter(visible=True).wait_for()
            )  # and who looks hears of it
            assert await other.locator("#history [name=of]").input_value() != ""
        assert (await client.get("/api/configs", headers=root)).json()["active"] == "v1-naive"
