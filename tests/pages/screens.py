"""Pictures of every page, for people to look at: empty, filled, loading and with errors, three widths, light and dark.

    python -m tests.pages.screens FOLDER [NAME …] [--language de] [--workspace DIR --ask QUESTION …]
    python -m tests.pages.screens docs/pictures best

With names only those pages are made; `best` are those of the documentation, of every page. It needs Debian's package
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
from hive_agents.access.logins import login_code
from tests.pages.browser import chromium, picture, signed_in, window
from tests.pages.filled import EVERYTHING, QUESTIONS, addresses, administered, filled, parts
from tests.pages.test_inbox import mails
from tests.server.serving import bearer, sample, served

WIDTHS = {"wide": 1440, "middle": 820, "narrow": 390}


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


BEST: dict[str, tuple[str, Then]] = {
    "home": ("home", nothing), "find": ("home", looked_up), "chat-new": ("chat-new", nothing),
    "chat": ("chat", passage),
    "documents": ("documents", nothing), "document": ("document", nothing), "optimize": ("optimize", nothing),
    "optimization": ("search", drawn), "config": ("config", nothing), "approval": ("approvals", grouped),
    "approvals-all": ("approvals-all", nothing), "request": ("approval-call", nothing), "colony": ("colony", nothing),
    "run": ("run", drawers), "compare": ("compare", nothing), "golden": ("golden", measured),
    "golden-set": ("golden-label", marked), "golden-feedback": ("golden-feedback", nothing),
}  # fmt: skip
"""The pictures of the documentation beside those of the settings: whose address, and what is done there first."""
SMALL = ("home", "chat", "documents", "approval")
"""Those that are also taken as a phone shows them."""


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
        made = await filled(place, client, asked.questions)
        found = addresses(made, asked.questions[0])
        if only == ("best",):
            mails(place, 4)
            real = {"search": await searched(client, bearer(place, "root", *EVERYTHING))}
            await best(browser, str(client.base_url), place, folder, found | parts(made) | real)
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
    for size, names in (({"width": 1440, "height": 900}, tuple(BEST)), ({"width": 390, "height": 844}, SMALL)):
        suffix = "" if names != SMALL else "-narrow"
        async with signed_in(browser, url, place, "root", *EVERYTHING, "admin", viewport=size) as page:
            for name in names:
                of, then = BEST[name]
                await page.goto(found[of])
                await (nothing if suffix else then)(page)
                if then is not drawers:
                    await page.evaluate("scrollTo(0, 0)")
                await kept(page, folder / f"{name}{suffix}.png")
    context = await window(browser, url, viewport={"width": 1440, "height": 900})
    page = await context.new_page()
    await page.goto(f"/login?code={login_code(place)}")
    for name, path in administered().items():
        await page.goto(path)
        await kept(page, folder / f"{name}.png")


async def kept(page: Page, file: Path) -> None:
    """What is seen without scrolling, in 256 colours: a third of the bytes."""
    from PIL import Image

    await page.screenshot(path=file, animations="disabled")
    with Image.open(file) as whole:
        fewer = whole.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    fewer.save(file, optimize=True)


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
