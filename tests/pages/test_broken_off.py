"""A server that is killed in the middle of an answer, and a browser that is offline for a while; nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from hive_agents import Workspace
from hive_agents.runs import RunStore
from tests.cli.test_serve import serve
from tests.models.openai_server import Slow, model_server
from tests.pages.browser import chromium, needs_chromium, signed_in
from tests.ports import lasting_port
from tests.server.serving import SETTINGS, sample, served

pytestmark = [pytest.mark.slow, needs_chromium]
QUESTION = "smallest volume the P50 can do"


@contextmanager
def process(place: Workspace, url: str) -> Iterator[None]:
    """A server until it is killed."""
    with serve(place, "--headless", "--quiet", stdout=subprocess.DEVNULL) as running:
        try:
            while not _is_ready(url):
                assert running.poll() is None
            yield
        finally:
            running.kill()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


async def test_an_answer_comes_though_its_server_was_killed_in_the_middle(tmp_path: Path) -> None:
    with model_server() as model:
        port = lasting_port()
        named = f'[models]\nchat = ["lab:small"]\n[models.endpoints.lab]\nbase_url = "{model.url}"\n'
        settings = SETTINGS.replace("port = 0", f"port = {port}") + named + "[runs]\nlease_seconds = 2.0\n"
        place = sample(tmp_path / "ws", settings)
        model.failures = [Slow(600)]
        url = f"http://127.0.0.1:{port}"
        async with chromium() as browser:
            first, second = ExitStack(), ExitStack()
            await asyncio.to_thread(first.enter_context, process(place, url))
            async with signed_in(browser, url, place, expected=("ERR_",)) as page:
                await page.goto("/chat")
                await page.get_by_label("Your question").fill(QUESTION)
                await page.keyboard.press("Enter")
                await page.get_by_role("button", name="Stop").wait_for()
                while not model.requests:
                    await asyncio.sleep(0.05)
                first.close()
                await page.get_by_text("The connection broke").wait_for()
                await page.get_by_label("Your question").fill("a draft")
                await asyncio.to_thread(second.enter_context, process(place, url))
                await page.locator(".reply").wait_for()
                assert await page.locator("article.turn").count() == 1
                assert await page.get_by_label("Your question").input_value() == "a draft"
                await page.reload()
                await expect(page.locator(".reply")).to_have_count(1)
                second.close()
        (run,) = RunStore(place).list()
        assert run.status == "done"


async def test_what_was_typed_offline_is_sent_once_the_browser_is_back(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, expected=("ERR_",)) as page:
            await page.goto("/chat")
            field = page.get_by_label("Your question")
            await page.context.set_offline(True)
            await field.fill(QUESTION)
            await page.keyboard.press("Enter")
            await page.get_by_text("The server can't be reached. What you wrote is still here.").wait_for()
            assert await field.input_value() == QUESTION
            assert RunStore(place).list() == []
            await page.context.set_offline(False)
            await page.get_by_role("button", name="Ask", exact=True).click()
            await page.locator(".reply").wait_for()
            assert await page.locator("article.turn").count() == 1
        assert len(RunStore(place).list()) == 1
