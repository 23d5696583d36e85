"""axe on every page that there is, at three widths, light and dark: what is moderate fails, too.

The pages are those of the routes, so that a new one that isn't looked at fails.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page
from starlette.routing import Match

from hive_agents.access.logins import login_code
from hive_agents.server.pages.entrance import PARTS, routes
from tests.pages.browser import chromium, needs_chromium, signed_in, window
from tests.pages.filled import EVERYTHING, addresses, administered, filled, parts
from tests.pages.screens import AFTER, nothing
from tests.server.serving import sample, served

pytestmark = [pytest.mark.slow, needs_chromium]
WIDTHS = (390, 820, 1440)
GRAVE = ("moderate", "serious", "critical")
SIGN_IN = "/login"


SENT = """(address) => {
    const form = Object.assign(document.createElement("form"), { method: "post", action: address });
    form.append(Object.assign(document.createElement("input"), { name: "csrf", value: document.body.dataset.csrf }));
    document.body.append(form);
    form.submit();
}"""


def route_of(path: str) -> str:
    """The route that answers an address; the first that matches it, as the server takes it."""
    asked = {"type": "http", "method": "GET", "path": path.partition("?")[0]}
    return next(one.path for one in routes if one.matches(asked)[0] is Match.FULL)  # type: ignore[attr-defined]


async def found(page: Page, name: str) -> set[tuple[str, str, str]]:
    """What axe finds, with the page, its rule and the element, in whichever state of the window."""
    told: set[tuple[str, str, str]] = set()
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            seen = await Axe().run(page, options={"resultTypes": ["violations"]})
            told |= {(name, one["id"], node["html"][:160]) for one in seen.response["violations"]
                     if one["impact"] in GRAVE for node in one["nodes"]}  # fmt: skip
    return told


async def opened(page: Page, path: str) -> None:
    answer = await page.goto(path)
    assert answer is not None, path
    assert answer.status == 200, path


async def changed(page: Page) -> None:
    """The difference that a form would write."""
    await opened(page, "/settings/people")
    await page.get_by_label("Name", exact=True).first.fill("nora")
    await page.get_by_label("Organisation", exact=True).first.fill("acme")
    await page.get_by_role("button", name="Look at the change").first.click()


async def examined(page: Page) -> None:
    """What an owner who reads everything finds about the documents."""
    await page.evaluate(SENT, "/documents/examine")
    await page.wait_for_url("**/documents/examine")


POSTED = {"library_examined.html": examined, "settings_change.html": changed}
"""Pages that only a form leads to, by their templates."""


async def test_axe_finds_nothing_on_any_page_at_any_width_in_light_and_dark(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        made = await filled(place, client)
        shown = addresses(made) | parts(made)
        views = [view for part in PARTS for view in part.pages.views]
        pages = {route_of(path) for path in (*shown.values(), *administered().values())}
        assert {view.path for view in views if view.method == "GET"} == pages
        assert {view.template for view in views} == {view.template for view in views if view.path in pages} | {*POSTED}

        url, told = str(client.base_url), set()
        calm: dict[str, Any] = {"reduced_motion": "reduce"}
        async with signed_in(browser, url, place, "root", *EVERYTHING, **calm) as page:
            for name, path in shown.items():
                await opened(page, path)
                await AFTER.get(name, nothing)(page)
                told |= await found(page, name)
        context = await window(browser, url, **calm)
        page = await context.new_page()
        await page.goto(SIGN_IN)
        told |= await found(page, "login")
        await page.goto(f"{SIGN_IN}?code={login_code(place)}")
        await page.wait_for_url("**/")
        for name, path in administered().items():
            await opened(page, path)
            told |= await found(page, name)
        rmtree(place.root / "access")  # nobody is named: the owner reads all
        for name, lead in POSTED.items():
            await lead(page)
            await page.wait_for_load_state()
            told |= await found(page, name)
        await page.goto("/nowhere")
        told |= await found(page, "fault")
    assert not told, "\n".join(map(str, sorted(told)))
