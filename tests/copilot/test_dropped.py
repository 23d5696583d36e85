"""Files that are dropped into a conversation: its questions search them, and nobody else's and no other's do."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import Chat, ThreadStore, dropped, end_person
from hive_agents.copilot.dropped import DroppedFile, DroppedFiles
from hive_agents.host.housekeeping import prune
from hive_agents.models.scripted import Script
from hive_agents.store import connected
from hive_agents.store.copying import record_tables
from hive_agents.store.schema import INDEX_TABLES
from tests.copilot.chats import copied_knowledge_base, use_models

LEASE = b"""# Borealis

The notice period of the premises is seven weeks.

## Deposit

The zarquon deposit is 4,200 euros. It is paid back in May.
"""
QUESTION = "how high is the zarquon deposit?"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "ws")


def begun(place: Workspace, user: str = "dana") -> Chat:
    reader = known_principal(place, user)
    return Chat(place, reader, ThreadStore(place, reader).create(""))


def ask(chat: Chat, text: str = QUESTION) -> dict[str, Any]:
    return asyncio.run(chat.ask(text))


def names(chat: Chat) -> list[str]:
    return [one.name for one in chat.files.files()]


def test_a_question_finds_a_passage_of_a_file_and_names_it(place: Workspace) -> None:
    chat = begun(place)
    file = chat.drop("C:\\mine\\borealis.md", LEASE)
    reply = ask(chat)
    (found,) = reply["files"]
    assert (found["file_id"], found["name"]) == (file.file_id, "borealis.md")
    assert found["excerpt"] == "The <mark>zarquon</mark> <mark>deposit</mark> is 4,200 euros. It is paid back in May."
    assert [(one["from_line"], one["to_line"]) for one in found["windows"]] == [(7, 7)]
    assert reply["status"] == "results"
    assert "zarquon" not in str(reply["notice"])  # it is a known word here, and isn't corrected either
    assert chat.transcript()[-1]["files"] == reply["files"]


def test_documents_are_searched_beside_the_files_and_a_file_needs_half_of_the_words(place: Workspace) -> None:
    chat = begun(place)
    chat.drop("borealis.md", LEASE)
    reply = ask(chat, "how is a key rotated after the deposit of a second key?")
    assert "files" not in reply
    assert reply["results"][0]["doc_id"] == "faqs/rotate.md"
    both = ask(chat, "is the deposit of a key paid back?")
    assert (both["files"][0]["name"], bool(both["results"])) == ("borealis.md", True)


def test_lists_filters_and_counts_know_no_file(place: Workspace) -> None:
    chat = begun(place)
    before = [ask(chat, text) for text in ("list all documents", "how many documents are there?")]
    fields = chat.field_values()
    chat.drop("borealis.md", LEASE)
    after = [ask(chat, text) for text in ("list all documents", "how many documents are there?")]
    kept = ("results", "answer", "notice", "status")
    assert [{name: one[name] for name in kept} for one in after] == [
        {name: one[name] for name in kept} for one in before
    ]
    assert not any("files" in one for one in after)
    assert chat.field_values() == fields


@pytest.mark.parametrize("who", ["dana", "guest", "root", "hana"])
def test_nobody_else_and_no_other_conversation_finds_it(place: Workspace, who: str) -> None:
    chat = begun(place)
    file = chat.drop("borealis.md", LEASE)
    other = begun(place, who)
    reply = ask(other)
    assert "files" not in reply
    assert "zarquon" in reply["notice"]  # as a word that is nowhere
    assert names(other) == []
    if who != "dana":
        with pytest.raises(HiveError, match="there is no thread"):
            Chat(place, known_principal(place, who), chat.thread_id)
        theirs = DroppedFiles(place, known_principal(place, who), str(chat.thread_id))
        assert (theirs.files(), theirs.search(QUESTION, "english")) == ([], [])
        with pytest.raises(HiveError, match="there is no file"):
            theirs.remove(file.file_id)
        with pytest.raises(HiveError, match="there is no such conversation"):
            theirs.add("mine.md", "[]")


def test_a_removed_file_is_in_no_answer_any_more(place: Workspace) -> None:
    chat = begun(place)
    file = chat.drop("borealis.md", LEASE)
    assert ask(chat)["files"]
    chat.files.remove(file.file_id)
    assert "files" not in chat.transcript()[0]
    assert "files" not in ask(chat)
    assert "4,200 euros" not in str(stored(place))
    with pytest.raises(HiveError, match="there is no file"):
        chat.files.remove(file.file_id)


def test_a_file_takes_the_place_of_one_with_its_name(place: Workspace) -> None:
    chat = begun(place)
    chat.drop("borealis.md", LEASE)
    assert ask(chat)["files"]
    chat.drop("borealis.md", LEASE.replace(b"4,200", b"5,300"))
    assert names(chat) == ["borealis.md"]
    assert "5,300" in ask(chat)["files"][0]["excerpt"]
    assert "files" not in chat.transcript()[0]  # that answer was of the other one


def stored(place: Workspace) -> dict[str, str]:
    """The rows of each table of the records and of the index."""
    rows = {}
    records = [table.name for table in record_tables()]
    for database, names in ((place.records, records), (place.database, sorted(INDEX_TABLES))):
        with connected(database) as connection:
            rows |= {name: repr(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
    return rows


def test_it_is_deleted_with_its_conversation(place: Workspace) -> None:
    chat, other = begun(place), begun(place)
    chat.drop("borealis.md", LEASE)
    other.drop("other.md", LEASE)
    chat.threads.delete(str(chat.thread_id))
    assert "borealis.md" not in str(stored(place))
    assert names(other) == ["other.md"]


def test_who_is_ended_has_no_file_left(place: Workspace) -> None:
    chat, other = begun(place), begun(place, "guest")
    for one in (chat, other):
        one.drop("borealis.md", LEASE)
    ended = end_person(place, "dana", "acme", "user:root")
    assert set(ended) == {"tokens", "sessions", "streams", "runs", "made_for"}
    assert DroppedFiles(place, chat.reader, str(chat.thread_id)).files() == []
    assert names(other) == ["borealis.md"]


def test_files_of_unused_conversations_are_pruned(place: Workspace) -> None:
    chat = begun(place)
    chat.drop("borealis.md", LEASE)
    now = dt.datetime.now(dt.UTC)
    prune(place, now + dt.timedelta(days=89))
    assert names(chat) == ["borealis.md"]
    prune(place, now + dt.timedelta(days=91))
    assert names(chat) == []


def test_what_may_be_kept_has_an_end(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = begun(place)
    monkeypatch.setattr(dropped, "MOST_FILES", 2)
    for name in ("a.md", "b.md", "b.md"):
        chat.drop(name, LEASE)
    with pytest.raises(HiveError, match="has 2 files, and 2 are the most"):
        chat.drop("c.md", LEASE)
    monkeypatch.setattr(dropped, "MOST_KEPT", 300)
    with pytest.raises(HiveError, match="too much text"):
        begun(place).drop("c.md", LEASE)
    monkeypatch.setattr(dropped, "MOST_TEXT", 100)
    with pytest.raises(HiveError, match="characters, and 100 are the most"):
        chat.drop("a.md", LEASE)
    assert names(chat) == ["a.md", "b.md"]


def test_a_file_that_cannot_be_read_says_why_and_keeps_nothing(place: Workspace) -> None:
    chat = begun(place)
    for name, data, why in (("a.jpg", b"x", "not a supported kind"), ("a.pdf", b"no pdf", "not a PDF file"),
                            ("a.md", b"  ", "the file is empty")):  # fmt: skip
        with pytest.raises(HiveError, match=why):
            chat.drop(name, data)
    assert names(chat) == []


def test_one_file_is_read_at_a_time(place: Workspace) -> None:
    chat = begun(place)
    with dropped._turns.of(("acme", "somebody")), pytest.raises(HiveError, match="another file is being read"):
        chat.drop("a.md", LEASE)
    assert chat.drop("a.md", LEASE).name == "a.md"


def test_who_drops_files_without_an_end_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked most often had each next turn, and a reader of slow files kept all others from dropping theirs."""
    amy, ben, kim = ("acme", "amy"), ("acme", "ben"), ("globex", "kim")
    turns = dropped._Turns()

    def refused(who: tuple[str, str]) -> bool:
        try:
            with turns.of(who):
                return False
        except HiveError as error:
            return error.diagnostics[0].code == "HIVE-402"

    with turns.of(amy):
        assert [refused(one) for one in (amy, ben, kim, ben, amy)] == [True] * 5
    assert [refused(one) for one in (kim, ben, amy)] == [True, True, False], "amy came first, by another file of hers"
    assert [refused(one) for one in (amy, kim, ben)] == [True, True, False]
    assert [refused(one) for one in (amy, kim, amy)] == [True, False, False]
    with turns.of(amy):
        assert refused(ben)
    assert refused(amy)
    monkeypatch.setattr(dropped, "PATIENCE", 0.0)
    assert not refused(amy), "who doesn't come again holds nobody up"


def test_a_person_who_is_ended_while_it_is_read_keeps_nothing(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = begun(place)

    def ended(*_: Any) -> str:
        access = place.root / "access" / "principals.json"
        access.write_text(access.read_text().replace('"dana"', '"somebody"'), encoding="utf-8")
        return "[]"

    monkeypatch.setattr(DroppedFiles, "convert", ended)
    with pytest.raises(HiveError) as refused:
        chat.drop("borealis.md", LEASE)
    assert refused.value.diagnostics[0].code == "HIVE-417"
    with connected(place.records) as connection:
        assert connection.execute("SELECT count(*) FROM thread_files").fetchone() == (0,)


def test_a_conversation_that_began_with_a_file_is_called_by_its_first_question(place: Workspace) -> None:
    chat = begun(place)
    chat.drop("borealis.md", LEASE)
    assert [one["title"] for one in chat.threads.threads()] == ["untitled"]
    ask(chat)
    ask(chat, "and when is it paid back?")
    assert [one["title"] for one in chat.threads.threads()] == [QUESTION]


def test_no_model_is_told_of_a_file(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    anything = {"content": "Keys cost nothing [1].", "repeat": True}
    use_models(place, planner=[anything], answer=[anything])
    place = Workspace(place.root)
    chat = begun(place)
    chat.drop("borealis.md", LEASE)
    prompts: list[str] = []
    take = Script.take

    def kept(script: Script, prompt: str) -> Any:
        prompts.append(prompt)
        return take(script, prompt)

    monkeypatch.setattr(Script, "take", kept)
    reply = ask(chat, "is the deposit of a key paid back?")
    assert reply["files"]
    assert any("Keys cost nothing" in one for one in prompts)  # the documents' passages
    assert not any("4,200" in one or "borealis.md" in one for one in prompts)


def test_a_name_is_shown_without_folders_and_control_signs(place: Workspace) -> None:
    chat = begun(place)
    for name, kept in (("a/b/../lease\x1b[2J.md", "lease [2J.md"), ("n" * 300 + ".md", "n" * 100 + ".md")):
        assert isinstance(file := chat.drop(name, LEASE), DroppedFile)
        assert file.name == kept
