"""Documents in the browser: from an empty workspace to an answer, by mouse and by keys alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from hive_agents import Workspace
from hive_agents.access.logins import login_code
from tests.pages.browser import chromium, needs_chromium, reached, require_accessible, signed_in, window
from tests.server.serving import bearer, sample, served
from tests.server.test_documents_http import LAMP, imported, without_documents

pytestmark = [pytest.mark.slow, needs_chromium]
WIDTHS = (390, 820, 1440)
DROP = """(files) => {
    const data = new DataTransfer();
    for (const [name, text] of files) data.items.add(new File([text], name));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return without_documents(tmp_path / "ws")


@asynccontextmanager
async def opened(browser: Browser, client: httpx.AsyncClient, place: Workspace) -> AsyncIterator[Page]:
    """A page of the person at the machine, who signed in by a link; complaints of the browser fail."""
    context = await window(browser, str(client.base_url), reduced_motion="reduce")
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    await page.goto(f"/login?code={login_code(place)}")
    yield page
    await context.close()
    assert complaints == []


async def require_fit(page: Page) -> None:
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        over = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        assert await page.evaluate(over) <= 0, (page.url, width)
        await require_accessible(page)


async def test_from_nothing_to_an_answer(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "lamp.md").write_bytes(LAMP)
    (tmp_path / "broken.pdf").write_bytes(b"no pdf")
    async with served(place) as client, chromium() as browser, opened(browser, client, place) as page:
        await expect(page.get_by_role("heading", name="Getting started: 0 of 5 done")).to_be_visible()
        await require_fit(page)
        await page.goto("/chat")
        await expect(page.get_by_text("There are no documents yet")).to_be_visible()
        await require_fit(page)
        await page.goto("/documents")
        await page.locator("#files").set_input_files([tmp_path / "lamp.md", tmp_path / "broken.pdf"])
        await expect(page.get_by_role("link", name="The lamp")).to_be_visible()
        await expect(page.get_by_text("not a PDF file")).to_be_visible()
        await require_fit(page)
        await page.get_by_role("button", name="Dismiss broken.pdf").click()
        await expect(page.get_by_text("not a PDF file")).to_have_count(0)
        await page.locator("#question").fill("when is the lamp turned off?")
        await page.keyboard.press("Enter")
        await expect(page.locator("#tried mark").first).to_be_visible()
        await page.goto("/chat")
        await page.locator("#text").fill("when is the lamp turned off?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".result h3")).to_contain_text("The lamp")
        await page.goto("/")
        await expect(page.get_by_role("heading", name="Getting started: 2 of 5 done")).to_be_visible()


async def test_dropped_files_are_rows_at_once_and_a_second_tab_follows(place: Workspace) -> None:
    async with served(place) as client, chromium() as browser, opened(browser, client, place) as page:
        await page.goto("/documents")
        other = await page.context.new_page()
        await other.goto("/documents")
        await page.evaluate(DROP, [["a.md", "# Bees\n\nThey dance."], ["b.xyz", "?"]])
        await expect(page.locator("#uploads li, .documents li")).not_to_have_count(0)
        await expect(page.get_by_role("link", name="Bees")).to_be_visible()
        await expect(page.get_by_text("left out")).to_be_visible()
        await expect(other.get_by_role("link", name="Bees")).to_be_visible()


async def test_a_document_is_changed_and_deleted_by_keys_alone(place: Workspace) -> None:
    (place.documents / "lamp.md").write_bytes(LAMP)
    async with served(place) as client, chromium() as browser, opened(browser, client, place) as page:
        await page.goto("/chat")  # whoever comes first has it indexed
        await page.goto("/documents")
        await reached(page, ".documents a")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="The lamp", level=1)).to_be_visible()
        await require_fit(page)
        await reached(page, "#new-name")
        await page.keyboard.type("department")
        await page.keyboard.press("Tab")
        await page.keyboard.type("lab")
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-field=department]")).to_have_value("lab")
        assert "department: lab" in (place.documents / "lamp.md").read_text()
        page.on("dialog", lambda dialog: dialog.accept())
        await reached(page, "button.danger")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("There are no documents yet")).to_be_visible()
        assert not (place.documents / "lamp.md").exists()


PASSAGE_IS_IN_VIEW = """() => {
    const [passage, text] = [document.querySelector("#passage"), document.querySelector(".document .text")];
    const [mine, its] = [passage.getClientRects()[0], text.getBoundingClientRect()];
    return mine.top >= Math.max(its.top, 0) - 1 && mine.bottom <= Math.min(its.bottom + 1, innerHeight);
}"""


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_document_that_is_opened_for_a_question_is_shown_at_what_was_found(tmp_path: Path, width: int) -> None:
    place = sample(tmp_path / "ws")
    question = "does a plate photo travel to the console"
    size: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", "reader", "operator", **size) as page:
            await page.goto("/documents")
            await page.get_by_label("What would somebody ask?").fill(question)
            await page.keyboard.press("Enter")
            await page.locator("#tried a").first.click()
            await expect(page.locator(".document #passage")).to_be_visible()
            await page.wait_for_function(PASSAGE_IS_IN_VIEW)
            await page.goto(f"/golden/label?query={question}")
            while not await page.locator(".opened h2").is_visible():  # a key pressed while the page begins is lost
                await page.keyboard.press("o")
                await page.wait_for_timeout(1000)
            await expect(page.locator(".opened #passage")).to_be_visible()
            await page.wait_for_function(PASSAGE_IS_IN_VIEW)
            await require_accessible(page)


async def test_a_reader_sees_theirs_and_nothing_to_change(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        root = bearer(place, "dana", "operator", "reader")
        done = await imported(client, root, ("lamp.md", LAMP), folder="mine", grants=["user:dana"])
        doc_id = done["files"][0]["doc_id"]
        url = str(client.base_url)
        async with signed_in(browser, url, place, "dana", "reader", reduced_motion="reduce") as page:
            await page.goto("/documents?search=mine/")
            await page.get_by_role("link", name="The lamp").click()
            await expect(page.get_by_text("Turn the lamp off")).to_be_visible()
            assert await page.locator("form[data-change], button.danger, #drop").count() == 0
            await require_fit(page)
        async with signed_in(browser, url, place, "guest", "reader", expected=("404",)) as page:
            await page.goto("/documents?search=mine/")
            await expect(page.get_by_text("No document matches")).to_be_visible()
            await page.goto(f"/documents/{doc_id}")
            assert "Turn the lamp off" not in await page.content()


async def test_the_sum_of_many_files_stands_above_their_rows(place: Workspace) -> None:
    files = [[f"n{n}.md", f"# Note {n}\n\nBees dance."] for n in range(5)]
    async with served(place) as client, chromium() as browser:
        async with opened(browser, client, place) as page:
            # What becomes of them isn't told, so that the page stays as it is while it is measured.
            await page.route("**/api/imports/*/events", lambda route: route.fulfill(status=204))
            await page.goto("/documents")
            await page.evaluate(DROP, [*files, ["b.xyz", "?"]])
            await expect(page.locator("p[data-sum]")).to_contain_text("0 of 6 files ready")
            await require_fit(page)


async def test_what_came_of_an_upload_is_told_after_its_last_file_and_leads_to_a_question(place: Workspace) -> None:
    """The page isn't left for the first files that are ready while others are still sent."""
    files = [[f"n{n}.md", f"# Note {n}\n\nBees dance."] for n in range(60)]
    async with served(place) as client, chromium() as browser, opened(browser, client, place) as page:
        await page.goto("/documents")
        await page.evaluate(DROP, [*files, ["b.xyz", "?"]])
        told = page.locator("#uploads-sum")
        await expect(told).to_contain_text("60 of 61 files ready · 1 not taken")
        await expect(page.locator(".documents").get_by_text("b.xyz")).to_be_visible()
        await require_fit(page)
        await told.get_by_role("link", name="Ask something").click()
        await expect(page.locator("#text")).to_be_visible()


async def test_the_owner_of_other_peoples_documents_reads_why_there_is_none(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        await client.get("/login", params={"code": login_code(place)})
        for path in ("/", "/documents"):
            assert "they belong to others" in (await client.get(path)).text, path


async def test_an_owner_who_reads_nothing_is_told_so_after_an_upload_and_led_on(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser, opened(browser, client, place) as page:
        await page.goto("/chat")
        await page.evaluate(DROP, [["n1.md", "# Note 1\n\nBees dance."], ["n2.md", "# Note 2\n\nAnts walk."]])
        await page.wait_for_url("**/documents")
        told = page.locator("#uploads-sum")
        await expect(told).to_contain_text("2 of 2 files ready; you can't read them yet")
        await require_fit(page)
        await told.get_by_role("button", name="Read every document as the owner").click()
        await page.get_by_role("button", name="Write it").click()
        await page.goto("/documents?search=Note")
        await expect(page.get_by_role("link", name="Note 2")).to_be_visible()
