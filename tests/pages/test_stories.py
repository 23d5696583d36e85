"""Ten stories in one Chromium, each from an empty workspace, by the pointer and by keys alone, at three widths."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from hive_agents import Workspace
from hive_agents.access import login_code
from hive_agents.workspace import trusted
from tests.agents.conftest import write_json
from tests.models.openai_server import model_server
from tests.pages.browser import chromium, needs_chromium, window
from tests.pages.hands import (
    Hand,
    Keys,
    Played,
    Pointer,
    Step,
    Thing,
    attach,
    button,
    css,
    labelled,
    lacks,
    learn,
    link,
    look,
    pick,
    play,
    press,
    role,
    see,
    summary,
    turn,
    write,
)
from tests.ports import lasting_port
from tests.server.provider import CLIENT, SECRET, open_id_provider
from tests.server.serving import served
from tests.server.test_documents_http import without_documents

pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.asyncio(loop_scope="module")]
FILES = {
    "lamp.md": "# The lamp\n\nWhen the lamp is turned off: before you open the housing, turn the lamp off.\n",
    "old-lamp.md": "# The lamp of 2019\n\nThe lamp was never turned off in those days, and nobody asked about it.\n",
    "oven.md": "# The oven\n\nA lamp glows on the oven, for a long time, when it is on.\n",
    "pump.md": "# The pump\n\nThe pump is turned off on Fridays, and nobody touches it before Monday morning.\n",
}
QUESTION = "when is the lamp turned off?"
DONE = {"tool_calls": [{"name": "set_output", "args": {"key": "result", "value": "three moths"}}]}
BROKEN = {"error": "authentication"}


MAIL = """from hive_agents import tool


@tool(side_effect="external")
def send_mail(to: str) -> str:
    \"\"\"Send a mail.\"\"\"
    return "sent"
"""
TOOLS = '[tools]\npython = ["tools/*.py"]\n'


def mails(n: int) -> dict[str, Any]:
    """What a model says that wants to write to so many people."""
    calls = [{"name": "send_mail", "args": {"to": f"kim{k}@example.org"}} for k in range(n)]
    return {"content": "I tell them.", "tool_calls": calls}


@dataclass(frozen=True)
class Story:
    """`says` is what the chat model says, one after the other; `files` stand in the workspace; `beside` runs beside the
    server, and gives what the steps know of it."""

    steps: Sequence[Step]
    says: Sequence[dict[str, Any]] = ()
    files: Sequence[tuple[str, str]] = ()
    settings: str = ""
    beside: Callable[[], Any] = nullcontext
    trusts: bool = False
    others: Sequence[str] = ()
    expected: Sequence[str] = ()


def restarted() -> Step:
    """The server ends, and begins again: settings count from then on."""

    async def step(story: Played) -> None:
        await story.restart()

    return step


def added(folder: str, name: str) -> list[Step]:
    """The steps of adding a file to a folder, on the page of the documents."""
    return [
        press(summary("Into which folder")),
        write(css("#upload-folder"), folder),
        attach(css("#files"), name),
        see(css(f".documents a[href*='{folder}']")),
    ]


WRITTEN = [press(button("Look at the change")), press(button("Write it"))]
ASKED = [
    press(link("Chat")),
    write(labelled("Your question"), QUESTION),
    press(button("Ask")),
    see(css(".result")),
]
MADER = [
    press(link("Colony")),
    press(link("Make an agent")),
    write(labelled("A short name for it"), "counter"),
    write(labelled("What it is for"), "Count moths"),
    write(labelled("What it does, step by step"), "Count the moths. Say how many."),
    press(role("checkbox", "search_documents", exact=False)),
]
MADE = [*MADER, look("a new agent"), *WRITTEN, see("The agent is made.")]
MADE_TO_MAIL = [*MADER, press(role("checkbox", "send_mail", exact=False)), *WRITTEN, see("The agent is made.")]
STARTED = [
    press(link("Start one")),
    press(summary("counter")),
    write(labelled("task"), "those at the lamp"),
    press(button("Start counter")),
]
MAILS: dict[str, Any] = {"files": [("tools/mine.py", MAIL)], "settings": TOOLS, "trusts": True}


@contextmanager
def a_model() -> Iterator[dict[str, str]]:
    with model_server() as server:
        yield {"model": server.url}


@contextmanager
def a_provider() -> Iterator[dict[str, str]]:
    with open_id_provider() as provider:
        yield {"issuer": provider.issuer}


STORIES = {
    "documents become an answer": Story([
        see("Getting started: 0 of 5 done"),
        attach(css("#files"), "lamp.md"),
        see(labelled("Your question")),
        write(labelled("Your question"), QUESTION),
        press(button("Ask")),
        press(link("The lamp")),
        see(css("#beside #passage")),
        look("the passage"),
        press(button("Close")),
        press(link("Hive Agents")),
        see("Getting started: 2 of 5 done"),
        look("home"),
        press(link("Documents")),
        press(button("Examine the documents")),
        see("nothing odd about 1 documents"),
        look("examined"),
    ]),
    "a wrong answer becomes a label and an improvement": Story([
        attach(css("#files"), *FILES),
        *ASKED,
        press(summary("Say what you think of it")),
        pick(labelled("This result is"), "outdated"),
        look("what is wrong"),
        press(button("Send")),
        see("Thank you: another person reviews it."),
        press(link("Label this question")),
        press(button("Relevant", exact=False)),
        press(button("Distractor", exact=False, nth=1)),
        press(button("Distractor", exact=False, nth=2)),
        press(button("Irrelevant", exact=False, nth=3)),
        look("labels"),
        press(button("Save and go on", exact=False)),
        see("The labels are saved."),
        press(link("Improve")),
        press(button("Start")),
        see("Best config"),
        look("what was found"),
        write(labelled("Reason"), "an old document misled us"),
        press(role("checkbox", "Deploy also what is equal, or better without proof")),
        press(button("Deploy")),
        see("v2 serves now."),
        look("deployed"),
    ]),
    "twelve approvals": Story([
        *MADE_TO_MAIL,
        *STARTED,
        see("Waits for your answer:"),
        press(link("Inbox")),
        press(summary("12 × send_mail")),
        look("twelve"),
        press(role("checkbox", "Choose all of it")),
        see("12 chosen"),
        look("all chosen"),
        press(button("Approve them", exact=False)),
        see("All of them are decided."),
        press(link("Colony")),
        press(css("#runs a")),
        see("three moths"),
    ], says=[mails(12), DONE], **MAILS),
    "two people decide at once": Story([
        *MADE_TO_MAIL,
        *STARTED,
        see("Waits for your answer:"),
        press(link("Settings")),
        press(link("People and groups")),
        write(css("#user"), "alice"),
        write(css("#tenant"), "acme"),
        press(role("checkbox", "approver", exact=False)),
        look("a new person"),
        press(button("Look at the change")),
        press(button("Write it")),
        see("The change is written."),
        press(link("All settings")),
        press(link("Tokens")),
        pick(css("#user"), "alice"),
        press(button("Make a token")),
        learn("token", css("#made")),
        turn("alice"),
        write(css("#token"), "{token}"),
        press(button("Sign in")),
        press(link("Inbox")),
        press(link("counter", exact=False)),
        see(button("Approve", exact=False)),
        turn("owner"),
        press(link("Inbox")),
        press(link("counter", exact=False)),
        write(css("#reject-reason"), "I would rather not"),
        turn("alice"),
        press(button("Approve", exact=False)),
        turn("owner"),
        see("alice approved this"),
        look("somebody was faster"),
        see(Thing("a button that does nothing", lambda page: page.locator("[data-decide=reject] button[disabled]"))),
    ], says=[mails(1), DONE], others=["alice"], **MAILS),
    "a failed run is retried": Story([
        *MADE,
        *STARTED,
        see(button("Retry from the last good step")),
        look("failed"),
        press(button("Retry from the last good step")),
        see("three moths"),
        look("retried"),
    ], says=[BROKEN, DONE]),
    "a schedule": Story([
        *MADE,
        press(link("All settings")),
        press(link("Schedules")),
        see("Nothing starts by itself yet."),
        pick(labelled("Agent"), "counter"),
        press(button("Go on")),
        write(labelled("A short name for it"), "morning"),
        pick(css("#often"), "Monday to Friday"),
        write(labelled("task"), "those of the night"),
        look("a new schedule"),
        *WRITTEN,
        see("Next:"),
        look("schedules"),
        press(button("Let morning rest")),
        press(button("Write it")),
        see(button("Let morning go on")),
    ], says=[DONE]),
    "an agent is made and run": Story([
        *MADE,
        *STARTED,
        see("three moths"),
        look("what it came to"),
        press(link("Settings")),
        press(link("Agents")),
        press(link("counter")),
        write(labelled("What it is for"), "Count all moths"),
        look("an agent"),
        *WRITTEN,
        see("The change is written."),
        press(link("counter")),
        press(button("Remove this agent")),
        press(button("Write it")),
        see("Removed."),
        lacks(link("counter")),
    ], says=[DONE]),
    "trust is given": Story([
        press(link("Settings")),
        press(link("Tools and trust")),
        see("WORD = 'moth'"),
        look("to be read"),
        press(button("Decide about tools/mine.py")),
        see("It is trusted as it was shown."),
        lacks(button("Decide about tools/mine.py")),
        look("trusted"),
        press(link("All settings")),
        press(link("Storage and health")),
        press(button("Examine everything")),
        see("What was found just now"),
        look("everything examined"),
    ], files=[("tools/mine.py", "WORD = 'moth'\n")], settings='[tools]\npython = ["tools/*.py"]\n'),
    "a new reader sees only hers": Story([
        press(link("Documents")),
        *added("open", "lamp.md"),
        *added("secret", "pump.md"),
        press(link("Share a folder")),
        write(css("#folder"), "open"),
        write(css("#tenant"), "acme"),
        press(role("checkbox", "Everybody of the organisation")),
        look("a folder to share"),
        *WRITTEN,
        see("The change is written."),
        press(link("All settings")),
        press(link("Sign-in")),
        write(css("#issuer"), "{issuer}"),
        write(css("#client_id"), CLIENT),
        press(role("checkbox", "It gave a secret, too")),
        write(css("#tenant"), "acme"),
        look("a provider"),
        press(button("Look at the change")),
        write(labelled("Its key"), SECRET),
        press(button("Write it")),
        see("It uses them from its next start on."),
        restarted(),
        turn("nora"),
        look("who she is"),
        press(link("Sign in with your organisation")),
        see("Welcome"),
        press(link("Documents")),
        see(link("The lamp")),
        lacks(link("The pump")),
        look("hers"),
        *ASKED,
        see(link("The lamp")),
        lacks(link("The pump")),
    ], beside=a_provider, others=["nora"], expected=["ERR_", "503"]),
    "a model is connected": Story([
        press(link("Connect a language model")),
        write(labelled("Address"), "{model}"),
        write(labelled("Name of the model there"), "small"),
        write(labelled("A short name for it"), "lab"),
        look("a new model"),
        *WRITTEN,
        see("The model is connected."),
        press(button("Test them")),
        see("The test just now"),
        look("tested"),
    ], beside=a_model),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


def told(place: Workspace, story: Story) -> Workspace:
    """The empty workspace with what the story has there before."""
    for path, content in story.files:
        write_json(place, path, content)
    settings = story.settings
    toml = place.root / "hive.toml"
    whole = toml.read_text(encoding="utf-8")
    if story.says:
        write_json(place, "script.jsonl", "\n".join(map(json.dumps, story.says)))
        whole = whole.replace("[models]", '[models]\nchat = ["scripted:script.jsonl"]')
    whole = whole.replace("port = 0", f"port = {lasting_port()}")
    toml.write_text(f"{whole}{settings}", encoding="utf-8")
    place = Workspace(place.root)
    if story.trusts:
        trusted.trust(place)
    return place


@pytest.mark.parametrize("hand", [Pointer(), Keys()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", STORIES)
async def test_story(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hand: Hand) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", base64.urlsafe_b64encode(b"k" * 32).decode())
    story = STORIES[name]
    for file, content in FILES.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    place = told(without_documents(tmp_path / "ws"), story)
    async with AsyncExitStack() as stack, AsyncExitStack() as serving:
        known = stack.enter_context(story.beside()) or {}
        client = await serving.enter_async_context(served(place))
        complaints: list[str] = []
        pages: dict[str, Page] = {}
        for who in ("owner", *story.others):
            context = await window(browser, str(client.base_url), reduced_motion="reduce")
            stack.push_async_callback(context.close)
            pages[who] = page = await context.new_page()
            page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: dialog.accept())

        async def restart() -> None:
            await serving.aclose()
            await serving.enter_async_context(served(Workspace(place.root)))

        await pages["owner"].goto(f"/login?code={login_code(place)}")
        await play(Played(hand, pages, tmp_path, dict(known), restart), story.steps)
        assert [one for one in complaints if not any(part in one for part in story.expected)] == []
