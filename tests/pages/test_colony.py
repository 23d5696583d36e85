"""The colony in a browser: what runs and what it spent, one run with all that happened, and steering it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hive_agents.access import known_principal
from hive_agents.runs import RunStore
from tests.agents.conftest import write_json
from tests.pages.browser import NARROW, chromium, needs_chromium, require_accessible, signed_in
from tests.pages.people import noting_agent
from tests.pages.test_approvals import started
from tests.server.serving import asked, bearer, sample, served


async def test_an_operator_sees_runs_host_and_triggers_and_a_reader_their_own_runs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        empty = (await client.get("/colony", headers=bearer(place))).text
        assert "Nothing ran here yet" in empty
        run = (await asked(client, bearer(place), "how do I rotate an API token?"))["run_id"]
        mine = (await client.get("/colony", headers=bearer(place))).text
        assert f'<a href="/colony/runs/{run}"><bdi>how do I rotate an API token?</bdi></a>' in mine
        assert "Queen" not in mine
        whole = (await client.get("/colony", headers=bearer(place, "root", "operator"))).text
        assert f'<a href="/colony/runs/{run}">question</a>' in whole
        assert "their questions are listed without their words" in whole
        assert "their questions are listed without their words" not in mine
        assert "Queen" in whole
        assert "No open ticket" in whole
        filtered = await client.get("/colony?status=failed&graph=worker", headers=bearer(place))
        assert run not in filtered.text
        theirs = await client.get(f"/colony/runs/{run}", headers=bearer(place, "alice"))
        unknown = await client.get("/colony/runs/r000", headers=bearer(place, "alice"))
        assert theirs.status_code == unknown.status_code == 404
        assert theirs.text.replace(run, "r000") == unknown.text


async def test_runs_of_agents_stand_before_the_questions_of_readers_which_are_folded(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    store = RunStore(place)
    dana = known_principal(place, "dana")
    kinds = ["worker"] * 60 + ["event_loop"] + ["worker"] * 60
    for n, graph in enumerate(kinds):
        agent = "digest" if graph == "event_loop" else None
        store.insert(graph, {"text": "why?"}, run_id=f"r{n:04}", agent=agent, owner=dana, status="done")
    async with served(place, roles=("http",)) as client:

        async def shown(path: str) -> str:
            return (await client.get(path, headers=bearer(place, "root", "operator"))).text

        page = await shown("/colony")
        assert page.index("r0060") < page.index("<summary>Questions of readers (50+)") < page.index("r0120")
        assert "r0070" not in page
        assert "r0060" not in await shown("/colony?graph=worker")
        assert (await shown("/colony?graph=worker")).count("/colony/runs/r") == 50
        everything = await shown("/colony?graph=all")
        assert "Questions of readers" not in everything
        assert "r0120" in everything


async def test_agents_are_listed_with_what_they_need_or_what_is_wrong_with_them(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    write_json(place, "agents/broken.json", {"id": "broken"})
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "operator")
        found = {one["id"]: one for one in (await client.get("/api/agents", headers=root)).json()["agents"]}
        assert (found["writer"]["goal"], found["writer"]["inputs"], found["writer"]["diagnostics"]) == (
            "digest",
            [],
            [],
        )
        assert found["broken"]["diagnostics"]
        page = (await client.get("/colony", headers=root)).text
        assert 'data-start="writer"' in page
        assert 'data-start="broken"' not in page
        assert (await client.get("/api/agents", headers=bearer(place))).status_code == 403


@pytest.mark.slow
@needs_chromium
async def test_an_agent_is_started_with_its_inputs(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    agent = json.loads((place.root / "agents" / "writer.json").read_text())
    agent["nodes"][0]["input_keys"] = ["topic", "names"]
    write_json(place, "agents/writer.json", agent)
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", "operator", "reader") as page:
            await page.goto("/colony")
            await page.locator("summary", has_text="writer").click()
            form = page.locator('[data-start="writer"]')
            await form.get_by_label("topic").fill("tea <b>")
            await form.get_by_label("names").fill('["kim", "lee"]')
            await require_accessible(page)
            await page.get_by_role("button", name="Start writer").click()
            await page.wait_for_url("**/colony/runs/r*")
            await page.get_by_text("a person was asked").wait_for()
            run = page.url.rpartition("/")[2]
        assert RunStore(place).get(run).value["input"] == {"topic": "tea <b>", "names": ["kim", "lee"]}


@pytest.mark.slow
@needs_chromium
async def test_a_run_is_followed_told_something_and_stopped(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place, budget={"usd": 2.5})
    async with served(place) as client, chromium() as browser:
        _, request = await started(client, place)
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root", "operator", "reader", viewport=NARROW) as page:
            await page.goto("/colony")
            await require_accessible(page)
            assert await page.get_by_text("of $2.50").filter(visible=True).is_visible()
            await page.get_by_role("link", name="writer", exact=True).first.click()
            await page.get_by_role("article").get_by_text("I will note it.").wait_for()
            await require_accessible(page)
            await page.get_by_label("Tell the agent").fill("be brief")
            await page.keyboard.press("Enter")
            await page.get_by_text("It reads this before its next turn.").wait_for()
            sent = await client.post(
                f"/api/approvals/{request}/decide", json={"verb": "approve"}, headers=bearer(place)
            )  # fmt: skip
            assert sent.status_code == 200, sent.text
            await page.locator("#live .badge.good").wait_for()
            assert await page.get_by_text("noted").first.is_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 400
            second, _ = await started(client, place)
            page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
            await page.goto(f"/colony/runs/{second}")
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_role("button", name="Go on").wait_for()
            await page.goto("/colony")
            await page.get_by_label("Ask her").fill("what runs?")
            await page.get_by_role("button", name="Ask", exact=True).click()
            await page.locator("#queen-answer:not(:empty)").wait_for()
