"""A real headless Chromium on the pages of a real server; what a browser complains of fails the test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from hive_agents import Workspace
from tests.server.serving import token

CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 850}
PATIENCE = 150_000
"""Milliseconds that anything is waited for: tests say what comes, not when, and pages renew themselves each 30 s."""
expect.set_options(timeout=PATIENCE)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's package chromium")

SETTLED = """() => Promise.allSettled(document.getAnimations()
    .filter(one => one.effect.getComputedTiming().endTime !== Infinity).map(one => one.finished))"""
"""Waits for colours on their way to others: half way there they have less contrast than at either end."""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


async def window(browser: Browser, url: str, **how: Any) -> BrowserContext:
    """Pages with cookies of their own, as another person's browser has."""
    context = await browser.new_context(base_url=url, **how)
    context.set_default_timeout(PATIENCE)
    return context


@asynccontextmanager
async def signed_in(
    browser: Browser,
    url: str,
    place: Workspace,
    user: str = "dana",
    *roles: str,
    expected: tuple[str, ...] = (),
    **how: Any,
) -> AsyncIterator[Page]:
    """A page of `user`, signed in by a token; console errors that aren't `expected` fail at the end."""
    context = await window(browser, url, **({"viewport": WIDE} | how))
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto("/login")
    await page.locator("#token").fill(token(place, user, *roles))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/")
    yield page
    await context.close()
    told = [one for one in complaints if not any(part in one for part in expected)]
    assert told == [], told


async def reached(page: Page, selector: str, *, key: str = "Tab", most: int = 30) -> None:
    """Go there as a keyboard does: from one thing that can be reached to the next, and not too far."""
    for _ in range(most):
        await page.keyboard.press(key)
        if await page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} isn't reached by {most} times {key}")


async def require_told(page: Page, text: str) -> None:
    """Wait for the message with this text, whose corners and middle nothing covers."""
    await page.wait_for_function(
        """(text) => {
            const told = document.querySelector("#told p");
            if (!told || !told.textContent.includes(text)) return false;
            const box = told.getBoundingClientRect();
            const within = [[0.02, 0.1], [0.98, 0.1], [0.5, 0.5], [0.02, 0.9], [0.98, 0.9]];
            const bars = [...document.querySelectorAll(".ask")].map((bar) => bar.getBoundingClientRect());
            return bars.every((bar) => box.bottom <= bar.top || box.top >= bar.bottom) && within.every(([x, y]) =>
                told === document.elementFromPoint(box.left + x * box.width, box.top + y * box.height));
        }""",
        arg=text,
    )


async def skipped(page: Page, to: str) -> None:
    """Follow a link that skips to a part of the page, by the access key that it names, from wherever one is."""
    key = await page.locator(f"a.skip[href^='{to}']").get_attribute("accesskey")
    assert key is not None
    # As a keyboard sends it: the browser looks at the character without Alt, which Playwright leaves out.
    keyboard = await page.context.new_cdp_session(page)
    pressed = {"modifiers": 1, "key": key, "code": f"Key{key.upper()}", "windowsVirtualKeyCode": ord(key.upper())}
    for kind in ("keyDown", "keyUp"):
        await keyboard.send("Input.dispatchKeyEvent", {"type": kind, "unmodifiedText": key, **pressed})
    await keyboard.detach()


async def require_accessible(page: Page, *, targets: bool = False) -> None:
    """What axe-core finds serious or critical fails; with `targets` also what is moderate, or too small to be hit."""
    await page.evaluate(SETTLED)
    grave = ("moderate", "serious", "critical") if targets else ("serious", "critical")
    found = await Axe().run(page, options={"rules": {"target-size": {"enabled": targets}}})
    told = [(one["id"], [node["html"] for node in one["nodes"]])
            for one in found.response["violations"] if one["impact"] in grave]  # fmt: skip
    assert told == [], f"{page.url}: {told}"


async def picture(page: Page, folder: Path, name: str) -> None:
    """The page as a picture, for people to look at."""
    folder.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=folder / f"{name}.png", full_page=True)
