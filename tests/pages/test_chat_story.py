"""Stories of the chat and the golden set in a real Chromium: readers, keyboard alone, and what breaks on the way."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from hive_agents import Workspace
from hive_agents.access import issued_tokens, revoke
from hive_agents.events import Event, EventLog, EventType
from hive_agents.host import Host
from hive_agents.runs import RunStore
from hive_agents.server import streams
from tests.pages.browser import (
    NARROW,
    chromium,
    needs_chromium,
    reached,
    require_accessible,
    require_told,
    signed_in,
    skipped,
)
from tests.ports import lasting_port
from tests.server.serving import SETTINGS, sample, served, token

pytestmark = [pytest.mark.slow, needs_chromium]
QUESTION = "smallest volume the P50 can do"


async def ask(page: Page, text: str) -> None:
    await page.locator("#ask:not([aria-busy])").wait_for()  # the one before is on its way until it is answered
    await page.get_by_label("Your question").fill(text)
    await page.keyboard.press("Enter")


async def test_two_readers_ask_the_same_and_see_what_each_may_open(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        url = str(client.base_url)
        found = {}
        for who in ("dana", "guest"):
            async with signed_in(browser, url, place, who) as page:
                await page.goto("/chat")
                assert await page.get_by_text(f"Asking as {who} of acme").is_visible()
                await ask(page, "who approves a change request?")
                await page.locator(".reply").wait_for()
                found[who] = await page.locator(".result .path").all_inner_texts()
                assert await page.get_by_text("Results are limited to documents that you can open.").count() == 2
                await require_accessible(page)
        seen = {who: {one.split(" ")[0] for one in paths} for who, paths in found.items()}
        assert "sops/change-approval.md" in seen["dana"]
        assert "sops/change-approval.md" not in seen["guest"]


@pytest.mark.parametrize("how", [{}, {"viewport": NARROW, "color_scheme": "dark"}], ids=["wide", "narrow"])
async def test_by_keyboard_from_the_question_to_the_passage_in_a_text(tmp_path: Path, how: dict[str, str]) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, **how) as page:
            await page.goto("/chat")
            await page.keyboard.type("smallest volume of the P50 head")  # the field has the focus
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/chat/t*")
            await page.locator(".result").first.wait_for()
            await skipped(page, "#turn-")
            await reached(page, ".result h3 a")
            await page.keyboard.press("Enter")
            passage = page.locator("#beside #passage")
            await passage.wait_for()
            assert await passage.is_visible()
            assert await page.locator(".passage.large").count() == 1
            await require_accessible(page)
            wide = await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert wide, "the page scrolls sideways"
            await page.keyboard.press("Escape")
            assert await page.locator("#beside > *").count() == 0
            assert await page.evaluate("document.activeElement.closest('.result h3') !== null")
            await skipped(page, "#text")
            await page.keyboard.type("and the largest?")
            await page.keyboard.press("Enter")
            second = page.locator("article.turn").nth(1)
            await second.locator(".reply").wait_for()
            await skipped(page, "#turn-")
            await reached(page, "article.turn:nth-of-type(2) [data-edit]", most=2)


async def test_filters_options_edits_and_opinions_go_on_in_the_thread(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root") as page:
            await page.goto("/chat")
            await ask(page, "effective SOPs about cleaning validation")
            await page.locator(".reply").wait_for()
            await page.get_by_role("button", name="Ask again without status = effective").click()
            second = page.locator("article.turn").nth(1)
            await second.locator(".reply").wait_for()
            assert "status" not in await second.locator(".filters").inner_text()
            await page.get_by_text("Add a filter").click()
            await page.get_by_label("Field").select_option("status")
            await page.get_by_label("Value").fill("effective")
            await page.get_by_role("button", name="Add it").click()
            await page.reload()
            assert "status = effective" in await page.locator("#pinned").inner_text()
            await ask(page, "cleaning of a vessel")
            third = page.locator("article.turn").nth(2)
            await third.locator(".reply").wait_for()
            assert "status = effective" in await third.locator(".filters").inner_text()
            await page.locator("#pinned button").click()
            await ask(page, "show me stuff")
            fourth = page.locator("article.turn").nth(3)
            await fourth.locator(".options button").first.click()
            await page.locator("article.turn").nth(4).locator(".reply").wait_for()
            await page.locator("article.turn").first.get_by_role("button", name="Edit and ask again").click()
            assert await page.get_by_label("Your question").input_value() == "effective SOPs about cleaning validation"
            await page.evaluate("window.scrollTo(0, 0)")
            await page.locator(".result h3 a").first.click()
            await page.locator("#beside .document").wait_for()
            assert await page.evaluate("window.scrollY") < 300, "what was read moves away"
            await page.locator("#beside [data-close]").click()
            card = third.locator(".result").first
            await card.get_by_text("Say what you think of it").click()
            await card.get_by_label("This result is").select_option(label="the right document, but the wrong passage")
            await card.get_by_label("Why (if you like)").fill("it is the table below")
            async with page.expect_request("**/api/feedback") as said:
                await card.get_by_role("button", name="Send").click()
            body = (await said.value).post_data_json
            said_of_it = {name: body[name] for name in ("verdict", "passage", "comment")}
            assert said_of_it == {"verdict": "relevant", "passage": "wrong", "comment": "it is the table below"}
            await card.get_by_text("You have said what you think of this.").wait_for()
            await card.get_by_label("This result is").wait_for(state="hidden")
            await card.get_by_text("Say what you think of it").click()
            await card.get_by_label("This result is").select_option("wrong_document")
            await card.get_by_label("Why (if you like)").fill("it is about glass")
            await card.get_by_role("button", name="Send").click()
            await require_told(page, "Thank you: another person reviews it.")
            await third.get_by_text("How this was made").click()
            await third.get_by_text("checking what may be opened").wait_for()
            await page.get_by_text("Manage", exact=True).click()
            await page.get_by_label("Title", exact=True).fill("Cleaning, all about it")
            await page.get_by_role("button", name="Rename").click()
            await page.get_by_role("heading", name="Cleaning, all about it").wait_for()
            await page.get_by_label("Search titles and questions").fill("no such words")
            await page.get_by_text("None has these words").wait_for()
            await page.get_by_label("Search titles and questions").fill("cleaning")
            await page.locator("#threads a").first.wait_for()
            page.on("dialog", lambda dialog: dialog.accept())
            await page.get_by_text("Manage", exact=True).click()
            await page.get_by_role("button", name="Delete").click()
            await page.wait_for_url("**/chat")
            await page.get_by_text("None yet").wait_for()


async def test_an_answer_is_copied_with_the_documents_that_its_numbers_mean(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS + '[models]\nanswer = ["scripted:answer.jsonl"]\n')
    said = {"content": "The smallest volume that the P50 can do is 0.5 µl [1].", "repeat": True}
    (place.root / "answer.jsonl").write_text(json.dumps(said) + "\n", encoding="utf-8")
    async with served(place) as client, chromium() as browser:
        how = {"permissions": ["clipboard-read", "clipboard-write"]}
        async with signed_in(browser, str(client.base_url), place, **how) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.get_by_role("button", name="Copy").click()
            await page.get_by_text("Copied, with its sources.").wait_for()
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert "[1]" in copied.split("\n\n")[0]
            assert "[1] Labware and volume limits (api-docs/labware.md)" in copied.splitlines()


@pytest.mark.parametrize("width", [390, 820, 1440])
async def test_what_a_reader_says_of_a_models_answer_waits_for_a_reviewer(tmp_path: Path, width: int) -> None:
    place = sample(tmp_path / "ws", SETTINGS + '[models]\nanswer = ["scripted:answer.jsonl"]\n')
    said = {"content": "The smallest volume that the P50 can do is 0.5 µl [1].", "repeat": True}
    (place.root / "answer.jsonl").write_text(json.dumps(said) + "\n", encoding="utf-8")
    how: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
    async with served(place) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, **how) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            answer = page.locator(".answer")
            await answer.get_by_role("button", name="Good answer").focus()
            await page.keyboard.press("Enter")
            await page.get_by_text("Thank you: another person reviews it.").wait_for()
            await page.keyboard.press("Tab")
            await page.keyboard.press("Enter")  # the menu beside it
            await answer.get_by_label("This answer is").select_option("incomplete")
            await answer.get_by_label("Why (if you like)").fill("and the largest?")
            await require_accessible(page, targets=True)
            wide = await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert wide, "the page scrolls sideways"
            async with page.expect_response("**/api/feedback"):
                await answer.get_by_role("button", name="Send").click()
        async with signed_in(browser, url, place, "root", **how) as page:
            await page.goto("/golden/feedback")
            card = page.locator(".result")
            await expect(card).to_have_count(1)  # the second opinion stands for the first
            await expect(card.locator(".badge")).to_have_text("incomplete")
            await expect(card.locator("blockquote")).to_contain_text("0.5 µl [1]")
            await expect(card.get_by_role("link", name="Label this question")).to_be_visible()
            await require_accessible(page, targets=True)
            await card.get_by_role("button", name="Accept").click()
            await page.get_by_text("Nothing waits for a review").wait_for()


@pytest.mark.parametrize(("width", "language"), [(390, "de"), (820, "en"), (1440, "en")])
async def test_what_may_be_asked_next_stands_under_the_newest_answer(
    tmp_path: Path, width: int, language: str
) -> None:
    """By the pointer, then by keys; what is asked begins the next turn, which has proposals of its own."""
    place = sample(tmp_path / "ws")
    how: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "locale": language}
    valid = {"en": "Which of it is valid? (status: effective)", "de": "Was davon gilt? (status: effective)"}[language]
    same = {"en": "The same with status: retired", "de": "Dasselbe mit status: retired"}[language]
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, **how) as page:
            await page.goto("/chat")
            await page.keyboard.type(QUESTION)
            await page.keyboard.press("Enter")
            turns = page.locator("article.turn")
            await turns.first.locator(".reply").wait_for()
            assert await turns.first.locator(".next button").count() in range(1, 4)
            await require_accessible(page, targets=True)
            wide = await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert wide, "the page scrolls sideways"
            await turns.first.get_by_role("button", name=valid).click()
            await expect(turns.nth(1).locator(".filters")).to_contain_text("status = effective")
            await turns.nth(1).locator(".reply").wait_for()
            await expect(turns.first.locator(".next")).to_be_hidden()
            again = turns.nth(1).get_by_role("button", name=same)
            await again.focus()
            await page.keyboard.press("Enter")
            await expect(turns.nth(2).locator(".filters")).to_contain_text("status = retired")
            await turns.nth(2).locator(".reply").wait_for()


async def test_what_is_typed_while_a_question_is_sent_stays_for_the_next_one(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    sent, goes_on = asyncio.Event(), asyncio.Event()

    async def held(route: Route) -> None:
        sent.set()
        await goes_on.wait()
        await route.continue_()

    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.locator(".reply").wait_for()
            await page.route("**/api/runs", held)
            await ask(page, "show me stuff")
            await sent.wait()
            await page.get_by_label("Your question").fill("all retired documents")
            goes_on.set()
            await page.locator("article.turn").nth(1).locator(".options").wait_for()
            assert await page.get_by_label("Your question").input_value() == "all retired documents"
            await page.reload()
            assert await page.get_by_label("Your question").input_value() == "all retired documents"
            await ask(page, "hello")
            await page.locator("article.turn").nth(2).locator(".reply").wait_for()
            assert await page.get_by_label("Your question").input_value() == ""


async def test_a_stopped_question_says_so_and_can_be_asked_again(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client, chromium() as browser:  # nobody answers
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_text("Stopped before there was an answer.").wait_for()
            await page.get_by_role("button", name="Ask again", exact=True).click()
            await page.get_by_role("button", name="Stop").wait_for()


async def test_a_revoked_token_is_told_over_the_page_and_nothing_typed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.1)
    place = sample(tmp_path / "ws")
    question = "a long question that took a while to write"
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, expected=("401",)) as page:
            await page.goto("/chat")
            await page.get_by_label("Your question").fill(question)
            await page.get_by_label("Your question").fill(question)  # before: the page may hear of it by itself
            for made in issued_tokens(place):
                revoke(place, made["jti"])
            await page.keyboard.press("Enter")
            dialog = page.get_by_role("dialog", name="You are signed out")
            await dialog.get_by_label("Token").fill(token(place))
            await page.keyboard.press("Enter")
            await dialog.wait_for(state="hidden")
            assert await page.get_by_label("Your question").input_value() == question
            await page.get_by_label("Your question").press("Enter")
            await page.wait_for_url("**/chat/t*")
            await page.locator(".reply").wait_for()
            await page.get_by_text(question).first.wait_for()


async def test_a_server_that_is_restarted_in_the_middle_of_a_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", SETTINGS.replace("port = 0", f"port = {lasting_port()}"))
    async with AsyncExitStack() as first, chromium() as browser:
        client = await first.enter_async_context(served(place, roles=("http",)))  # nobody answers yet
        async with signed_in(browser, str(client.base_url), place, expected=("ERR_",)) as page:
            followed: list[str | None] = []
            page.on("request", lambda one: followed.append(one.url) if one.url.endswith("/events") else None)
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.get_by_role("button", name="Stop").wait_for()
            began = _begun(place)
            await page.get_by_text("Being answered").wait_for()
            await first.aclose()
            await page.get_by_text("The connection broke").wait_for()
            await page.get_by_label("Your question").fill("a draft")
            async with served(place):
                await page.locator(".reply").wait_for()
                assert await page.locator("article.turn").count() == 1
                assert await page.get_by_label("Your question").input_value() == "a draft"
            assert len(followed) >= 2
            assert all(one is not None and began in one for one in followed)


def _begun(place: Workspace) -> str:
    """The log says that a run began, though nobody works on it. Its id."""
    row = RunStore(place).list()[0]
    named = {"run_id": row.run_id, "thread_id": row.thread_id, "tenant": row.tenant}
    EventLog(place).append([Event(EventType.RUN_STARTED, **named)])
    return row.run_id


async def test_a_question_is_labelled_by_keys_and_feedback_is_reviewed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place) as page:
            await page.goto("/chat")
            await ask(page, "where does the tip box go?")
            await page.locator(".reply").wait_for()
            card = page.locator(".result").first
            await card.get_by_text("Say what you think of it").click()
            await card.get_by_label("Why (if you like)").fill("shows the deck")
            await card.get_by_role("button", name="Send").click()
            await require_told(page, "Thank you")
        async with signed_in(browser, url, place, "root") as page:
            await page.goto("/golden")
            await page.get_by_text("can show a gain of").wait_for()
            await page.get_by_role("link", name="1 to review").click()
            await page.get_by_text("shows the deck").wait_for()
            await page.get_by_role("button", name="Accept").click()
            await page.get_by_text("Nothing waits for a review").wait_for()
            await page.goto("/golden/label?query=which key do I press to stop the robot")
            first = await page.locator("[data-doc]").first.get_attribute("data-doc")
            await page.keyboard.press("n")
            await require_told(page, "Nothing is marked yet")
            await page.keyboard.press("r")
            await page.keyboard.press("d")
            await page.keyboard.press("u")
            await page.keyboard.press("i")
            await page.keyboard.press("s")
            await page.keyboard.press("o")
            await page.locator(".opened .text").first.wait_for()
            await require_accessible(page)
            await page.reload()  # what was marked stays
            assert await page.locator('[data-mark="relevant"][data-doc]').get_attribute("data-doc") == first
            await page.keyboard.press("n")
            await page.wait_for_url("**/golden*")
            await page.get_by_text("The labels are saved.").wait_for()
        golden = json.loads((place.root / "evals" / "golden.json").read_text(encoding="utf-8"))
        by_text = {one["query"]: one for one in golden["queries"]}
        kept = by_text["which key do I press to stop the robot"]
        assert kept["relevant"] == [first]
        assert "irrelevant" not in kept, "not every document was judged"
        assert by_text["where does the tip box go?"]["split"] == "train"


async def test_a_reply_that_could_not_be_fetched_is_fetched_again(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    asked_for: list[str] = []

    async def second_fails(route: Route) -> None:
        asked_for.append(route.request.url)
        await (route.abort() if len(asked_for) == 2 else route.continue_())

    async with served(place, roles=("http",)) as client, chromium() as browser:
        url = str(client.base_url)
        async with signed_in(browser, url, place, expected=("Failed to load", "Failed to fetch")) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.wait_for_url("**/chat/t*")
            await page.route("**/chat/*/turns/*", second_fails)
            await ask(page, "who approves a change request?")
            await page.locator("article.turn").nth(1).wait_for()
            async with Host(place, roles=("runs",)):
                await page.locator(".reply").nth(1).wait_for()
            assert len(asked_for) > 2


async def test_going_back_closes_the_document_and_keeps_the_conversation(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, viewport=NARROW) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.locator(".result h3 a").first.click()
            await page.locator("#beside #passage").wait_for()
            here = page.url
            await page.evaluate("history.back()")  # as the browser's button does; goto's waiting is not for this
            await page.locator("#beside > *").wait_for(state="detached")
            assert page.url == here
            assert await page.locator(".reply").count() == 1
            await page.locator(".result h3 a").first.click()
            await page.locator("#beside .document").wait_for()
            await page.locator("#beside [data-close]").click()
            await page.locator("#beside > *").wait_for(state="detached")
            await page.wait_for_function("!history.state?.beside")  # the browser goes back after that
            await page.reload()
            await page.locator(".reply").wait_for()


async def test_what_is_asked_in_one_tab_comes_to_the_other_once(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place) as page:
            await page.goto("/chat")
            await ask(page, QUESTION)
            await page.locator(".reply").wait_for()
            other = await page.context.new_page()
            await other.goto(page.url)
            await other.locator(".reply").wait_for()
            await page.bring_to_front()
            await ask(page, "show me stuff")
            await page.locator("article.turn").nth(1).locator(".options").wait_for()
            await other.bring_to_front()
            await other.locator("article.turn").nth(1).locator(".options").wait_for()
            await ask(other, "all retired documents")
            await other.locator("article.turn").nth(2).locator(".results").wait_for()
            await page.bring_to_front()
            await page.locator("article.turn").nth(2).locator(".results").wait_for()
            for one in (page, other):
                assert await one.locator("article.turn").count() == 3
