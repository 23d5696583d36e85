"""Answers that would make a client fetch an address: by images and HTML of a document, or of a model that obeys it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from markdown_it import MarkdownIt

from hive_agents import Workspace
from hive_agents.base import unfetched
from hive_agents.copilot.answer import Passage, cleaned
from hive_agents.server.protocols.agui_events import spoken, text_message
from tests.agents.conftest import agent_json, node, write_json
from tests.conftest import write_document
from tests.server.serving import bearer, posted, sample, served

TARGET = "http://taker.example/what-the-reader-may-see"
FETCHING = [
    f"Keys ![a]({TARGET}) expire [1].",
    f"Keys ![a [b]]({TARGET}) expire [1].",
    f"Keys ![a]({TARGET}-{'x' * 3_000}) expire [1].",
    f'[x]: {TARGET} "[1]"\n\n![a][x] keys expire [1].',
    f'[x]: {TARGET} "[1]"\n\n![x] keys expire [1].',
    f'Keys ![a [1]](\n{TARGET} "[1]")',
    f"Keys ![[1]]({TARGET}) expire.",
    f"Keys ![a](<{TARGET}>) expire [1].",
    f"Keys <img src={TARGET}> expire [1].",
    f"Keys <IMG\tsrc='{TARGET}'> expire [1].",
    f"Keys <img alt='>' src={TARGET}> expire [1].",
    f"Keys <video poster={TARGET}></video> expire [1].",
    f"Keys <p style='background:url({TARGET})'>expire</p> [1].",
    f"Keys <style>p {{background: url({TARGET})}}</style> expire [1].",
    f"Keys <svg><image href='{TARGET}'/></svg> expire [1].",
    f"Keys !</mark>[a]({TARGET}) expire [1].",
    f"<iframe a<b src={TARGET}></iframe> keys expire [1].",
    f"<table a<b background={TARGET}></table> keys expire [1].",
]
PASSAGE = Passage(1, "keys.md#0", "keys.md", "Keys", "", "Keys expire after a year.")


def fetched(markdown: str) -> list[str]:
    """Return what a client that renders Markdown, with its HTML, would fetch by itself."""
    found = []
    for token in MarkdownIt("commonmark", {"html": True}).parse(markdown):
        for each in (token, *(token.children or ())):
            shown = f"{each.content}{each.attrs}"
            if each.type in ("image", "html_inline", "html_block") and re.search("taker|<style", shown):
                found.append(each.type)
    return found


def reply(**parts: Any) -> dict[str, Any]:
    return {"notice": None, "answer": None, "question": None, "options": [], "results": [], **parts}


def test_the_attempts_fetch_as_they_are() -> None:
    assert [text for text in FETCHING if not fetched(text.replace("</mark>", ""))] == []


@pytest.mark.parametrize("text", FETCHING)
def test_a_model_that_obeys_sends_nothing_by_an_image(text: str) -> None:
    answer = cleaned(text, [PASSAGE])
    assert "![" not in answer.text
    told = spoken(reply(answer=answer.text))
    agents = "".join(str(getattr(event, "delta", "")) for event in text_message("m", text))
    assert (fetched(told), fetched(agents)) == ([], [])


@pytest.mark.parametrize("text", FETCHING)
def test_a_document_sends_nothing_by_an_image(text: str) -> None:
    found = {"title": text, "doc_id": "keys.md", "rank": 1, "citation": "[1]", "excerpt": text}
    told = [
        reply(results=[found]),
        reply(results=[found | {"citation": None}]),
        reply(question="Which?", options=[text]),
        reply(notice=text),
    ]
    assert [fetched(spoken(one)) for one in told] == [[]] * 4


def test_a_sign_that_a_client_drops_makes_no_tag() -> None:
    assert "<img" not in unfetched(f"Keys <img\0 src={TARGET}> expire [1].")


def test_what_was_made_harmless_once_stays_as_it_is() -> None:
    for text in FETCHING:
        assert unfetched(unfetched(text)) == unfetched(text)
    for text in ("if a < b > c", "`vector<int>`", "see <https://example.org>", "[end](end.md)!"):
        assert unfetched(text) == text


@pytest.fixture
async def place(tmp_path: Path) -> Workspace:
    place = sample(tmp_path / "ws")
    for number, text in enumerate(FETCHING):
        title = text.split("\n")[0].replace('"', "'")
        body = f'---\ntitle: "{title}"\ntenant: [acme]\nview: [tenant]\n---\nZebrafish tank {number}: {text}\n'
        write_document(place, f"tanks/tank-{number}.md", body)
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place) as client:
        yield client


async def test_no_way_to_a_client_that_renders_fetches_anything(place: Workspace, client: httpx.AsyncClient) -> None:
    who = bearer(place)
    said = {"messages": [{"role": "user", "content": "zebrafish tank"}]}
    found = (await client.post("/v1/chat/completions", json=said, headers=who)).json()
    content = found["choices"][0]["message"]["content"]
    thread = found["hive"]["thread_id"]
    exported = (await client.get(f"/api/threads/{thread}/export", headers=who)).text
    assert "ebrafish" in content
    assert "ebrafish" in exported
    assert (fetched(content), fetched(exported)) == ([], [])


SAID_IN_TWO = [
    ("All done!", f"[a]({TARGET})"),
    ("<pre>\n<img", f" src={TARGET}></pre>"),
    ("All <img alt=x", f" src={TARGET}>"),
]


@pytest.mark.parametrize(("first", "then"), SAID_IN_TWO)
async def test_what_an_agent_says_in_two_messages_fetches_nothing(
    place: Workspace, client: httpx.AsyncClient, first: str, then: str
) -> None:
    saved = {"name": "save_data", "args": {"filename": "a.md", "data": "x"}}
    write_agent(place, {"content": first, "tool_calls": [saved]}, {"content": then, "tool_calls": [SET]})
    who = bearer(place, "root", "operator")
    said = {"model": "agent/writer", "messages": [{"role": "user", "content": "go"}]}
    found = (await client.post("/v1/chat/completions", json=said, headers=who)).json()
    content = found["choices"][0]["message"]["content"]
    assert "taker" in content
    assert not re.search("<img[^>]*taker", MarkdownIt("commonmark", {"html": True}).render(content))


async def test_what_an_agent_asks_a_person_fetches_nothing(place: Workspace, client: httpx.AsyncClient) -> None:
    question = {"name": "ask_user", "args": {"question": f"![which]({TARGET}) <img src={TARGET}> one?"}}
    write_agent(place, {"content": "", "tool_calls": [question]})
    who = bearer(place, "root", "operator", "approver")
    sent = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "go"}]}
    [asked] = (await posted(client, "/agui/writer", sent, who))[-1].value["outcome"]["interrupts"]
    assert "taker" in asked["message"]
    assert fetched(asked["message"]) == []


SET = {"name": "set_output", "args": {"key": "text", "value": "x"}}


def write_agent(place: Workspace, *says: dict[str, Any]) -> None:
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, says)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    asks = node("write", output_keys=["text"], client_facing=True)
    write_json(place, "agents/writer.json", agent_json(asks, id="writer", model="scripted:script.jsonl"))
