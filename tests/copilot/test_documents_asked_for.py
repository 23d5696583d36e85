"""How many documents there are, the newest of them, and which one is about something: asked in words for documents."""

from __future__ import annotations

import asyncio
import datetime
import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, known_principal
from hive_agents.access.service import LocalPermissions
from hive_agents.copilot import Request, reply as reply_module
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.plan import SearchStrategy
from hive_agents.copilot.reply import NOT_FOUND
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.ranking.config import point_active
from tests.conftest import write_document
from tests.copilot.chats import PAGES, as_bytes, ask, copied_knowledge_base, knowledge_base

OF_ACME = sum("tenant: acme" in text for text in PAGES.values())


@pytest.mark.parametrize(
    "text", ["how many documents are there?", "How many docs do you have", "count all files", "the number of pages"]
)
def test_a_reader_is_told_how_many_documents_they_can_open(text: str) -> None:
    reply = ask(knowledge_base(), "dana", text)
    assert reply["answer"] == f"There are {OF_ACME} documents that you can open."
    assert (reply["status"], reply["strategy"], reply["answer_source"]) == ("results", "MetadataOnly", None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("how many documents per status?", "28 documents by status: effective 14, draft 13, secret 1."),
        ("documents by status", "28 documents by status: effective 14, draft 13, secret 1."),
        ("how many drafts per status", "13 documents by status: draft 13."),
    ],
)
def test_figures_over_fields_say_over_how_many_documents_they_are(text: str, answer: str) -> None:
    reply = ask(knowledge_base(), "dana", text)
    assert (reply["answer"], reply["strategy"]) == (answer, "MetadataOnly")


def test_each_document_is_ordered_by_the_date_that_it_has(text_workspace: Workspace) -> None:
    schema = text_workspace.root / "collections" / "kb.json"
    fields = json.loads(schema.read_text())
    fields["fields"] |= {"date": {"type": "date", "filterable": True}, "opened": {"type": "date", "filterable": True}}
    schema.write_text(json.dumps(fields))
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write('[access]\nmode = "open"\n')
    for name, front in (("t1", "opened: 2026-01-05"), ("t2", "opened: 2026-03-01"), ("mail", "date: 2026-02-01")):
        write_document(text_workspace, f"desk/{name}.md", f"---\ntitle: {name}\n{front}\n---\nA desk.\n")
    text_workspace.index()
    point_active(text_workspace, text_workspace.configs / "words.json")
    owner = Asker(text_workspace).reader()
    reply = asyncio.run(Chat(text_workspace, owner).ask(Request(text="latest documents")))
    assert [one["doc_id"] for one in reply["results"]][:3] == ["desk/t2.md", "desk/mail.md", "desk/t1.md"]


def test_a_figure_is_made_of_what_its_reader_may_view_when_it_is_shown(tmp_path: Path) -> None:
    place = copied_knowledge_base(tmp_path / "workspace")
    before = ask(place, "guest", "how many documents per status?")
    assert before["answer"] == "27 documents by status: effective 14, draft 13."
    for n in range(20):
        (place.documents / f"hidden{n}.md").write_text(PAGES["sops/recall.md"], encoding="utf-8")
    place.index()
    assert as_bytes(ask(place, "guest", "how many documents per status?")) == as_bytes(before)
    chat = Chat(place, known_principal(place, "guest"), before["thread_id"])
    (place.documents / "faqs" / "lost.md").unlink()
    place.index()
    assert chat.transcript()[0]["answer"] in (None, "26 documents by status: effective 14, draft 12.")


def test_a_figure_over_many_documents_is_of_the_readers_scope_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that can't list what a reader may view isn't asked about any number of documents."""
    place = copied_knowledge_base(tmp_path / "workspace")
    monkeypatch.setattr(reply_module, "MOST_ASKED", 10)
    text = "how many documents per status?"
    assert ask(place, "guest", text)["answer"] == "27 documents by status: effective 14, draft 13."
    assert ask(place, "dana", text)["answer"] == "28 documents by status: effective 14, draft 13, secret 1."
    monkeypatch.setattr(LocalPermissions, "lists", False)
    assert ask(place, "guest", text)["answer"] == reply_module.TOO_MANY


def test_documents_that_a_reader_may_not_open_are_not_counted(tmp_path: Path) -> None:
    place = copied_knowledge_base(tmp_path / "workspace")
    before = ask(place, "guest", "how many documents are there?")
    assert before["answer"] == f"There are {OF_ACME - 1} documents that you can open."
    for n in range(20):
        (place.documents / f"hidden{n}.md").write_text(PAGES["sops/recall.md"], encoding="utf-8")
    place.index()
    assert as_bytes(ask(place, "guest", "how many documents are there?")) == as_bytes(before)
    assert ask(place, "dana", "how many documents are there?")["answer"] == (
        f"There are {OF_ACME + 20} documents that you can open."
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("how many drafts are there?", "There are 13 such documents that you can open."),
        ("how many documents have the status secret?", "There is 1 such document that you can open."),
    ],
)
def test_of_filtered_documents_all_are_counted_and_a_page_is_shown(text: str, answer: str) -> None:
    reply = ask(knowledge_base(), "dana", text)
    assert reply["answer"] == answer
    assert len(reply["results"]) <= 10


def test_of_a_next_page_the_number_is_not_told_again() -> None:
    place = knowledge_base()
    first = ask(place, "dana", "how many documents are there?")
    assert ask(place, "dana", "how many documents are there?", cursor=first["next_cursor"])["answer"] is None


def test_who_reads_the_turn_again_is_told_the_same() -> None:
    from hive_agents.access import known_principal
    from hive_agents.copilot.chat import Chat

    place = knowledge_base()
    asked = ask(place, "dana", "how many documents are there?")
    turn = Chat(place, known_principal(place, "dana"), asked["thread_id"]).transcript()[0]
    assert turn["answer"] == asked["answer"]


def test_a_permission_service_that_fails_tells_no_number(tmp_path: Path) -> None:
    place = copied_knowledge_base(tmp_path / "workspace")
    with (place.root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write('[access]\nservice_url = "http://127.0.0.1:1"\n')
    assert ask(place, "dana", "how many documents are there?")["answer"] == NOT_FOUND


def searched(text: str) -> tuple[SearchStrategy, str | None]:
    decision = route(text, Vocabulary({}), reader="dana", today=datetime.date(2026, 2, 2)).decision
    return decision.strategy, decision.search_value


@pytest.mark.parametrize("text", ["what's the newest blog post", "the latest post", "what is the newest page?"])
def test_the_newest_document_is_listed(text: str) -> None:
    assert searched(text) == (SearchStrategy.METADATA_ONLY, None)


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("who wrote the post about agent mode", "agent mode"),
        ("who is the author of the page on lost keys?", "lost keys"),
        ("when was the article about lamps published", "lamps published"),
        ("who owns the document about recalls", "recalls"),
        ("what's in the post about agent mode", "agent mode"),
    ],
)
def test_of_a_question_about_a_document_its_topic_is_searched(text: str, search: str) -> None:
    assert searched(text) == (SearchStrategy.CONTENT_ONLY, search)


@pytest.mark.parametrize(
    "text",
    [
        "how do I post a metric",
        "what is a POST request",
        "what does the post office charge",
        "how does a page about lamps load",
        "how many pages does a lamp print",
        "who wrote the code of the lamp",
    ],
)
def test_other_questions_are_searched_as_they_are(text: str) -> None:
    assert searched(text) == (SearchStrategy.CONTENT_ONLY, text)
