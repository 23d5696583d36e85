"""Long lists stay fast: a page of a list costs what it shows, however long the list is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.runs import Scope
from hive_agents.store import connected
from hive_agents.store.database import disconnect
from hive_agents.supervision.queen import Colony
from tests.pages.browser import NARROW, chromium, needs_chromium, require_accessible, signed_in
from tests.pages.crowd import many_requests, many_runs, many_threads
from tests.pages.filled import EVERYTHING
from tests.server.serving import bearer, sample, served

EVERY = 100


@contextmanager
def counted(place: Workspace) -> Iterator[list[int]]:
    """The hundreds of steps that SQLite makes meanwhile, one entry each; how fast the machine is doesn't matter."""
    steps: list[int] = []

    def step() -> int:
        steps.append(1)
        return 0

    with connected(place.database) as connection:  # this thread's, which is kept open
        connection.set_progress_handler(step, EVERY)
    try:
        yield steps
    finally:
        disconnect(place.database)


def cost(place: Workspace, **asked: Any) -> int:
    operator = known_principal(place, "root")
    with counted(place) as steps:
        found = Scope(operator).runs(place, limit=51, **asked)
    assert len(found) == 51
    assert steps
    return len(steps)


@pytest.mark.slow
def test_a_page_of_runs_costs_the_same_among_ten_thousand(tmp_path: Path) -> None:
    few, many = sample(tmp_path / "few"), sample(tmp_path / "many")
    many_runs(few, 1_000, known_principal(few, "dana"))
    many_runs(many, 10_000, known_principal(many, "dana"))
    for place in (few, many):
        cost(place)  # the database is brought up to date by who opens it first
    middle = {"before": "r0000000500"}
    assert cost(many) <= cost(few) * 2
    assert cost(many, graph="worker") <= cost(few, graph="worker") * 2
    assert cost(many, **middle) <= cost(few, **middle) * 2


def cost_of_requests(place: Workspace, **asked: Any) -> int:
    store = ApprovalStore(place)
    store.page(1)  # the log is read
    with counted(place) as steps:
        found, more = store.page(25, **asked)
    assert (len(found), more) == (25, True)
    assert steps
    return len(steps)


@pytest.mark.slow
def test_a_page_of_requests_costs_the_same_among_ten_thousand(tmp_path: Path) -> None:
    few, many = sample(tmp_path / "few"), sample(tmp_path / "many")
    many_requests(few, 1_000)
    many_requests(many, 10_000)
    middle = {"after": "a0000000500"}
    for asked in ({}, {"tenants": {"local"}}, middle):
        assert cost_of_requests(many, **asked) <= cost_of_requests(few, **asked) * 2, asked
    queue = {"status": "pending", "by_due": True}
    assert cost_of_requests(many, **queue) <= cost_of_requests(few, **queue) * 2
    assert ApprovalStore(many).damaged() == {}


def cost_of(place: Workspace, work: Callable[[], object]) -> int:
    ApprovalStore(place).page(1)  # the log is read
    with counted(place) as steps:
        work()
    return len(steps)


@pytest.mark.slow
def test_what_the_queen_and_a_run_ask_for_is_found_among_ten_thousand_requests_without_reading_them(
    tmp_path: Path,
) -> None:
    place = sample(tmp_path / "many")
    many_requests(place, 10_000)
    store, colony = ApprovalStore(place), Colony(place, None)
    asked = store.file(Filing(kind="tool_call", title="mine", requester="agent:writer", run_id="r1", risk="low"))
    every = cost_of(place, lambda: store.list("pending"))
    for work in (
        lambda: store.list("pending", run_ids=["r1", "r2"]),
        lambda: store.list(requester="service:queen"),
        lambda: store.asks("r1"),
    ):
        assert cost_of(place, work) * 100 < every
    counting = cost_of(place, store.count_pending)
    page = cost_of(place, lambda: store.page(20, status="pending"))
    assert cost_of(place, lambda: colony.waiting(20)) <= counting + page * 2
    newest, n = colony.waiting(20)
    assert (len(newest), newest[0].id, n) == (20, asked.id, 10_001)


@pytest.mark.slow
async def test_two_thousand_conversations_come_thirty_at_a_time(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    many_threads(place, 2_000, known_principal(place, "dana"))
    async with served(place, roles=("http",)) as client:
        dana = bearer(place)
        page = (await client.get("/chat", headers=dana)).text
        assert page.count('href="/chat/t') == 30
        more = re.search(r'hx-get="(/chat/threads\?cursor=[^"]+)"', page)
        assert more is not None
        second = (await client.get(more[1], headers=dana | {"HX-Request": "true"})).text
        assert second.count('href="/chat/t') == 30
        found = (await client.get("/chat/threads?search=buffer 1999", headers=dana | {"HX-Request": "true"})).text
        assert found.count('href="/chat/t') == 1


@pytest.mark.slow
@needs_chromium
async def test_ten_thousand_runs_and_as_many_requests_are_gone_through_in_a_browser(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    many_runs(place, 10_000, known_principal(place, "dana"))
    many_requests(place, 10_000)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root", *EVERYTHING, viewport=NARROW) as page:
            await page.goto("/colony")
            assert await page.locator("tbody tr").count() == 50
            newest = await page.locator("tbody a").first.get_attribute("href")
            await page.get_by_role("link", name="More").click()
            await page.locator("tbody a[href$='r0000009949']").wait_for()
            assert await page.locator(f"tbody a[href='{newest}']").count() == 0
            await require_accessible(page)
            await page.goto("/colony?status=failed&graph=worker")
            assert await page.locator("tbody tr").count() == 50
            await page.goto("/approvals")
            assert await page.locator("#queue li[data-request]").count() == 25
            assert await page.get_by_role("link", name="Waiting (10000)").is_visible()
            first = await page.locator("#queue li").first.get_attribute("data-request")
            await page.get_by_role("link", name="More").click()
            await page.wait_for_url("**cursor=**")
            assert await page.locator("#queue li[data-request]").count() == 25
            assert await page.locator(f"#queue li[data-request='{first}']").count() == 0
            await require_accessible(page)
