"""Each component of the pages in each of its states, at three widths, light and dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route

from tests.pages.browser import chromium, needs_chromium, picture
from tests.pages.gallery import ADDRESS, drawn, style
from tests.pages.test_every_page import WIDTHS, found
from tests.pages.test_look import SIDEWAYS

TEMPLATES = Path(__file__).parents[2] / "hive_agents" / "server" / "pages" / "templates"


async def given(route: Route) -> None:
    if route.request.url.endswith(".css"):
        await route.fulfill(body=style(), content_type="text/css")
    else:
        await route.fulfill(body=drawn(), content_type="text/html")


def test_the_gallery_shows_every_component_and_pages_use_each() -> None:
    made = set(re.findall(r"{% macro (\w+)\(", (TEMPLATES / "ui.html").read_text(encoding="utf-8"))) - {"attributes"}
    used = {name: set(re.findall(r"\bui\.(\w+)\(", file.read_text(encoding="utf-8")))
            for name, file in {"gallery": Path(__file__).with_name("gallery.html"),
                               **{one.stem: one for one in TEMPLATES.glob("*.html")}}.items()}  # fmt: skip
    assert used.pop("gallery") == made
    assert set().union(*used.values()) == made


@pytest.mark.slow
@needs_chromium
async def test_axe_finds_nothing_in_the_gallery_and_its_pictures_are_taken(tmp_path: Path) -> None:
    async with chromium() as browser:
        page: Page = await browser.new_page(reduced_motion="reduce")
        await page.route("**/*", given)
        await page.goto(ADDRESS)
        # What the style sheet draws beside a word isn't read out with it.
        assert await page.get_by_role("link", name="Where it came from", exact=True).count() == 1
        assert await found(page, "gallery") == set()
        await page.evaluate("document.getElementById('window').showModal()")
        assert await found(page, "window") == set()
        await page.evaluate("document.getElementById('window').close()")
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 900})
                assert await page.evaluate(SIDEWAYS) <= 0, width
                await picture(page, tmp_path, f"{scheme}-{width}")
    assert len(list(tmp_path.iterdir())) == 2 * len(WIDTHS)
