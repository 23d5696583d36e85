"""Ten stories in one Chromium, each from an empty workspace, by the pointer and by keys alone, at three widths.

Whoever acts in them opens no terminal: `hive init --empty` and `hive serve` are all that is done for them, and what
somebody else has: a model's server, a provider at which people sign in, a colleague's tool that came with the folder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.models.openai_server import KEY, Status, model_server
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
from tests.pages.hosted import begun
from tests.server.provider import CLIENT, SECRET, open_id_provider

pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.asyncio(loop_scope="module")]
FILES = {
    "lamp.md": "# The lamp\n\nWhen the lamp is turned off: before you open the housing, turn the lamp off.\n",
    "old-lamp.md": "# The lamp of 2019\n\nThe lamp was never turned off in those days, and nobody asked about it.\n",
    "oven.md": "# The oven\n\nA lamp glows on the oven, for a long time, when it is on.\n",
    "pump.md": "# The pump\n\nThe pump is turned off on Fridays, and nobody touches it before Monday morning.\n",
}
QUESTION = "when is the lamp turned off?"
MAIL = """from hive_agents import tool


@tool(side_effect="external")
def send_mail(to: str) -> str:
    \"\"\"Send a mail.\"\"\"
    return "sent"
"""
MAILS: dict[str, Any] = {"files": {"tools/mine.py": MAIL}, "settings": '[tools]\npython = ["tools/*.py"]\n'}
"""A colleague's tool, which came with the folder; nobody trusts it yet."""
Beside = Callable[[], Any]


@contextmanager
def a_model(*, people: int = 0, fails: bool = False) -> Iterator[dict[str, str]]:
    """A server that asks for a key; its model writes to so many people once it can, and says what agents are asked for.
    With `fails` it doesn't know its first caller."""
    with model_server() as server:

        def says(body: dict[str, Any]) -> Any:
            tools = {one["function"]["name"] for one in body.get("tools", [])}
            if "send_mail" in tools and not any(one["role"] == "tool" for one in body["messages"]):
                return [{"name": "send_mail", "arguments": {"to": f"kim{n}@example.org"}} for n in range(people)]
            if "set_output" in tools:
                return {"name": "set_output", "arguments": {"key": "result", "value": "three moths"}}
            return None

        server.key, server.says = KEY, says
        server.failures = [Status(401, "not today")] if fails else []
        yield {"model": server.url, "key": KEY}


@contextmanager
def a_provider() -> Iterator[dict[str, str]]:
    with open_id_provider() as provider:
        yield {"issuer": provider.issuer}


@contextmanager
def nobody() -> Iterator[dict[str, str]]:
    yield {}


def soon(minutes: int = 1) -> str:
    """Return a full minute which isn't over before a form is sent."""
    return f"{dt.datetime.now(dt.UTC) + dt.timedelta(seconds=45, minutes=minutes):%H:%M}"


@dataclass(frozen=True)
class Story:
    """`beside` runs beside the server, and gives what the steps know of it; `files` and `settings` came with the
    folder."""

    steps: Sequence[Step]
    beside: Beside = nobody
    files: Any = ()
    settings: str = ""
    others: Sequence[str] = ()
    expected: Sequence[str] = ()


def added(folder: str, name: str) -> list[Step]:
    """The steps of adding a file to a folder, on the page of the documents."""
    return [
        press(summary("Into which folder")),
        write(css("#upload-folder"), folder),
        attach(css("#files"), name),
        see(css(f".documents a[href*='{folder}']")),
    ]


WRITTEN = [press(button("Look at the change")), press(button("Write it"))]
ANEW = [press(button("Begin again now")), see("The server has begun again")]
CONNECTING = [
    press(link("Connect a language model")),
    write(labelled("Address"), "{model}"),
    write(labelled("Name of the model there"), "small"),
    write(labelled("A short name for it"), "lab"),
    press(role("checkbox", "It asks for a key")),
]
KEYED = [
    press(button("Look at the change")),
    write(labelled("Its key"), "{key}"),
    press(button("Write it")),
    see("The model is connected."),
    *ANEW,
]
CONNECTED = [*CONNECTING, *KEYED]
TRUSTED = [
    press(link("Settings")),
    press(link("Tools, servers and trust")),
    see("def send_mail"),
    press(button("Decide about hive.toml: tools.python")),
    see("It is trusted as it was shown."),
    lacks(button("Decide about hive.toml: tools.python")),
]
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
MADE = [*CONNECTED, *MADER, look("a new agent"), *WRITTEN, see("The agent is made.")]
MADE_TO_MAIL = [
    *CONNECTED,
    *TRUSTED,
    *MADER,
    press(role("checkbox", "send_mail", exact=False)),
    *WRITTEN,
    see("The agent is made."),
]
STARTED = [
    press(link("Start one")),
    press(summary("counter")),
    write(labelled("task"), "those at the lamp"),
    press(button("Start counter")),
]

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
    ], beside=partial(a_model, people=12), **MAILS),
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
    ], beside=partial(a_model, people=1), others=["alice"], **MAILS),
    "a failed run is retried": Story([
        *MADE,
        *STARTED,
        see(button("Retry from the last good step")),
        look("failed"),
        press(button("Retry from the last good step")),
        see("three moths"),
        look("retried"),
    ], beside=partial(a_model, fails=True)),
    "a schedule": Story([
        *MADE,
        press(link("All settings")),
        press(link("Schedules")),
        see("Nothing starts by itself yet."),
        pick(labelled("Agent"), "counter"),
        press(button("Go on")),
        write(labelled("A short name for it"), "morning"),
        write(labelled("task"), "those of the night"),
        pick(css("#often"), "Every hour"),
        look("a new schedule"),
        write(css("#at"), soon),
        *WRITTEN,
        see("Next:"),
        look("schedules"),
        press(link("Colony")),
        press(link("counter: those of the night")),
        see("three moths"),
        press(link("Settings")),
        press(link("Schedules")),
        press(button("Let morning rest")),
        press(button("Write it")),
        see(button("Let morning go on")),
    ], beside=a_model),
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
    ], beside=a_model),
    "a server of tools is added": Story([
        press(link("Settings")),
        press(link("Tools, servers and trust")),
        write(labelled("A short name for it"), "desk"),
        write(labelled("Address"), "https://tools.example/mcp"),
        write(labelled("Tools of it that only read"), "find, show"),
        look("a server of tools"),
        *WRITTEN,
        see("The server is written, and its line is trusted."),
        see("mcp.servers.desk"),
        look("written"),
    ]),
    "trust is given": Story([
        *TRUSTED[:3],
        look("to be read"),
        *TRUSTED[3:],
        lacks(button("Decide about tools/mine.py")),
        look("trusted"),
        press(link("All settings")),
        press(link("Storage and health")),
        press(button("Examine everything")),
        see("What was found just now"),
        look("everything examined"),
        press(link("Colony")),
        press(link("Make an agent")),
        see(role("checkbox", "send_mail", exact=False)),
    ], **MAILS),
    "a new reader sees only hers": Story([
        press(link("Documents")),
        *added("open", "lamp.md"),
        *added("secret", "pump.md"),
        press(link("Share a folder")),
        pick(css("#folder"), "open"),
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
        *ANEW,
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
        attach(css("#files"), "lamp.md"),
        see(labelled("Your question")),
        press(link("Hive Agents")),
        *CONNECTING,
        look("a new model"),
        *KEYED,
        press(button("Test them")),
        see("The test just now"),
        see("answers in"),
        look("tested"),
        *ASKED,
        look("in its words"),
    ], beside=a_model),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest.mark.parametrize("hand", [Pointer(), Keys()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", STORIES)
async def test_story(browser: Browser, tmp_path: Path, name: str, hand: Hand) -> None:
    story = STORIES[name]
    for file, content in FILES.items():
        (tmp_path / file).write_text(content, encoding="utf-8")
    async with AsyncExitStack() as stack:
        known = stack.enter_context(story.beside())
        url, login = stack.enter_context(begun(tmp_path, dict(story.files), story.settings))
        complaints: list[str] = []
        pages: dict[str, Page] = {}
        for who in ("owner", *story.others):
            context = await window(browser, url, reduced_motion="reduce", locale="en-GB")
            stack.push_async_callback(context.close)
            pages[who] = page = await context.new_page()
            page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: dialog.accept())
        await pages["owner"].goto(login)
        await play(Played(hand, pages, tmp_path, known), story.steps)
        assert [one for one in complaints if not any(part in one for part in story.expected)] == []
