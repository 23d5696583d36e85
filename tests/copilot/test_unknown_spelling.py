"""Typing mistakes are mended by the words that the reader's own documents have, and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.copilot.chats import ask, make_knowledge_base


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_knowledge_base(Path(tmp_path_factory.mktemp("spelling")))


@pytest.mark.parametrize("wrong", ["rotaet", "rotatte", "rottae", "rotote", "roate"])
def test_a_word_with_one_wrong_letter_finds_what_was_meant(place: Workspace, wrong: str) -> None:
    reply = ask(place, "dana", f"how do I {wrong} a key?")
    assert reply["notice"] == f'I read "{wrong}" as "rotate".'
    assert reply["results"][0]["doc_id"] == "faqs/rotate.md"
    assert "<mark>rotate</mark>" in reply["results"][0]["excerpt"]


def unheard(*words: str) -> str:
    told = f'the word "{words[0]}"' if len(words) == 1 else f"these words: {', '.join(words)}"
    return f"No document that you may read has {told}."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("how do I rotate a key?", None),
        ("how do I locate a key?", unheard("locate")),
        ('what is "rotaet"?', unheard("rotaet")),
        ("rotates of keys", None),
        ("KEYSS of a key", None),
    ],
)
def test_words_that_are_right_or_quoted_or_begin_otherwise_stay(place: Workspace, text: str, told: str | None) -> None:
    assert ask(place, "dana", text)["notice"] == told


def test_a_word_of_the_language_is_no_mistake_where_documents_have_one_like_it(place: Workspace) -> None:
    assert ask(place, "dana", "how heavy is a crate?")["notice"] == unheard("crate")
    assert ask(place, "dana", "how do I craete one?")["notice"] == 'I read "craete" as "create".'


def test_a_word_of_documents_that_the_reader_may_not_view_mends_nothing(place: Workspace) -> None:
    assert ask(place, "dana", "how many signatures does a reacll take?")["notice"] == 'I read "reacll" as "recall".'
    unknown, hidden = (ask(place, "guest", f"how many signatures does a {word} take?") for word in ("reacll", "rexqll"))
    assert unknown["notice"] == unheard("signatures", "reacll")
    assert hidden["notice"] == unheard("signatures", "rexqll")


def test_the_other_spelling_of_a_word_finds_the_documents_own(tmp_path: Path) -> None:
    place = make_knowledge_base(tmp_path)
    page = "---\ntitle: Rights\ntenant: acme\nview: [tenant]\n---\nEach license is granted for a year.\n"
    (place.documents / "rights.md").write_text(page, encoding="utf-8")
    place.index()
    assert ask(place, "dana", "who grants a licence?")["notice"] == 'I read "licence" as "license".'


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Muss ein Hund an die Leine?", None),
        ("Wie richte ich das ein?", None),
        ("Wer hat das Rehct auf eine Feier?", ("Rehct", "recht")),
        ("Wann ist die Genehmgung gültig?", ("Genehmgung", "genehmigung")),
    ],
)
def test_a_short_german_word_is_another_word_rather_than_a_mistake(
    tmp_path: Path, text: str, read: tuple[str, str] | None
) -> None:
    place = make_knowledge_base(tmp_path)
    page = "---\ntitle: Rechte\ntenant: acme\nview: [tenant]\n---\nAm Leibe hat jeder sein Recht und seine Rechte. "
    page += "Eine Genehmigung ist gültig für eine Feier. Der Hund muss das.\n"
    (place.documents / "rechte.md").write_text(page, encoding="utf-8")
    place.index()
    notice = ask(place, "dana", text)["notice"] or ""
    mended = notice.startswith("I read") and notice.split('"')[1::2][:2]
    assert mended == (list(read) if read is not None else False)


@pytest.mark.parametrize(
    ("text", "notice"),
    [
        ("¿Cómo reemplazar el archivo?", unheard("reemplazar")),
        ("¿Qué es la configuracoin?", 'I read "configuracoin" as "configuración".'),
    ],
)
def test_what_a_word_is_read_as_is_a_word(tmp_path: Path, text: str, notice: str) -> None:
    """Of "reemplaza" a stemmer takes "reemplazaer" for another form."""
    place = make_knowledge_base(tmp_path)
    page = "---\ntitle: Pasos\ntenant: acme\nview: [tenant]\n---\nCada archivo reemplaza al otro.\n"
    page += "La configuración es fija.\n"
    (place.documents / "pasos.md").write_text(page, encoding="utf-8")
    place.index()
    assert ask(place, "dana", text)["notice"] == notice


def test_a_mistyped_value_filters_as_what_was_meant(place: Workspace) -> None:
    reply = ask(place, "guest", "how many gudies are there?")
    assert reply["strategy"] == "MetadataOnly"
    assert reply["answer"] == ask(place, "guest", "how many guides are there?")["answer"]
    assert reply["notice"] == 'I read "gudies" as "guides".'
