"""Scripts in whatever strangers can name or say: none runs on a page of the chat or of the golden set."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest
from playwright.async_api import Page

from hive_agents import Workspace
from tests.pages.browser import chromium, needs_chromium, signed_in
from tests.pages.test_scripts import PAYLOADS as MORE
from tests.server.serving import bearer, followed, sample, served

pytestmark = [pytest.mark.slow, needs_chromium]
PAYLOADS = (
    "<script>window.ran=1</script>",
    '"><script>window.ran=2</script>',
    "'><img src=x onerror='window.ran=3'>",
    "<img src=x onerror=alert(4)>",
    "<svg/onload=alert(5)>",
    "</textarea><script>window.ran=6</script>",
    "</title></head><script>alert(7)</script>",
    "<mark><img src=x onerror=alert(8)></mark>",
    "</mark><script>window.ran=9</script><mark>",
    "{{ 7*7 }}{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}",
    "javascript:alert(11)",
    '" autofocus onfocus="window.ran=12" x="',
    "' hx-on:load='window.ran=13' x='",
    '<div hx-get="/static/app.js" hx-trigger="load" hx-swap="innerHTML">14</div>',
    '<iframe srcdoc="<script>parent.ran=15</script>"></iframe>',
    '<a href="javascript:window.ran=16">open</a>',
    "\\u003cscript\\u003ewindow.ran=17\\u003c/script\\u003e",
    "<style>body{display:none}</style>",
    '<base href="//evil.example/">',
    '<meta http-equiv="refresh" content="0;url=//evil.example">',
    '<button data-api="POST /logout" data-then="//evil.example">21</button>',
    "<details open ontoggle=alert(22)>22</details>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(23)>",
    '"}\' data-ask=\'{"text":"24"}\' x=\'{"',
    "&lt;script&gt;window.ran=25&lt;/script&gt;",
    "<template><script>window.ran=26</script></template>",
    '<object data="javascript:alert(27)"></object>',
    "%3Cscript%3Ewindow.ran=28%3C/script%3E",
    "<form action=/logout><input name=csrf autofocus onfocus=alert(29)></form>",
    "\uff1cscript\uff1ewindow.ran=30\uff1c/script\uff1e",
    *MORE[:30],
)
PARTS = 3
FOREIGN = "script:not([src^='/static/']), iframe, object, base, meta[http-equiv], form[action='/logout'], [onerror], "\
    "[onload], [onfocus], [ontoggle], [data-api='POST /logout']:not(header *), main style, main svg, main math, "\
    "main img, a[href^='javascript' i]"  # fmt: skip


@asynccontextmanager
async def watched(page: Page) -> AsyncIterator[None]:
    """Whatever runs, opens a dialog, leads away or puts a stranger's element into the page fails."""
    ran: list[str] = []

    async def told(dialog: object) -> None:
        ran.append("a dialog")
        await dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", told)
    page.on("request", lambda one: ran.append(one.url) if urlsplit(one.url).hostname == "evil.example" else None)
    yield
    assert ran == []


async def require_inert(page: Page, *, hover: bool = False) -> None:
    assert await page.evaluate("window.ran") is None
    found = await page.evaluate(f"[...document.querySelectorAll({json.dumps(FOREIGN)})].map(one => one.outerHTML)")
    assert found == []
    assert "7*7" not in await page.inner_text("body") or "{{ 7*7 }}" in await page.inner_text("body")


def poisoned(folder: Path) -> Workspace:
    """The sample, and for each payload a document that has it in its name, title, heading, text and fields."""
    place = sample(folder)
    for n, payload in enumerate(PAYLOADS, start=1):
        file = place.documents / "faqs" / (f"p{n} {payload[:90]}".rstrip("/") + ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        front = {"title": f"zebra{n} {payload}", "status": "effective", "owner": payload, "tenant": "acme"}
        head = "\n".join(f"{name}: {json.dumps(value)}" for name, value in front.items())
        body = f"# zebra{n} {payload}\n\nThe zebra{n} zebra says {payload} and goes home.\n\n{payload} zebra{n}\n"
        file.write_text(f"---\n{head}\nview: [tenant]\n---\n{body}", encoding="utf-8")
    place.index()
    return place


async def answered(
    client: httpx.AsyncClient, headers: dict[str, str], value: dict[str, object], thread: str | None
) -> dict[str, str]:
    sent = await client.post(
        "/api/runs", json={"input": value} | ({"thread_id": thread} if thread else {}), headers=headers
    )
    assert sent.status_code == 202, sent.text
    run: dict[str, str] = sent.json()
    await followed(client, run["events"], headers)
    return run


@pytest.mark.parametrize("part", range(PARTS))
async def test_nothing_runs_in_documents_filters_questions_titles_and_comments(tmp_path: Path, part: int) -> None:
    place = poisoned(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        dana, shown = bearer(place), 0
        async with signed_in(browser, str(client.base_url), place) as page, watched(page):
            for n in range(part + 1, len(PAYLOADS) + 1, PARTS):
                payload = PAYLOADS[n - 1]
                run = await answered(client, dana, {"text": f"zebra{n} {payload}"}, None)
                thread, pinned = run["thread_id"], [{"field": "owner", "op": "eq", "value": payload}]
                listed = await answered(client, dana, {"text": f"list zebra{n}", "pinned": pinned}, thread)
                reply = (await client.get(f"/api/runs/{listed['run_id']}", headers=dana)).json()["result"]
                assert reply["results"], f"the document with payload {n} isn't found"
                renamed = await client.patch(f"/api/threads/{thread}", json={"title": payload}, headers=dana)
                assert renamed.status_code == 200
                said = {"run_id": listed["run_id"], "verdict": "outdated", "result": 1, "comment": payload}
                assert (await client.post("/api/feedback", json=said, headers=dana)).status_code == 201
                await page.goto(f"/chat/{thread}")
                await require_inert(page)
                await page.locator(".result h3 a").first.click()
                await page.locator("#beside .document").wait_for()
                await page.locator("#beside summary").first.click()
                await require_inert(page)
                await page.locator("[data-close]").click()
                await page.get_by_text("Why this?").first.click()
                await page.get_by_role("button", name="Edit and ask again").last.click()
                await page.get_by_text("Add a filter").click()
                await page.get_by_label("Field").select_option("owner")
                await page.locator(".result [data-only]").first.click()
                await require_inert(page)
                await page.goto(f"/chat?search={quote(payload)}")
                await require_inert(page)
                shown += 1
        assert shown == len(PAYLOADS) // PARTS
        async with signed_in(browser, str(client.base_url), place, "root") as page, watched(page):
            await page.goto("/golden/feedback")
            assert await page.locator("li.result").count() == shown
            await require_inert(page)
            for n in range(part + 1, len(PAYLOADS) + 1, PARTS):
                await page.goto(f"/golden/label?query={quote(f'zebra{n} {PAYLOADS[n - 1]}')}")
                await require_inert(page)
                await page.keyboard.press("o")
                await page.locator(".opened .text").first.wait_for()
                await require_inert(page)
                await page.locator("h1").click()
                await page.keyboard.press("r")
                await page.locator("details:has(#tags) > summary").click()
                await page.locator("#tags").fill(PAYLOADS[n - 1].replace(",", " "))
                await page.locator("#save").click()
                await page.wait_for_url("**/golden*")
                await require_inert(page)
            await page.goto("/golden")
            await require_inert(page)


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) >= 60
