"""Nothing that strangers write runs in a browser: titles, arguments, outputs, configs, tags, queries, tickets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import EscalationTicket, EventLog, EventType
from hive_agents.runs import RunStore
from hive_agents.store import connected, transaction
from tests.pages.browser import chromium, needs_chromium, signed_in
from tests.pages.people import noting_agent
from tests.pages.test_approvals import started
from tests.pages.test_optimize import searched
from tests.server.serving import sample, served

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
    with connected(place.database) as connection, transaction(connection):
        EventLog.record(connection, told)
    return ["/colony", "/colony?status=failed", f"/colony/runs/{row.run_id}"]


async def visited(page: Page, paths: list[str]) -> None:
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
        assert await page.evaluate("location.pathname") == path.partition("?")[0]
    assert dialogs == []


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("prepared", [approvals, optimize, colony], ids=["approvals", "optimize", "colony"])
async def test_no_payload_runs(tmp_path: Path, prepared: Callable[[Workspace], list[str]]) -> None:
    place = sample(tmp_path / "ws")
    paths = prepared(place)
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 50
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
