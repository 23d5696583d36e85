"""Pictures of every page, for people to look at: empty, filled, loading and with errors, three widths, light and dark.

    python -m tests.pages.screens FOLDER [NAME …] [--language de] [--workspace DIR --ask QUESTION …]
    python -m tests.pages.screens docs/pictures best

With names only those pages are made; `best` are those of the documentation, one of each page. It needs Debian's package
chromium, playwright and a checkout, and serves the sample workspace, or a copy of another one, whose `access/` names
dana, alice and root as the sample's does; there the questions are asked.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx
from playwright.async_api import Browser, Page, Route

from hive_agents import Workspace
from tests.pages.browser import chromium, picture, signed_in, window
from tests.pages.filled import EVERYTHING, QUESTIONS, addresses, filled
from tests.pages.test_inbox import mails
from tests.server.serving import bearer, sample, served

WIDTHS = {"wide": 1280, "middle": 768, "narrow": 400}


@dataclass(frozen=True)
class Asked:
    """What is wanted: which pages, in which language, of which workspace; None is the sample."""

    only: tuple[str, ...]
    language: str
    workspace: Path | None
    questions: tuple[str, ...]

    def copied(self) -> Workspace:
        folder = Path(mkdtemp()) / "workspace"
        if self.workspace is None:
            return sample(folder)
        shutil.copytree(self.workspace, folder, symlinks=True)
        return Workspace(folder)


Then = Callable[[Page], Awaitable[Any]]


async def passage(page: Page) -> None:
    await page.locator(".result h3 a").first.click()
    await page.locator("#beside #passage").wait_for()


async def opened(page: Page) -> None:
    """A result with its reason, and the trace of the turn."""
    for summary in (".result details:nth-of-type(1)", ".result details:nth-of-type(2)", "details.trace"):
        await page.locator(summary).first.locator("summary").click()
    await page.locator(".result .facts-here dl").first.wait_for()
    await page.locator(".trace .facts-here dl").first.wait_for()


async def queries(page: Page) -> None:
    await page.locator("#queries button").click()
    await page.locator("#queries details").first.wait_for()
    for one in (await page.locator("#queries summary").all())[:2]:
        await one.click()


async def marked(page: Page) -> None:
    for key in "rdi":
        await page.keyboard.press(key)


async def measured(page: Page) -> None:
    await page.locator("section.card p:not(.soft)").first.wait_for()


async def widened(page: Page) -> None:
    """So that the whole table is seen."""
    await page.set_viewport_size({"width": 1280, "height": 740})


async def drawn(page: Page) -> None:
    await page.locator("#trials tbody tr").first.wait_for()
    box = await page.locator("#chart .u-over").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2)


async def looked_up(page: Page) -> None:
    await page.keyboard.press("Control+k")
    await page.keyboard.type("token")
    await page.locator("#anything a[href^='/documents/']").first.wait_for()


async def drawers(page: Page) -> None:
    await page.locator(".step summary").first.click()
    await page.locator("#steps-title").evaluate("one => one.scrollIntoView()")


async def grouped(page: Page) -> None:
    """The group of mails open, one of them beside the list."""
    await widened(page)
    await page.locator(".group summary").click()
    await page.get_by_role("link", name="kim1@example.org").click()
    await page.locator("#request", has_text="kim1@example.org").wait_for()


async def nothing(page: Page) -> None:
    """The page as it comes."""


AFTER: dict[str, Then] = {"search": drawn, "golden": measured, "golden-label": marked}
MORE: dict[str, tuple[str, Then]] = {
    "chat-passage": ("chat", passage),
    "chat-opened": ("chat", opened),
    "search-queries": ("search", queries),
}
"""Pages after something was done on them: whose address, and what."""
WITHOUT = ("chat", "approvals", "optimize", "colony", "golden", "golden/feedback", "golden/label?query=x",
           "approvals/a0", "optimize/configs/none", "colony/runs/r0")  # fmt: skip
"""Addresses of a workspace in which nothing happened, some of which lead nowhere."""


BEST = {"home": ("home", nothing), "documents": ("documents", nothing), "find": ("home", looked_up),
        "run": ("run", drawers), "chat": ("chat", passage), "optimization": ("search", drawn),
        "approval": ("approvals", grouped), "golden-set": ("golden-label", marked),
        "colony": ("colony", widened)}  # fmt: skip
"""The pictures of the documentation: whose address, and what is done there first."""


async def shot(page: Page, folder: Path, name: str, path: str, then: Then = nothing) -> None:
    await page.goto(path)
    await then(page)
    await picture(page, folder, name)


def wanted(name: str, only: tuple[str, ...]) -> bool:
    return not only or name in only


async def in_each(
    browser: Browser, url: str, place: Any, folder: Path, shots: dict[str, tuple[str, Then]], language: str
) -> None:
    for width, pixels in WIDTHS.items():
        for scheme in ("light", "dark"):
            how: dict[str, Any] = {"viewport": {"width": pixels, "height": 900}, "color_scheme": scheme}
            how |= {"locale": language}
            expected = ("404", "400")  # a page that says so
            async with signed_in(browser, url, place, "root", *EVERYTHING, expected=expected, **how) as page:
                for name, (path, then) in shots.items():
                    await shot(page, folder, f"{name}-{width}-{scheme}", path, then)


async def with_everything(browser: Browser, folder: Path, asked: Asked) -> None:
    place = asked.copied()
    only = asked.only
    async with served(place) as client:
        found = addresses(await filled(place, client, asked.questions), asked.questions[0])
        if only == ("best",):
            mails(place, 4)
            root = bearer(place, "root", *EVERYTHING)
            await best(browser, str(client.base_url), place, folder, found | {"search": await searched(client, root)})
        shots = {name: (path, AFTER.get(name, nothing)) for name, path in found.items()}
        shots |= {name: (found[of], then) for name, (of, then) in MORE.items()}
        shots = {name: one for name, one in shots.items() if wanted(name, only)}
        await in_each(browser, str(client.base_url), place, folder, shots, asked.language)


async def searched(client: httpx.AsyncClient, headers: dict[str, str]) -> str:
    """The address of a search that was really made: the documentation shows no invented figures."""
    body = {"graph": "optimizer", "input": {"deploy": False}}
    run = (await client.post("/api/runs", json=body, headers=headers)).json()["run_id"]
    while (await client.get(f"/api/runs/{run}", headers=headers)).json()["run"]["status"] != "done":
        await asyncio.sleep(1)
    return f"/optimize/{run}"


async def best(browser: Browser, url: str, place: Any, folder: Path, found: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    how: dict[str, Any] = {"viewport": {"width": 1080, "height": 660}}
    async with signed_in(browser, url, place, "root", *EVERYTHING, **how) as page:
        for name, (of, then) in BEST.items():
            await page.goto(found[of])
            await then(page)
            await page.screenshot(path=folder / f"{name}.png")


async def with_nothing(browser: Browser, folder: Path, asked: Asked) -> None:
    """Empty, with errors, and loading: nobody works on what is asked here."""
    only = asked.only
    place = sample(Path(mkdtemp()) / "workspace")
    (place.root / "evals" / "golden.json").unlink()
    async with served(place, roles=("http",)) as client:
        url = str(client.base_url)
        names = {path: "empty-" + path.partition("?")[0].replace("/", "-") for path in WITHOUT}
        shots = {name: (f"/{path}", nothing) for path, name in names.items() if wanted(name, only)}
        await in_each(browser, url, place, folder, shots, asked.language)
        if wanted("refused", only):
            await refused(browser, url, place, folder)
    if wanted("loading", only):
        whole = sample(Path(mkdtemp()) / "workspace")
        async with served(whole, roles=("http",)) as client:
            await loading(browser, str(client.base_url), whole, folder)


async def refused(browser: Browser, url: str, place: Any, folder: Path) -> None:
    """What is asked for can't be done: a token that is none, a search without questions to measure by."""
    for scheme in ("light", "dark"):
        context = await window(browser, url, viewport={"width": 400, "height": 700}, color_scheme=scheme)
        page = await context.new_page()
        await page.goto("/login")
        await page.get_by_label("Token").fill("not a token")
        await page.keyboard.press("Enter")
        await page.locator("#told .fault").wait_for()
        await picture(page, folder, f"refused-token-{scheme}")
        await context.close()
    async with signed_in(browser, url, place, "root", *EVERYTHING, expected=("400", "404")) as page:
        await page.goto("/optimize")
        await page.get_by_role("button", name="Start").click()
        await page.locator("#told .fault").wait_for()
        await picture(page, folder, "refused-search")


async def loading(browser: Browser, url: str, place: Any, folder: Path) -> None:
    """A question and a search that nobody works on, and a part of a page that doesn't come."""

    async def held(_: Route) -> None:
        """Neither answered nor refused."""

    async with signed_in(browser, url, place, "root", *EVERYTHING) as page:
        await page.goto("/chat")
        await page.get_by_label("Your question").fill(QUESTIONS[0])
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Stop").wait_for()
        await picture(page, folder, "loading-chat")
        await page.goto("/optimize")
        await page.get_by_role("button", name="Start").click()
        await page.locator("#trials .empty").wait_for()
        await picture(page, folder, "loading-search")
        await page.route("**/trials*", held)
        await page.reload()
        await picture(page, folder, "loading-trials")


async def main(folder: Path, asked: Asked) -> None:
    async with chromium() as browser:
        await with_everything(browser, folder, asked)
        if asked.workspace is None:
            await with_nothing(browser, folder, asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--language", default="en")
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--ask", action="append")
    given = parser.parse_args()
    questions = tuple(given.ask or QUESTIONS)
    asyncio.run(main(given.folder, Asked(tuple(given.names), given.language, given.workspace, questions)))
