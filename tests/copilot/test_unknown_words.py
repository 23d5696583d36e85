"""A word of a question that no document of the reader's has is told, and that it may stand in a hidden one isn't."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from hive_agents import Workspace
from hive_agents.cli.replies import rendered
from tests.copilot.chats import ask, make_knowledge_base

RELEASE = """---
title: Release 4.1
tenant: acme
view: [tenant]
---
The lamp of release 4.1 is brighter.
"""
GERMAN = """---
title: Lampen
tenant: acme
view: [tenant]
---
Der Lampenschirm einer Lampe ist rot. Architekturen von Hallen sind erlaubt. Das Lager ist offen.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = make_knowledge_base(Path(tmp_path_factory.mktemp("unknown")))
    (place.documents / "lampen.md").write_text(GERMAN, encoding="utf-8")
    (place.documents / "release-4.1.md").write_text(RELEASE, encoding="utf-8")
    place.index()
    return place


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "what does a key for an enterprise tractor cost?",
            "No document that you may read has these words: enterprise, tractor.",
        ),
        ("how do I paint a lamp?", 'No document that you may read has the word "paint".'),
        (
            "can we deploy a second key at once, then revoke the first key of support by SCIM?",
            'No document that you may read has the word "SCIM".',
        ),
        ("xyzzy", 'No document that you may read has the word "xyzzy".'),
        ("Welche Lampe hat der Bagger?", 'No document that you may read has the word "Bagger".'),
    ],
)
def test_words_that_no_document_has_are_told(place: Workspace, text: str, told: str) -> None:
    reply = ask(place, "dana", text)
    assert reply["status"] in ("results", "not_found")
    assert reply["notice"] == told


@pytest.mark.parametrize(
    "text",
    [
        "how do I rotate a key?",
        "rotation of the lamps",
        "could you please tell me something about keys, or show me what they are used for?",
        "Gibt es denn bei euch irgendwo noch eine Lampe?",
        "Darf man die Lampe einfach so machen, und wofür braucht man sie eigentlich?",
        "Was bedeutet die Architektur der Halle?",
        "Lagerlampe",
        "what is a lampnumber?",
        "wo ist der Schirm der Lampe?",
        "we turned the lamp off before lunch, then deployed a second key and revoked the first key of support",
        "list all drafts",
        "the lamp of v4.1",
        "hello",
    ],
)
def test_words_of_grammar_other_forms_and_compounds_are_known(place: Workspace, text: str) -> None:
    assert ask(place, "dana", text)["notice"] is None


def test_a_mended_word_is_told_beside_one_that_nobody_has(place: Workspace) -> None:
    told = 'I read "rotaet" as "rotate". No document that you may read has the word "tractor".'
    assert ask(place, "dana", "how do I rotaet a tractor?")["notice"] == told


def test_a_word_of_hidden_documents_is_told_like_one_of_none(place: Workspace) -> None:
    hidden, missing = (ask(place, "guest", f"how many lamps does a {word} take?") for word in ("recall", "tractor"))
    assert hidden["notice"] == 'No document that you may read has the word "recall".'
    assert hidden["notice"].replace("recall", "tractor") == missing["notice"]
    assert ask(place, "dana", "how many lamps does a recall take?")["notice"] is None


def test_who_reads_a_turn_again_is_told_the_same(place: Workspace) -> None:
    from hive_agents.access import known_principal
    from hive_agents.copilot.chat import Chat

    asked = ask(place, "dana", "how do I paint a lamp?")
    turn = Chat(place, known_principal(place, "dana"), asked["thread_id"]).transcript()[0]
    assert turn["notice"] == asked["notice"]


def test_the_terminal_tells_it_above_the_passages(place: Workspace) -> None:
    console = Console(width=200)
    with console.capture() as captured:
        for part in rendered(ask(place, "dana", "how do I paint a lamp?")):
            console.print(part)
    shown = captured.get()
    assert 0 <= shown.index("No document that you may read") < shown.index("Guide 1")


def test_a_word_that_became_a_filter_is_not_searched_for_and_not_told(place: Workspace) -> None:
    reply = ask(place, "dana", "effective documents issued since 1999 about the tractor")
    assert {one["field"] for one in reply["filters"]} == {"status", "effective"}
    assert reply["notice"] == 'No document that you may read has the word "tractor".'
