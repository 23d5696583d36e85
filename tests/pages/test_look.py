"""What holds on every page, whatever it shows: accessible, quiet, readable at 400 px, in a reader's order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.pages.browser import NARROW, chromium, needs_chromium, require_accessible, signed_in
from tests.pages.filled import EVERYTHING, addresses, filled
from tests.pages.screens import AFTER, MORE, WITHOUT, nothing
from tests.server.serving import sample, served

pytestmark = [pytest.mark.slow, needs_chromium]
ORDER = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))"""
MOVES = """() => [...document.querySelectorAll("*")].filter((one) => {
    const style = getComputedStyle(one);
    return style.animationName !== "none" || style.transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
}).map((one) => one.outerHTML.slice(0, 80))"""
UNNAMED = """() => [...document.querySelectorAll("nav, aside, section, [role=region], form[role]")]
    .filter((one) => one.checkVisibility() && !one.ariaLabel && !one.getAttribute("aria-labelledby"))
    .map((one) => one.outerHTML.slice(0, 80))"""
TWICE = """() => [...document.querySelectorAll("[id]")].map((one) => one.id)
    .filter((id, n, all) => all.indexOf(id) < n)"""
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


async def require_readable(page: Page, name: str) -> None:
    """Axe is content; one main heading, then no level left out; landmarks have names; nothing moves or runs over."""
    await require_accessible(page)
    levels = await page.evaluate(ORDER)
    assert levels.count(1) == 1, f"{name}: {levels}"
    assert levels[0] == 1 or name.startswith("chat"), f"{name}: {levels}"
    assert all(after <= before + 1 for before, after in pairwise(levels)), f"{name}: {levels}"
    assert await page.evaluate(UNNAMED) == [], name
    assert await page.evaluate(TWICE) == [], name
    assert await page.evaluate(MOVES) == [], name
    assert await page.evaluate(SIDEWAYS) <= 0, name
    assert await page.locator("main").count() == 1
    assert await page.title() not in ("", "Hive Agents")


@pytest.mark.parametrize("how", [{"viewport": NARROW, "color_scheme": "dark"}, {}], ids=["narrow-dark", "wide-light"])
async def test_every_page_with_something_on_it_is_readable(tmp_path: Path, how: dict[str, Any]) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        found = addresses(await filled(place, client))
        shown = {name: (path, AFTER.get(name, nothing)) for name, path in found.items()}
        shown |= {name: (found[of], then) for name, (of, then) in MORE.items()}
        calm = {"reduced_motion": "reduce", **how}
        async with signed_in(browser, str(client.base_url), place, "root", *EVERYTHING, **calm) as page:
            for name, (path, then) in shown.items():
                await page.goto(path)
                await then(page)
                await require_readable(page, name)


async def test_every_page_without_anything_says_what_comes_next_and_is_readable(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    (place.root / "evals" / "golden.json").unlink()
    calm = {"reduced_motion": "reduce", "viewport": NARROW}
    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root", *EVERYTHING, expected=("404", "400"), **calm) as page:
            for path in WITHOUT:
                await page.goto(f"/{path}")
                await require_readable(page, path)
                assert await page.locator(".empty, .fault, #pool").count() > 0, path
