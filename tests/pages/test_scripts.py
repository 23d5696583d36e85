"""Nothing that strangers write runs in a browser: titles, arguments, outputs, configs, tags, queries, tickets."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Page

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import EscalationTicket, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.store import connected, transaction
from tests.pages.browser import chromium, needs_chromium, signed_in, window
from tests.pages.people import noting_agent
from tests.pages.test_approvals import started
from tests.pages.test_optimize import searched
from tests.server.serving import bearer, sample, served

RUN = "window.ran=1;alert(1)"
PAYLOADS = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<ScRiPt>{RUN}</sCrIpT>",
    f"<script/x>{RUN}</script>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    '<script src="data:text/javascript,window.ran=1"></script>',
    f'<img src=x onerror="{RUN}">',
    f"<img src=x onerror={RUN}>",
    f"<img/src=x/onerror={RUN}//",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror='{RUN}'>",
    f"</textarea><img src=x onerror={RUN}>",
    f"</title><img src=x onerror={RUN}>",
    f"</pre></code></td></table><img src=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<math><mtext><img src=x onerror={RUN}></mtext></math>",
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}></video>",
    f"<audio src=x onerror={RUN}>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    f'<a href="javascript:{RUN}">x</a>',
    f"javascript:{RUN}",
    f'<form action="javascript:{RUN}"><button>x</button></form>',
    f'<object data="javascript:{RUN}"></object>',
    f'<embed src="javascript:{RUN}">',
    f'<base href="javascript:{RUN}//">',
    f'<meta http-equiv="refresh" content="0;url=javascript:{RUN}">',
    f"<style>@import 'javascript:{RUN}'</style>",
    f'" autofocus onfocus="{RUN}" x="',
    f"' autofocus onfocus='{RUN}' x='",
    f'" onmouseover="{RUN}" style="position:fixed;inset:0" x="',
    f"<div hx-get=/x hx-on:load='{RUN}' hx-trigger=load>",
    f"<div hx-on::load=\"{RUN}\" data-hx-on:load='{RUN}'>",
    '<div hx-get="/login" hx-trigger="load" hx-vals=\'js:{x: window.ran=1}\'>',
    '<button data-api="POST /logout" data-then="javascript:window.ran=1">x</button>',
    f"{{{{ config.__class__ }}}}{{% for x in [1] %}}{{% endfor %}}<img src=x onerror={RUN}>",
    f"${{{RUN}}}`-{RUN}-`",
    f"\\u003cscript\\u003e{RUN}\\u003c/script\\u003e",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"<!--><script>{RUN}</script-->",
    f"]]><script>{RUN}</script>",
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>">',
    f"<template shadowrootmode=open><img src=x onerror={RUN}></template>",
    f"x\u2028<script>{RUN}</script>\u202ex",
    f"<marquee onstart={RUN}>",
    f"<select autofocus onfocus={RUN}><option>x</select>",
    f"<svg><use href=\"data:image/svg+xml,<svg id='x' onload='{RUN}'/>#x\"/></svg>",
    f"<link rel=stylesheet href=x onerror={RUN}>",
    f"<dialog open oncancel={RUN}>x</dialog><p popover id=told onbeforetoggle={RUN}>",
    f"<xmp></xmp><img src=x onerror={RUN}>",
    f'<img src="x` `<script>{RUN}</script>"` `>',
    '<article data-live="run" id="live" hx-get="/logout" hx-trigger="load">x</article>',
    f'<body data-csrf="x" data-me="x/y"><img src=x onerror={RUN}>',
    f"a\x0b<\x0cscript>{RUN}</script\x0c>",
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
]


def approvals(place: Workspace) -> list[str]:
    store = ApprovalStore(place)
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"description": "x", "enum": PAYLOADS}}}
    ids = []
    for n, text in enumerate(PAYLOADS):
        context = {
            "args": {"a": text, "b": text, text: [text, {text: text}]}, "tool": text, "question": text,
            "options": [text], "reasoning": text, "result": {text: text}, "note": text, text: text,
            "certificate": {"decision": text, "reasons": [{"code": text, "message": text}]},
        }  # fmt: skip
        filing = Filing.model_validate({
            "kind": "tool_call", "title": text, "requester": "user:root", "context": context, "args_schema": schema,
            "signals": [{"source": text, "action": text, "confidence": text, "detail": text}],
            "allowed_decisions": ["approve", "edit", "reject", "respond"], "idempotency_key": str(n),
            "diff": {"json_patch": [{"op": text, "path": text, "value": text}]},
        })  # fmt: skip
        ids.append(store.file(filing).id)
    store.decide(ids[0], "respond", by="dana", message=PAYLOADS[6], reason=PAYLOADS[7])
    everything = json.dumps(PAYLOADS)
    asked = Filing(kind="question", title=everything, requester="user:root", context={"question": everything})
    ids.append(store.file(asked).id)
    return ["/approvals", "/approvals?status=all", *(f"/approvals/{id}" for id in ids)]


def optimize(place: Workspace) -> list[str]:
    everything = " ".join(PAYLOADS)
    config = json.loads((place.configs / "v1.json").read_text()) | {"name": "v9", "description": everything}
    config["retrieval"] = config["retrieval"] | {"top_k": 3}
    (place.configs / "v9.json").write_text(json.dumps(config))
    (place.configs / "v8.json").write_text(json.dumps({"name": everything}))
    golden = json.loads((place.root / "evals" / "golden.json").read_text())
    queries = golden["queries"] if isinstance(golden, dict) else golden
    for query, text in zip([one for one in queries if one.get("split") != "holdout"], PAYLOADS, strict=False):
        query |= {"query": text, "tags": [text]}
    (place.root / "evals" / "golden.json").write_text(json.dumps(golden))
    row = {"n": 1, "config": None, "changes": [], "cause": "x", "train": 0.3, "validation": None, "distractors": 0.1}
    said = ("step", "reason", "feedback", "proposer")
    rows = [row | dict.fromkeys(said, text) | {"verdict": "retry"} for text in PAYLOADS]
    changes = [{"path": text, "a": text, "b": [text]} for text in PAYLOADS]
    figures: dict[str, Any] = {"train": 0.3, "validation": None, "distractors": 0.5}
    certificate = {
        "decision": everything, "n": 3, "before": 0.1, "after": 0.2, "difference": 0.1, "ci95": None, "p_value": None,
        "distractors_before": 1, "distractors_after": 1, "reasons": [{"code": everything, "message": everything}],
        "watch": [{"tag": text, "before": 0.1, "after": 0.2, "n": 3} for text in PAYLOADS],
    }  # fmt: skip
    run = searched(
        place, 0, iterations=rows, first_diagnosis=everything, best=figures | {"config": "v9", "changes": changes},
        certificate=certificate, rejected=[figures | {"config": everything, "why": everything}],
        fallbacks=[{"iteration": 1, "reason": everything}], unavailable=everything, stopped_by=everything,
    )  # fmt: skip
    of_run = [f"/optimize/{run}", f"/optimize/{run}/trials"]
    return ["/optimize", *of_run, "/optimize/configs/v9", "/optimize/compare/v1-naive/v9"]


def colony(place: Workspace) -> list[str]:
    """What an agent said and set, what a run failed of, and a ticket of it."""
    owner = known_principal(place, "root")
    row = RunStore(place).insert("optimizer", {}, owner=owner, agent=None, status="running")[0]
    everything = " ".join(PAYLOADS)
    error = {"code": "HIVE-422", "message": everything}
    RunStore(place).update(row.run_id, "failed", error=error, stopped_by=everything)
    at = "2026-03-01T08:00:00+00:00"
    told = [
        EscalationTicket(
            id=f"t{n}", run_id=row.run_id, severity="high", cause="stall", evidence=[text], first_seen=at, last_seen=at,
            suggested_action=text, assessment=text, agent=text, tenant=owner.tenant,
        ).told(EventType.ESCALATION_OPENED, row.thread_id)
        for n, text in enumerate(PAYLOADS)
    ]  # fmt: skip
    with connected(place.records) as connection, transaction(connection):
        EventLog.record(connection, told)
    return ["/colony", "/colony?status=failed", f"/colony/runs/{row.run_id}"]


def golden(place: Workspace) -> list[str]:
    """Questions and tags of the golden set, and what readers said of results."""
    optimize(place)
    everything = quote(" ".join(PAYLOADS), safe="")
    tags = [f"/golden?tag={quote(text, safe='')}" for text in PAYLOADS[::12]]
    return ["/golden", "/golden/queries", *tags, f"/golden/label?query={everything[:3000]}", "/golden/feedback"]


REFLECTED = (
    "/login?next=X", "/login?code=X", "/chat?about=X", "/chat?search=X", "/chat/threads?cursor=X", "/chat/X",
    "/chat/X/turns/X", "/chat/documents/X", "/chat/documents/X?run=X&claim=X&n=X", "/chat/runs/X/why?doc_id=X",
    "/chat/runs/X/passages?doc_id=X",
    "/chat/runs/X/trace", "/golden?tag=X", "/golden?after=X", "/golden/label?query=X", "/golden/feedback?status=X",
    "/golden/feedback?cursor=X", "/approvals?status=X", "/approvals?cursor=X", "/approvals/X", "/optimize?cursor=X",
    "/optimize?before=X", "/optimize/X", "/optimize/X/trials?verdict=X", "/optimize/compare/X/X",
    "/optimize/configs/X", "/colony?status=X", "/colony?graph=X", "/colony?cursor=X", "/colony/runs/X?all=X",
)  # fmt: skip
"""Where an address brings words to a page."""


class Skeleton(HTMLParser):
    """The elements of a page and the names of their attributes: all of it that could act."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))


@pytest.mark.slow
@pytest.mark.parametrize("address", REFLECTED)
async def test_words_in_an_address_never_become_elements(tmp_path: Path, address: str) -> None:
    """Each payload's page has the elements that the page of a harmless word has, and none more."""
    place = sample(tmp_path / "ws")
    headers = bearer(place, "root", "operator", "approver", "reader")
    async with served(place, roles=("http",)) as client:

        async def skeleton(words: str) -> tuple[int, set[tuple[str, tuple[str, ...]]]]:
            answer = await client.get(address.replace("X", quote(words, safe="")), headers=headers)
            assert answer.status_code < 500, (words, answer.text)
            assert RUN not in answer.headers.get("location", ""), words
            return answer.status_code, set(Skeleton(answer.text).found)

        # What says "nothing is found for it" may say it otherwise: a harmless word of the same kind is the measure.
        harmless = [await skeleton(words) for words in ("x", "x y", "zebra, elk", "x" * 80)]
        for payload in PAYLOADS:
            status, found = await skeleton(payload)
            same = [elements for code, elements in harmless if code == status] or [elements for _, elements in harmless]
            assert found <= set().union(*same), (payload, found - set().union(*same))


@pytest.mark.slow
@needs_chromium
async def test_no_payload_in_an_address_runs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    everything = " ".join(PAYLOADS)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url, roles = str(client.base_url), ("operator", "approver", "reader")
        quiet = ("404", "400", "401", "422", "status of 4")
        async with signed_in(browser, url, place, "root", *roles, expected=quiet) as page:
            paths = [path.replace("X", quote(everything, safe="")[:2000].rpartition("%")[0]) for path in REFLECTED]
            await visited(page, paths, moves=True)


@pytest.mark.slow
@needs_chromium
async def test_no_payload_at_the_sign_in_runs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client, chromium() as browser:
        context = await window(browser, str(client.base_url))
        page = await context.new_page()
        ran: list[str] = []
        page.on("dialog", lambda dialog: ran.append(dialog.message))
        await page.goto("/login")
        for payload in PAYLOADS:
            await page.get_by_label("Token").fill(payload)
            async with page.expect_response("**/login"):
                await page.keyboard.press("Enter")
            await page.locator("form:not([aria-busy])").wait_for()
            await page.locator("#told .fault").wait_for()
            assert await page.evaluate("window.ran") is None, payload
            assert await page.locator("#told script, #told img, #told svg, #told iframe").count() == 0
        assert ran == []


async def visited(page: Page, paths: list[str], *, moves: bool = False) -> None:
    """Look at each page, open what is closed, and go over it with the mouse; nothing has run."""
    dialogs: list[str] = []

    async def told(dialog: Any) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", told)
    for path in paths:
        await page.goto(path)
        await page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        await page.mouse.move(640, 400)
        assert await page.evaluate("window.ran") is None, path
        assert await page.locator("main script, main iframe, main object, main embed, main base").count() == 0, path
        if not moves:
            assert await page.evaluate("location.pathname") == path.partition("?")[0]
    assert dialogs == []


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(
    "prepared", [approvals, optimize, golden, colony], ids=["approvals", "optimize", "golden", "colony"]
)
async def test_no_payload_runs(tmp_path: Path, prepared: Callable[[Workspace], list[str]]) -> None:
    place = sample(tmp_path / "ws")
    paths = prepared(place)
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 60
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url, roles = str(client.base_url), ("operator", "approver", "reader")
        async with signed_in(browser, url, place, "root", *roles) as page:
            await visited(page, paths)


@pytest.mark.slow
@needs_chromium
async def test_no_payload_of_an_agents_words_output_or_file_name_runs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    everything = " ".join(PAYLOADS)
    noting_agent(place, {"filename": everything, "text": everything}, words=everything)
    async with served(place) as client, chromium() as browser:
        run, request = await started(client, place)
        url, roles = str(client.base_url), ("operator", "approver", "reader")
        async with signed_in(browser, url, place, "root", *roles) as page:
            await visited(page, [f"/colony/runs/{run}", f"/approvals/{request}"])
            assert everything[:200] in await page.locator("body").inner_text()
            body = {"verb": "reject", "reason": everything}
            sent = await page.evaluate(
                "([id, body]) => hive.api('POST', `/api/approvals/${id}/decide`, body)", [request, body]
            )
            assert sent["status"] == "rejected"
            while (await page.evaluate("id => hive.api('GET', `/api/runs/${id}`)", run))["run"]["status"] != "done":
                await page.wait_for_timeout(100)
            await visited(page, [f"/colony/runs/{run}", f"/approvals/{request}"])
