"""What people do in the browser from beginning to end, by mouse, in one Chromium: a wrong answer, a failed run, a
schedule, trust, a model, a new person. Others are in test_library, test_inbox and test_optimize."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.runs import RunStore
from hive_agents.workspace import is_trusted, trusted
from tests.agents.conftest import write_json
from tests.models.openai_server import model_server
from tests.pages.browser import chromium, needs_chromium, signed_in, window
from tests.pages.people import noting_agent
from tests.pages.test_library import opened, require_fit
from tests.server.serving import sample, served
from tests.server.test_documents_http import LAMP, without_documents

pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


async def write(page: Page) -> None:
    """Look at the change, and have it written."""
    await page.get_by_role("button", name="Look at the change").first.click()
    await page.get_by_role("button", name="Write it").click()
    await expect(page.locator("p.note")).to_be_visible()


async def test_a_wrong_answer_becomes_a_label(browser: Browser, tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    question = "smallest volume the P50 can do"
    async with served(place) as client:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "dana") as dana:
            await dana.goto("/chat")
            await dana.locator("#text").fill(question)
            await dana.keyboard.press("Enter")
            await dana.locator(".reply").wait_for()
            first = dana.locator(".result").first
            await first.get_by_text("Say what you think of it").click()
            await first.get_by_label("This result is").select_option("wrong_document")
            await first.get_by_role("button", name="Send").click()
            await dana.get_by_text("Thank you: another person reviews it.").wait_for()
        async with signed_in(browser, url, place, "root", "reader", "operator") as root:
            await root.goto("/golden/feedback")
            await root.get_by_role("button", name="Accept").click()
            await expect(root.get_by_role("button", name="Accept")).to_have_count(0)


async def test_a_failed_run_is_retried(browser: Browser, tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    script = (place.root / "script.jsonl").read_text(encoding="utf-8")
    write_json(place, "script.jsonl", json.dumps({"error": "authentication"}) + "\n" + script)
    async with served(place) as client:
        async with signed_in(browser, str(client.base_url), place, "root", "reader", "operator") as page:
            await page.goto("/colony")
            await page.locator("summary", has_text="writer").click()
            await page.get_by_role("button", name="Start writer").click()
            await page.wait_for_url("**/colony/runs/r*")
            again = page.get_by_role("button", name="Retry")
            await expect(again).to_be_visible()
            run = page.url.rpartition("/")[2]
            assert RunStore(place).get(run).status == "failed"
            await again.click()
            await page.get_by_text("a person was asked").wait_for()
            await expect(again).to_have_count(0)


async def test_an_agent_starts_on_a_schedule(browser: Browser, tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    noting_agent(place)
    async with served(place) as client, opened(browser, client, place) as page:
        await page.goto("/settings")
        await page.get_by_role("link", name="Schedules").click()
        await expect(page.get_by_text("Nothing starts by itself yet.")).to_be_visible()
        await page.get_by_label("Agent", exact=True).select_option("writer")
        await page.get_by_role("button", name="Go on").click()
        await page.get_by_label("A short name").fill("morning")
        await page.get_by_label("How often").select_option("workday")
        await page.get_by_label("At", exact=True).fill("08:30")
        await write(page)
        await expect(page.locator(".documents time")).to_have_count(5)
        await page.goto("/colony")
        await expect(page.get_by_text("morning").first).to_be_visible()
        await page.goto("/settings/schedules")
        await page.get_by_role("button", name="Let morning rest").click()
        await page.get_by_role("button", name="Write it").click()
        await expect(page.locator(".documents time")).to_have_count(0)
        await expect(page.get_by_role("button", name="Let morning go on")).to_be_visible()


async def test_an_agent_is_made_and_run(browser: Browser, tmp_path: Path) -> None:
    place = without_documents(tmp_path / "ws")
    toml = place.root / "hive.toml"
    chat = '[models]\nchat = ["scripted:script.jsonl"]'
    toml.write_text(toml.read_text(encoding="utf-8").replace("[models]", chat), encoding="utf-8")
    said = {"tool_calls": [{"name": "set_output", "args": {"key": "result", "value": "three moths"}}]}
    write_json(place, "script.jsonl", json.dumps(said))
    place = Workspace(place.root)
    async with served(place) as client, opened(browser, client, place) as page:
        await page.goto("/colony")
        await page.get_by_role("link", name="Make an agent").click()
        await require_fit(page)
        await page.get_by_label("A short name").fill("counter")
        await page.get_by_label("What it is for").fill("Count moths")
        await page.get_by_label("What it does, step by step").fill("Count the moths.\nSay how many.")
        await page.get_by_label("search_documents").check()
        await page.get_by_role("button", name="Look at the change").click()
        await require_fit(page)
        await page.get_by_role("button", name="Write it").click()
        await expect(page.get_by_text("The agent is made.")).to_be_visible()
        await page.get_by_role("link", name="Start one").click()
        await page.locator("summary", has_text="counter").click()
        await page.get_by_label("task").fill("those at the lamp")
        await page.get_by_role("button", name="Start counter").click()
        await page.wait_for_url("**/colony/runs/r*")
        await expect(page.get_by_text("three moths").first).to_be_visible()


async def test_everything_is_examined(browser: Browser, tmp_path: Path) -> None:
    place = without_documents(tmp_path / "ws")
    async with served(place, roles=("http",)) as client, opened(browser, client, place) as page:
        await page.goto("/settings/records")
        await page.get_by_role("button", name="Examine everything").click()
        await expect(page.get_by_role("heading", name="What was found just now")).to_be_visible()
        await require_fit(page)


async def test_trust_is_given_to_what_was_read(browser: Browser, tmp_path: Path) -> None:
    place = without_documents(tmp_path / "ws")
    (place.root / "tools").mkdir()
    (place.root / "tools" / "mine.py").write_text("WORD = 'moth'\n", encoding="utf-8")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + '[tools]\npython = ["tools/*.py"]\n', encoding="utf-8")
    async with served(place, roles=("http",)) as client, opened(browser, client, place) as page:
        await page.goto("/settings/trust")
        await expect(page.get_by_text("WORD = 'moth'")).to_be_visible()
        await page.get_by_role("button", name="Decide about tools/mine.py").click()
        await expect(page.get_by_text("It is trusted as it was shown.")).to_be_visible()
        await expect(page.get_by_role("button", name="Decide about tools/mine.py")).to_have_count(0)
    found = {one.name: one.status for one in trusted.parts(place)}
    assert (found["tools/mine.py"], found["hive.toml: tools.python"]) == ("trusted", "new")


async def test_a_model_is_connected_and_answers(browser: Browser, tmp_path: Path) -> None:
    place = without_documents(tmp_path / "ws")
    (place.documents / "lamp.md").write_bytes(LAMP)
    with model_server() as server:
        async with served(place, roles=("http",)) as client, opened(browser, client, place) as page:
            await page.goto("/")
            await page.get_by_role("link", name="Connect a language model").click()
            await page.get_by_label("Address").fill(server.url)
            await page.get_by_label("Name of the model there").fill("small")
            await page.get_by_label("A short name").fill("lab")
            await write(page)
            await expect(page.get_by_text("It uses them from its next start on.")).to_be_visible()
            await page.get_by_role("button", name="Test them").click()
            await expect(page.locator("section .badge").first).to_be_visible()
        place = Workspace(place.root)
        assert is_trusted(place, "models.chat", "models.endpoints.lab")
        async with served(place) as client, opened(browser, client, place) as page:
            await page.goto("/chat")
            await page.locator("#text").fill("when is the lamp turned off?")
            await page.keyboard.press("Enter")
            await page.locator(".reply").wait_for()
            await page.goto("/settings/models")
            await expect(page.get_by_text("It uses them from its next start on.")).to_have_count(0)
        assert server.bodies(), "the model was asked"


async def test_a_new_person_sees_only_hers(browser: Browser, tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        url = str(client.base_url)
        async with signed_in(browser, url, place, "root") as root:
            await root.goto("/settings/people")
            await root.get_by_label("Name", exact=True).fill("nora")
            await write(root)
            assert known_principal(place, "nora").tenant == "acme"
            await root.goto("/documents/sops/change-approval.md")
            await root.locator("#grants").fill("user:nora")
            await root.get_by_role("button", name="Save").click()
            await expect(root.locator("#grants")).to_have_attribute("data-was", "user:nora")
            await root.goto("/settings/tokens")
            await root.get_by_label("Name", exact=True).select_option("nora")
            await root.get_by_role("button", name="Make a token").click()
            token = await root.locator("#made").input_value()
        context = await window(browser, url)
        nora = await context.new_page()
        await nora.goto("/login")
        await nora.locator("#token").fill(token)
        await nora.keyboard.press("Enter")
        await nora.wait_for_url("**/")
        await expect(nora.get_by_role("link", name="Settings")).to_have_count(0)
        await nora.goto("/documents?search=change-approval")
        await expect(nora.locator(".documents a")).to_have_count(1)
        await context.close()
        async with signed_in(browser, url, place, "guest") as guest:
            await guest.goto("/documents?search=change-approval")
            await expect(guest.locator(".documents a")).to_have_count(0)
