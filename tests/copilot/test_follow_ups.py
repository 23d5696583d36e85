"""What is proposed to be asked next: out of what the reader may view, and each with an answer."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import Chat, Request
from hive_agents.copilot.follow_ups import MOST, FollowUp
from hive_agents.copilot.plan import DocumentFilter
from tests.conftest import write_document
from tests.copilot.chats import copied_knowledge_base, knowledge_base


def asked(place: Workspace, text: str, user: str = "dana", **more: object) -> tuple[Chat, list[FollowUp]]:
    chat = Chat(place, known_principal(place, user))
    reply = asyncio.run(chat.ask(Request.model_validate({"text": text, **more})))
    return chat, chat.follow_ups(reply["run_id"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """With a page of several sections in two states, of which one person wrote two."""
    found = copied_knowledge_base(tmp_path_factory.mktemp("follow-ups") / "w")
    collection = found.root / "collections" / "kb.json"
    schema = json.loads(collection.read_text("utf-8"))
    schema["fields"]["owner"] = {"type": "keyword", "filterable": True}
    collection.write_text(json.dumps(schema), encoding="utf-8")
    kinds = ("Gas", "Arc", "Spot", "Cold", "Laser", "Burns")
    parts = "# Welding\n\nWear a mask when you weld.\n" + "".join(
        f"\n## {kind}\n\n{kind} is told of here, step by step. Cool it at once.\n" for kind in kinds
    )
    for name, status in (("weld-2021", "retired"), ("weld-2025", "effective")):
        front = f'title: Welding {name[-4:]}\nstatus: {status}\nowner: mei\ntenant: acme\nview: ["tenant"]'
        write_document(found, f"guides/{name}.md", f"---\n{front}\n---\n{parts}")
    write_document(found, "sops/weld.md",
                   f'---\ntitle: Welding, secret\nstatus: secret\nowner: mei\ntenant: acme\nview: ["group:qa"]\n---\n'
                   f"{parts}\n## Only for the eyes of few\n\nWeld at night.\n")  # fmt: skip
    found.index()
    return found


def test_a_question_whose_results_are_not_all_valid_is_offered_about_what_is(place: Workspace) -> None:
    _, (first, *_) = asked(place, "which mask do I wear when I weld?", "guest")
    assert (first.kind, first.about, first.value) == ("valid", "status", "effective")
    assert first.request == Request(
        text="which mask do I wear when I weld?", pinned=[DocumentFilter(field="status", value="effective")]
    )


@pytest.mark.parametrize("text", ["effective documents", "how many effective documents are there?"])
def test_a_value_that_was_asked_about_is_exchanged_for_another(place: Workspace, text: str) -> None:
    _, (first, *_) = asked(place, text)
    assert (first.kind, first.about, first.value) == ("other", "status", "draft")
    assert first.request.text == text.replace("effective", "draft")


def test_a_section_that_was_not_shown_is_offered_and_found(place: Workspace) -> None:
    chat, found = asked(place, "which mask do I wear when I weld?", "guest")
    section = next(one for one in found if one.kind == "section")
    assert section.request.doc_id in ("guides/weld-2021.md", "guides/weld-2025.md")
    reply = asyncio.run(chat.ask(section.request))
    assert f"{section.value} is told of" in str([one["text"] for one in reply["results"][0]["windows"]])


def test_who_wrote_it_leads_to_what_else_they_wrote(place: Workspace) -> None:
    chat, found = asked(place, "Burns while welding", "guest", pinned=[{"field": "status", "value": "effective"}])
    more = next(one for one in found if one.kind == "more")
    assert (more.about, more.value) == ("owner", "mei")
    listed = asyncio.run(chat.ask(more.request))
    assert {one["doc_id"] for one in listed["results"]} == {"guides/weld-2021.md", "guides/weld-2025.md"}


@pytest.mark.parametrize("text", ["hello", "show me stuff", "xyzzy quux"])
def test_nothing_is_proposed_where_nothing_was_found(text: str) -> None:
    assert asked(knowledge_base(), text)[1] == []


@pytest.mark.parametrize("user", ["dana", "guest"])
def test_each_proposal_has_an_answer(place: Workspace, user: str) -> None:
    for text in ("which mask do I wear when I weld?", "effective documents", "rotate a key", "drafts about a key"):
        chat, found = asked(place, text, user)
        assert 0 < len(found) <= MOST
        for one in found:
            reply = asyncio.run(Chat(place, chat.reader).ask(one.request))
            assert reply["results"], (text, one)


def test_proposals_are_those_of_a_workspace_without_what_is_hidden(place: Workspace, tmp_path: Path) -> None:
    """Whoever may not open a document is offered no value, section or author of it, nor another choice for it."""
    without = copied_knowledge_base(tmp_path / "w")
    for path in place.documents.rglob("weld*.md"):
        target = without.documents / path.relative_to(place.documents)
        if "qa" not in path.read_text("utf-8"):
            target.write_bytes(path.read_bytes())
    shutil.copy(place.root / "collections" / "kb.json", without.root / "collections" / "kb.json")
    (without.documents / "sops/recall.md").unlink()
    without.index()
    for text in ("which mask do I wear when I weld?", "effective documents", "secret documents", "owner mei"):
        _, here = asked(place, text, "guest")
        _, there = asked(without, text, "guest")
        assert here == there, text
        assert "secret" not in str([(one.about, one.value) for one in here])
    _, told = asked(place, "Weld at night", "dana")
    assert "Welding, secret" in str(told), "who may open it is offered its sections"


def test_proposals_go_with_the_right_to_view_what_they_came_from(place: Workspace) -> None:
    chat = Chat(place, known_principal(place, "dana"))
    reply = asyncio.run(chat.ask("Weld at night"))
    assert chat.follow_ups(reply["run_id"])
    other = Chat(place, known_principal(place, "guest"))
    rights = known_principal(place, "guest")
    own = Chat(place, type(rights)(rights.tenant, "dana", rights.groups, rights.roles))
    assert own.follow_ups(reply["run_id"]) == []
    with pytest.raises(Exception, match="HIVE-409"):
        other.follow_ups(reply["run_id"])
