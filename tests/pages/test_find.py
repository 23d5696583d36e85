"""What is found by a word from any page, the keys, and the choice between light and dark."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from hive_agents import Workspace
from tests.pages.browser import chromium, needs_chromium, require_accessible, signed_in
from tests.server.serving import bearer, followed, sample, served


async def asked(client: httpx.AsyncClient, place: Workspace, user: str, text: str) -> None:
    headers = bearer(place, user)
    run = (await client.post("/api/runs", json={"input": {"text": text}}, headers=headers)).json()
    await followed(client, run["events"], headers)


async def test_pages_and_actions_are_those_that_the_caller_may_open(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        reader = (await client.get("/find", headers=bearer(place))).text
        admin = (await client.get("/find", headers=bearer(place, "root", "admin"))).text
    assert "/settings/people" in admin
    assert "/settings/people" not in reader
    assert 'href="/chat"' in reader


async def test_a_word_finds_the_callers_own_conversations_and_the_documents_that_they_may_view(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        await asked(client, place, "dana", "smallest volume the P50 can do")
        own = (await client.get("/find?find=smallest", headers=bearer(place))).text
        other = (await client.get("/find?find=smallest", headers=bearer(place, "alice"))).text
        documents = (await client.get("/find?find=token", headers=bearer(place))).text
        nothing = (await client.get("/find?find=xyzzy", headers=bearer(place))).text
    assert 'href="/chat/t' in own
    assert 'href="/chat/t' not in other
    assert 'href="/documents/' in documents
    assert "xyzzy" in nothing
    assert 'class="empty"' in nothing


async def test_a_choice_of_colours_is_in_the_page_as_it_comes_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        headers = bearer(place)
        dark = await client.get("/chat", headers=headers | {"Cookie": "theme=dark"})
        odd = await client.get("/chat", headers=headers | {"Cookie": 'theme="><b>'})
    assert '<html lang="en" data-theme="dark">' in dark.text
    assert '<html lang="en">' in odd.text


@pytest.mark.slow
@needs_chromium
async def test_by_keys_alone_a_document_is_found_the_keys_are_shown_and_the_colours_are_changed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", "admin") as page:
            await page.keyboard.press("Control+k")
            await expect(page.locator("#anything a").first).to_be_visible()
            await require_accessible(page)
            await page.keyboard.type("cleaning")
            await expect(page.locator("#anything a[href^='/documents/']").first).to_be_visible()
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/documents/**")
            await page.keyboard.press("?")
            await expect(page.locator("#all-keys")).to_be_visible()
            await require_accessible(page)
            await page.keyboard.press("Escape")
            await expect(page.locator("#all-keys")).to_be_hidden()
            await page.locator(".account summary").press("Enter")
            await page.locator("input[name=theme][value=dark]").press("Space")
            await require_accessible(page)
            ground = "getComputedStyle(document.body).backgroundColor"
            dark = await page.evaluate(ground)
            await page.reload()
            assert await page.evaluate(ground) == dark == "rgb(23, 21, 18)"


@pytest.mark.slow
@needs_chromium
async def test_on_paper_there_is_nothing_to_press(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", "admin") as page:
            await page.goto("/chat")
            await page.emulate_media(media="print")
            pressed = page.locator("button, .bar, .ask")
            assert await pressed.count() > 3
            assert not await pressed.evaluate_all("all => all.some((one) => one.checkVisibility())")
