"""Files dropped into a conversation, in the browser: by pointer and by keys alone, and what is told when one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import FileChooser, Page, Route, expect

from hive_agents import Workspace
from tests.copilot.test_dropped import LEASE, QUESTION
from tests.pages.browser import NARROW, chromium, needs_chromium, reached, require_accessible, signed_in
from tests.pages.test_library import DROP
from tests.server.serving import sample, served

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return sample(tmp_path / "ws")


async def ask(page: Page, text: str = QUESTION) -> None:
    await page.locator("#text").fill(text)
    await page.locator("#text").press("Enter")


async def require_fit(page: Page) -> None:
    over = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
    assert await page.evaluate(over) <= 0
    await require_accessible(page)


async def test_a_file_is_dropped_by_pointer_asked_and_removed(place: Workspace) -> None:
    async with served(place) as client, chromium() as browser:
        failing = ("status of 400",)
        async with signed_in(browser, str(client.base_url), place, expected=failing) as page:
            await page.goto("/chat")
            await page.locator("#text").fill("a draft")
            await page.evaluate(DROP, [["borealis.md", LEASE.decode()], ["photo.jpg", "x"]])
            chips = page.locator("#dropped .chip")
            await expect(chips.first.locator(".badge")).to_have_text("ready")
            await expect(chips.nth(1).locator(".badge")).to_have_text("failed")
            await expect(chips.nth(1)).to_contain_text("not a supported kind of file")
            await expect(page.get_by_text("Only you see these files")).to_be_visible()
            await require_fit(page)
            await page.get_by_role("button", name="Remove photo.jpg").click()
            await expect(chips).to_have_count(1)
            await page.reload()  # the conversation has begun
            await expect(page.locator("#text")).to_have_value("a draft")
            await expect(chips).to_have_text(["borealis.md ×"])
            await ask(page)
            own = page.get_by_role("region", name="Your file borealis.md")
            await expect(own).to_contain_text("zarquon deposit is 4,200 euros")
            await require_fit(page)
            await page.get_by_role("button", name="Remove borealis.md").click()
            await expect(chips).to_have_count(0)
            await expect(own).to_have_count(0)
            await expect(page.locator(".reply")).to_be_visible()
            await expect(page.locator("#text")).to_be_focused()
            await page.reload()
            await expect(page.locator(".reply")).to_be_visible()
            await expect(own).to_have_count(0)
            await page.goto("/chat")
            await ask(page)
            await expect(page.locator(".reply")).to_be_visible()
            assert "borealis.md" not in await page.content()


async def test_a_file_is_chosen_by_keys_and_its_first_question_names_the_conversation(
    place: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "borealis.md").write_bytes(LEASE)
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, viewport=NARROW) as page:
            # Listened for from the beginning: the browser has to be told before a key opens its dialog.
            choosing: asyncio.Future[FileChooser] = asyncio.get_running_loop().create_future()
            page.on("filechooser", lambda chooser: choosing.set_result(chooser))
            held: list[Route] = []
            await page.route("**/files", lambda route: held.append(route))
            await page.goto("/chat")
            await expect(page.locator("#text")).to_be_focused()
            await reached(page, "#drop-files")
            await page.keyboard.press("Enter")
            await (await choosing).set_files(tmp_path / "borealis.md")
            badge = page.locator("#dropped .badge")
            await expect(badge).to_have_text("uploading")
            while not held:
                await page.wait_for_timeout(20)
            await held.pop().continue_()
            await expect(badge).to_have_text("ready")
            await expect(page.locator("#text")).to_be_focused()
            await page.keyboard.type(QUESTION)
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="Your file borealis.md")).to_be_visible()
            await expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
            await require_fit(page)
            await page.locator("#dropped button").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#dropped .chip")).to_have_count(0)
            await expect(page.locator("#text")).to_be_focused()
