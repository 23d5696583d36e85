from __future__ import annotations

import json
import shutil
import threading

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import ConversationStore
from hive_agents.memory.entries import Mark
from hive_agents.memory.timeline import INTERRUPTED
from hive_agents.models.model import Message, ToolCall
from hive_agents.store import connected
from tests.memory.processes import finish, start
from tests.records import be_impatient, held


def user(text: str) -> Message:
    return Message(role="user", content=text)


def calls(*ids: str, text: str = "") -> Message:
    return Message(role="assistant", content=text, tool_calls=[ToolCall(name="web_search", id=id) for id in ids])


def result(call_id: str, text: str = "found") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id)


def test_messages_come_back_as_they_were_written(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1")
    call = ToolCall(name="web_search", args={"q": "bees", "n": [1, 2.5, None]}, id="1")
    written = [
        user("zwölf\nBienen"),
        Message(role="assistant", content="I look.", tool_calls=[call]),
        Message(role="tool", content="", tool_call_id="1"),
        Message(role="assistant", content=""),
    ]
    for message in written:
        store.append(chat, message)
    for reader in (store, ConversationStore(bare, tenant="acme")):
        assert [entry.message for entry in reader.messages(chat)] == written
        assert [entry.n for entry in reader.messages(chat)] == [1, 2, 3, 4]
        assert [entry.n for entry in reader.messages(chat, since=3)] == [4]
        assert reader.view(chat) == written


def test_a_step_that_runs_again_appends_nothing(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1", key="collect-1")
    first = store.append(chat, user("one"), key="turn-1")
    again = ConversationStore(bare, tenant="acme")
    assert again.create("digest", "r1", key="collect-1") == chat
    assert again.append(chat, user("another"), key="turn-1") == first
    assert again.find(chat, "turn-1") == first
    assert again.find(chat, "turn-2") is None
    assert len(store.messages(chat)) == 1


def test_conversations_without_a_key_are_different(store: ConversationStore) -> None:
    made = [store.create("digest", "r1") for _ in range(3)]
    assert store.of_run("r1") == made
    assert len(set(made)) == 3


def test_rows_are_json_that_a_person_can_read(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1")
    store.append(chat, calls("1", text="Ich suche Wörter"))
    store.append(chat, result("1"), is_error=True)
    with connected(bare.records) as connection:
        rows = [row[0] for row in connection.execute("SELECT parts FROM messages ORDER BY n")]
    assert json.loads(rows[0]) == [
        {"type": "text", "text": "Ich suche Wörter"},
        {"type": "tool_call", "id": "1", "name": "web_search", "args": {}},
    ]
    assert json.loads(rows[1]) == [{"type": "tool_result", "id": "1", "text": "found", "is_error": True}]
    assert "Wörter" in rows[0]


def test_text_that_is_no_unicode_is_stored_all_the_same(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    store.append(chat, user("half \ud83d a\x00pair"))
    assert store.view(chat)[0].content == "half \ufffd a\x00pair"


def test_the_pointer_does_not_grow(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    assert store.pointer(chat) == {"conversation_id": chat, "cursor": 0}
    for number in range(12):
        store.append(chat, user(f"{number}" * 1000))
    assert store.pointer(chat) == {"conversation_id": chat, "cursor": 12}


@pytest.mark.parametrize("method", ["messages", "view", "pointer", "outputs"])
def test_another_tenants_conversation_is_unknown(store: ConversationStore, bare: Workspace, method: str) -> None:
    chat = store.create("digest", "r1", key="k")
    store.append(chat, user("secret"))
    other = ConversationStore(bare, tenant="globex")
    with pytest.raises(HiveError, match=f"HIVE-409.*{chat}"):
        getattr(other, method)(chat)
    assert other.of_run("r1") == []
    assert other.create("digest", "r1", key="k") != chat


def test_writing_to_another_tenants_conversation_is_refused(store: ConversationStore, bare: Workspace) -> None:
    chat, other = store.create("digest", "r1"), ConversationStore(bare, tenant="globex")
    for write in (
        lambda: other.append(chat, user("x")),
        lambda: other.set_output(chat, "x", 1),
        lambda: other.mark(chat, Mark("emergency", "x", {}), 1),
    ):
        with pytest.raises(HiveError, match="HIVE-409"):
            write()
    assert store.view(chat) == []


def test_results_stand_behind_their_calls_in_the_order_of_the_calls(store: ConversationStore) -> None:
    """A person may speak while tools run, and tools end in any order."""
    chat = store.create("digest", "r1")
    for message in (calls("1", "2"), user("hurry"), result("2", "b"), result("1", "a")):
        store.append(chat, message)
    assert [message.content for message in store.view(chat)] == ["", "a", "b", "hurry"]


def test_a_call_without_a_result_is_answered_for_the_model(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    for message in (calls("1", "2"), result("1"), user("go on")):
        store.append(chat, message)
    assert [message.content for message in store.view(chat)] == ["", "found", INTERRUPTED, "go on"]
    assert len(store.messages(chat)) == 3


def test_ids_that_come_again_belong_to_the_latest_call(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    for turn in ("one", "two"):
        store.append(chat, calls("", "", text=turn))
        store.append(chat, result("", f"{turn} a"))
        store.append(chat, result("", f"{turn} b"))
    assert [message.content for message in store.view(chat)] == ["one", "one a", "one b", "two", "two a", "two b"]


def test_a_result_that_answers_no_open_call_is_refused(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")
    store.append(chat, calls("1"))
    store.append(chat, result("1"))
    for call_id in ("1", "2"):
        with pytest.raises(ValueError, match="no open tool call"):
            store.append(chat, result(call_id))
    assert len(store.messages(chat)) == 2


def test_the_cache_sees_what_other_stores_append(store: ConversationStore, bare: Workspace) -> None:
    chat, other = store.create("digest", "r1"), ConversationStore(bare, tenant="acme")
    store.append(chat, user("one"))
    other.append(chat, user("two"))
    store.append(chat, user("three"))
    assert other.mark(chat, Mark("emergency", "lead", {1: None, 2: {"content": "short"}}), 1)
    assert [message.content for message in store.view(chat)] == ["lead", "short", "three"]
    assert [entry.message.content for entry in store.messages(chat)] == ["one", "two", "three"]
    assert not store.mark(chat, Mark("emergency", "late", {}), 1)


@pytest.mark.sqlite_file
def test_a_database_that_was_replaced_is_read_anew(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1")
    store.append(chat, user("kept"))
    store.close()
    backup = shutil.copy(bare.database, bare.root / "backup.db")
    store.append(chat, user("lost"))
    for file in bare.state.glob("hive.db*"):
        file.unlink()
    shutil.copy(backup, bare.database)
    assert [message.content for message in store.view(chat)] == ["kept"]


def test_more_conversations_than_the_cache_holds(store: ConversationStore) -> None:
    made = [store.create("digest", "r1") for _ in range(40)]
    for chat in made:
        store.append(chat, user(chat))
    assert [store.view(chat)[0].content for chat in made] == made


def test_threads_append_without_losing_or_doubling(store: ConversationStore) -> None:
    chat = store.create("digest", "r1")

    def write(name: str) -> None:
        for number in range(20):
            store.append(chat, user(f"{name}{number}"), key=f"{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.n for entry in store.messages(chat)] == list(range(1, 21))
    assert {entry.key for entry in store.messages(chat)} == {str(number) for number in range(20)}


def test_processes_append_without_losing_or_doubling(store: ConversationStore, bare: Workspace) -> None:
    chat = store.create("digest", "r1")
    program = f"""
store = ConversationStore(workspace, tenant="acme")
for number in range(40):
    store.append("{chat}", Message(role="user", content=argument), key=f"{{argument}}-{{number}}")
    store.append("{chat}", Message(role="user", content="shared"), key=f"{{number}}")
"""
    finish([start(program, bare.root, name) for name in "ab"])
    entries = store.messages(chat)
    assert [entry.n for entry in entries] == list(range(1, 121))
    assert sorted(entry.message.content for entry in entries) == ["a"] * 40 + ["b"] * 40 + ["shared"] * 40


@pytest.mark.sqlite_file
def test_a_locked_database_is_said_and_nothing_is_half_done(
    store: ConversationStore, bare: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_impatient(monkeypatch)
    chat = store.create("digest", "r1")
    with held(bare):
        for write in (lambda: store.append(chat, user("x"), key="k"), lambda: store.set_output(chat, "x", 1)):
            with pytest.raises(HiveError, match="HIVE-402"):
                write()
        assert store.view(chat) == []
    store.append(chat, user("x"), key="k")
    assert [entry.n for entry in store.messages(chat)] == [1]
    assert store.outputs(chat) == {}


def test_a_result_answers_the_latest_call_of_its_id(store: ConversationStore) -> None:
    """Providers number their calls anew in every turn, and one that was interrupted stays without its result."""
    chat = store.create("digest", "r1")
    for n in (1, 2):
        store.append(chat, Message(role="user", content=f"turn {n}"))
        store.append(
            chat, Message(role="assistant", content="", tool_calls=[ToolCall(name=f"look{n}", args={}, id="c1")])
        )
    store.append(chat, Message(role="tool", content="seen", tool_call_id="c1"))
    told = [(one.role, one.content) for one in store.view(chat)]
    assert told == [
        ("user", "turn 1"), ("assistant", ""), ("tool", INTERRUPTED),
        ("user", "turn 2"), ("assistant", ""), ("tool", "seen"),
    ]  # fmt: skip
