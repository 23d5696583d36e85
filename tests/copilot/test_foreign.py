"""A question in another language than the documents is searched for in theirs, by what it is about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import Request
from hive_agents.copilot.foreign import searched_for
from hive_agents.copilot.notices import FOREIGN
from hive_agents.copilot.session import TurnSession
from hive_agents.index import ScopedIndex
from tests.copilot.chats import ask, make_knowledge_base

GUIDE = """---
title: {title}
tenant: acme
view: [tenant]
---
# {title}

{text}
"""
ENGLISH = {
    "reset": ("Passwords", "Who forgot the password may reset it on the page of the account, of which there is one."),
    "pump": ("Pump KX-67", "The valve of the pump KX-67 and the cover of the pump are cleaned in the morning."),
    "leave": ("Days off", "The vacation of the year and the rest of the last year are used in spring of the year."),
    "queue": ("Queues", "The messages of the queue and the max_length of the queue are shown in the list of the host."),
    "what": ("Kites", "What is a kite? What flies on a line, no die, in the wind is one of the kites and of toys."),
}
GERMAN = {
    "sperre": ("Sperren", "Der Benutzer und das Konto werden gesperrt, und das Passwort wird gelöscht. What is it?"),
    "waage": ("Waagen", "Der Deckel und das Gewicht der Waage werden geprüft, und das Ergebnis wird notiert."),
    "ofen": ("Öfen", "Der Ofen und das Blech werden gereinigt, und der Filter wird gewechselt. Is it what it is?"),
}


def place_of(folder: Path, documents: dict[str, tuple[str, str]]) -> Workspace:
    place = make_knowledge_base(folder)
    for path in place.documents.rglob("*.md"):
        path.unlink()
    for name, (title, text) in documents.items():
        (place.documents / f"{name}.md").write_text(GUIDE.format(title=title, text=text), encoding="utf-8")
    place.index()
    return place


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return place_of(Path(tmp_path_factory.mktemp("english")), ENGLISH)


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return place_of(Path(tmp_path_factory.mktemp("german")), GERMAN)


def scope(place: Workspace) -> ScopedIndex:
    index = place.engine().index("kb")
    return index.within(np.ones(index.n_documents, np.bool_))


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Wie setze ich mein Passwort zurück, wenn ich es vergessen habe?", "reset.md"),
        ("J'ai oublié mon mot de passe, que faire ?", "reset.md"),
        ("¿Cómo restablezco una contraseña olvidada?", "reset.md"),
        ("Wie wird das Ventil der KX-67 gereinigt?", "pump.md"),
        ("Combien de jours de congé me reste-t-il de l'année dernière ?", "leave.md"),
        ("¿Dónde veo los mensajes de la cola?", "queue.md"),
        ("Nachrichten der Warteschlange", "queue.md"),
    ],
)
def test_a_question_in_another_language_finds_what_it_is_about(english: Workspace, question: str, first: str) -> None:
    assert ask(english, "dana", question)["results"][0]["doc_id"] == first


def test_a_question_in_another_language_is_told(english: Workspace) -> None:
    assert ask(english, "dana", "¿Dónde veo los mensajes de la cola?")["notice"] == FOREIGN


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("Was bedeutet max_length bei der Warteschlange?", "max_length queue"),
        ("Wozu ist die KX-67 v1.2 da?", "KX-67 v1.2"),
        ("Qu'est-ce que c'est ?", "Qu'est-ce que c'est ?"),
        ("Was ist 'der Deckel'?", "'der Deckel'"),
        ("how is the pump KX-67 cleaned?", "how is the pump KX-67 cleaned?"),
        ("cleaning", "cleaning"),
        ("die line of the toys", "die line of the toys"),
        ("die line toys", "die line toys"),
    ],
)
def test_only_what_the_question_is_about_is_searched_for(english: Workspace, question: str, searched: str) -> None:
    assert searched_for(scope(english), question) == searched


def test_function_words_of_an_english_question_weigh_nothing_over_german_documents(german: Workspace) -> None:
    assert searched_for(scope(german), "what is the weight?") == "gewicht"
    assert ask(german, "dana", "what is the weight?")["results"][0]["doc_id"] == "waage.md"
    assert searched_for(scope(german), "Was ist das Gewicht?") == "Was ist das Gewicht?"


def test_where_a_few_documents_are_in_its_language_a_question_is_searched_for_in_both(tmp_path: Path) -> None:
    mixed = place_of(tmp_path, ENGLISH | {"ofen": GERMAN["ofen"]})
    searched = searched_for(scope(mixed), "Wo ist das Passwort für den Ofen?")
    assert searched == "Wo ist das Passwort für den Ofen? password Ofen"


def test_the_words_of_theirs_are_marked(english: Workspace) -> None:
    first = ask(english, "dana", "Wo sehe ich die Nachrichten der Warteschlange?")["results"][0]
    assert "<mark>messages</mark> of the <mark>queue</mark>" in first["excerpt"]


def test_a_search_in_another_language_never_abstains(english: Workspace) -> None:
    session = TurnSession(english, known_principal(english, "dana"), "r1", Request(text=""), engine=english.engine())
    assert session.searched("Wann ist Ostern?")[1].abstain.enabled is False
    assert session.searched("when is easter, of the feasts?")[1] is session.config


def test_hidden_documents_have_no_language(english: Workspace) -> None:
    index = english.engine().index("kb")
    question = "Wie setze ich mein Passwort zurück?"
    assert searched_for(index.within(np.zeros(index.n_documents, np.bool_)), question) == question
