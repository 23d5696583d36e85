"""A run step by step: where each step stands on the line of time, what went in and came out, and two runs compared."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from hive_agents import Workspace
from hive_agents.runs import RunStore
from hive_agents.server.pages.waterfall import LEAST, lanes, placed
from hive_agents.server.runs import RunStepShape
from hive_agents.store import connected
from tests.pages.browser import NARROW, chromium, needs_chromium, require_accessible, signed_in
from tests.pages.people import noting_agent
from tests.server.serving import bearer, sample, served


def step(second: int, seconds: float, node: str = "write", **other: Any) -> RunStepShape:
    given = {"step": "write#1/1", "kind": "model", "name": "m", "ok": True, "attempts": 1, "tokens": 0, "usd": 0.0}
    at = f"2026-03-01T10:00:{second:02}+00:00"
    return RunStepShape(**{**given, "node": node, "seconds": seconds, "started_at": at, **other})


def test_a_step_begins_where_the_one_before_it_in_its_node_ended() -> None:
    first, second = placed([step(0, 0.25), step(0, 0.75)])
    assert (first.at, first.width) == (0.0, 25.0)
    assert (second.at, second.width) == (25.0, 75.0)


def test_a_rest_has_no_width_and_its_length_is_told() -> None:
    first, second = placed([step(0, 1.0), step(41, 1.0)])
    assert (second.at, second.width) == (50.0, 50.0)
    assert (first.rested, second.rested) == (0.0, 40.0)


def test_every_bar_is_seen_and_stands_within_the_line() -> None:
    bars = placed([step(0, 50.0), step(50, 0.0)])
    assert [bar.width for bar in bars] == [100.0, LEAST]
    assert all(0 <= bar.at <= 100 - bar.width for bar in bars)
    assert placed([]) == []


def test_a_tools_step_has_its_own_arguments_and_what_it_returned() -> None:
    calls = [{"name": name, "args": {"x": n}} for n, name in enumerate("ab", start=1)]
    turn = {"step": "write#1/1", "text": "", "calls": calls}
    answer = {"step": "write#1/1/1", "text": "two", "calls": []}
    (lane,) = lanes([step(0, 1.0), step(1, 1.0, kind="tool", step="write#1/1/1", name="b")], [turn, answer])
    model, tool = lane.bars
    assert [one["name"] for one in model.calls] == ["a", "b"]
    assert [one["args"] for one in tool.calls] == [{"x": 2}]
    assert [one["text"] for one in tool.said] == ["two"]
    assert (lane.seconds, lane.failed) == (2.0, False)


async def noted(place: Workspace, client: httpx.AsyncClient) -> str:
    """The run of an agent that looked something up and now waits for a person."""
    noting_agent(place, searches="smallest volume")
    body = {"graph": "event_loop", "agent": "writer", "input": {}}
    run: str = (await client.post("/api/runs", json=body, headers=bearer(place, "root", "operator"))).json()["run_id"]
    while RunStore(place).get(run).status in ("queued", "running"):
        await asyncio.sleep(0.05)
    return run


async def test_the_steps_of_a_run_are_those_of_its_messages_and_hold_what_they_took(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        run, root = await noted(place, client), bearer(place, "root", "operator")
        steps = (await client.get(f"/api/runs/{run}/steps", headers=root)).json()["steps"]
        messages = (await client.get(f"/api/runs/{run}/messages", headers=root)).json()["messages"]
        other = await client.get(f"/api/runs/{run}/steps", headers=bearer(place, "alice"))
    assert [(one["kind"], one["name"]) for one in steps if one["kind"] == "tool"] == [("tool", "search_documents")]
    assert {one["node"] for one in steps} == {"write"}
    assert {one["step"] for one in steps if one["kind"] != "judge"} <= {one["step"] for one in messages}
    assert all(one["seconds"] >= 0 and one["ok"] for one in steps)
    assert other.status_code == 404


async def test_a_node_of_a_failed_run_can_be_begun_again_from_its_page(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    (place.root / "script.jsonl").write_text(json.dumps({"content": "I can't."}) + "\n")
    async with served(place) as client:
        root = bearer(place, "root", "operator")
        body = {"graph": "event_loop", "agent": "writer", "input": {}}
        run = (await client.post("/api/runs", json=body, headers=root)).json()["run_id"]
        while RunStore(place).get(run).status in ("queued", "running"):
            await asyncio.sleep(0.05)
        assert RunStore(place).get(run).status == "failed"
        page = (await client.get(f"/colony/runs/{run}", headers=root)).text
        assert "Retry from here" in page
        with connected(place.records) as records:
            records.execute("UPDATE effects SET status = 'started' WHERE run_id = ? AND kind = 'model'", (run,))
        cut_off = (await client.get(f"/colony/runs/{run}", headers=root)).text
        assert "running</span>" not in cut_off.partition('class="waterfall"')[2], "nothing runs in a run that has ended"
        sent = await client.post(f"/api/runs/{run}/retry", json={"node": "write"}, headers=root)
        assert sent.status_code == 200


@pytest.mark.slow
@needs_chromium
async def test_a_drawer_shows_what_went_in_and_came_out_and_two_runs_are_compared(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        first, second = await noted(place, client), await noted(place, client)
        async with signed_in(browser, str(client.base_url), place, "root", "operator", "reader") as page:
            await page.goto(f"/colony/runs/{first}")
            await page.get_by_text("search_documents", exact=True).first.click()
            await expect(page.locator(".step[open] .drawer")).to_contain_text("smallest volume")
            await require_accessible(page)
            await page.set_viewport_size(NARROW)
            assert await page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
            await page.goto("/colony")
            compare = page.locator("[data-two]")
            await expect(compare).to_be_disabled()
            for run in (first, second):
                await page.locator(f"[name=run][value={run}]").check()
            await compare.click()
            await page.wait_for_url("**/colony/compare?**")
            await expect(page.locator("table.compared thead a")).to_have_count(2)
            await require_accessible(page)
