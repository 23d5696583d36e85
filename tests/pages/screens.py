"""Pictures of the chat and the golden set, for people to look at: each state, three widths, light and dark.

    python -m tests.pages.screens FOLDER

Needs Debian's package chromium, playwright, and a checkout: it serves the sample workspace.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from playwright.async_api import Page

from tests.pages.browser import chromium, picture, signed_in
from tests.server.serving import sample, served

WIDTHS = {"desktop": 1280, "tablet": 768, "phone": 400}
QUESTIONS = ("smallest volume the P50 can do", "effective SOPs about cleaning validation", "all retired documents",
             "show me stuff", "hello", "xyzzy quux")  # fmt: skip


async def talk(page: Page) -> str:
    """Ask one question of each kind, and return where the conversation stands."""
    await page.goto("/chat")
    for n, question in enumerate(QUESTIONS):
        await page.get_by_label("Your question").fill(question)
        await page.keyboard.press("Enter")
        await page.locator("article.turn").nth(n).locator(".reply").wait_for()
    return page.url


async def shots(page: Page, folder: Path, name: str, thread: str) -> None:
    await page.goto("/chat")
    await picture(page, folder, f"chat-new-{name}")
    await page.goto(thread)
    await picture(page, folder, f"chat-{name}")
    await page.locator(".cite").first.click()
    await page.locator("#beside #passage").wait_for()
    await page.screenshot(path=folder / f"chat-passage-{name}.png")
    await page.goto("/golden")
    await page.get_by_text("can show a gain of").wait_for()
    await picture(page, folder, f"golden-{name}")
    await page.goto("/golden/label?query=how do I rotate an API token")
    await picture(page, folder, f"golden-label-{name}")
    await page.goto("/golden/feedback")
    await picture(page, folder, f"golden-feedback-{name}")


async def main(folder: Path) -> None:
    place = sample(Path(mkdtemp()) / "workspace")
    async with served(place) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root") as page:
            thread = await talk(page)
        for width, pixels in WIDTHS.items():
            for scheme in ("light", "dark"):
                how: dict[str, Any] = {"viewport": {"width": pixels, "height": 900}, "color_scheme": scheme}
                async with signed_in(browser, url, place, "root", **how) as page:
                    await shots(page, folder, f"{width}-{scheme}", thread)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "screens")))
