"""A hidden document and one that doesn't exist take the same path: every call that is made, and every file opened.

Times would tell it worse than counts: they are measured by `benchmarks/timing.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.ranking import SearchEngine
from tests.conftest import settle
from tests.leaks.corpus import Doc, Rules, make, readers

READER = readers()[0]
WORDS = ("rotor", "pump", "beaker", "lamp", "valve")
HIDDEN, MISSING = "secret/a.md", "absent/b.md"


def doc(number: int, doc_id: str, *, mine: bool, words: tuple[str, ...] = WORDS) -> Doc:
    return Doc(number, doc_id, ("acme",), ("tenant",) if mine else ("group:none",), "effective", words, "t", "mei")


@pytest.fixture(params=["written before the index", "written with it"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """Indexed long after its documents were written, or at once: then each is looked at again."""
    place = make(tmp_path / "ws", [doc(1, "open/a.md", mine=True), doc(2, HIDDEN, mine=False)])
    Rules().write(place, readers())
    if request.param == "written before the index":
        settle(place)
    return place


def work(act: Callable[[], Any]) -> Counter[str]:
    """Every function that is called and every file that is opened, with how often."""
    done: Counter[str] = Counter()

    def seen(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and "hive_agents" in frame.f_code.co_filename:
            done[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            done[getattr(argument, "__qualname__", repr(argument))] += 1

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return done


def refused(chat: Chat, doc_id: str) -> Callable[[], None]:
    def act() -> None:
        try:
            chat.document(doc_id)
        except HiveError:
            return
        raise AssertionError

    return act


@pytest.mark.parametrize("cold", [True, False])
def test_to_open_a_hidden_document_is_the_work_of_opening_a_missing_one(place: Workspace, cold: bool) -> None:
    engine = SearchEngine(place)
    refused(Chat(place, READER, engine=engine), "nothing.md")()
    chats = [Chat(place, READER, engine=engine) for _ in (HIDDEN, MISSING)]
    if not cold:
        for chat, doc_id in zip(chats, (HIDDEN, MISSING), strict=True):
            refused(chat, doc_id)()
    hidden, missing = (work(refused(chat, doc_id)) for chat, doc_id in zip(chats, (HIDDEN, MISSING), strict=True))
    assert hidden == missing
    assert sum(hidden.values()) > 20


def test_to_open_a_hidden_document_opens_no_file_of_it(place: Workspace) -> None:
    opened: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open":
            opened.append(str(arguments[0]))

    chat = Chat(place, READER)
    refused(chat, "nothing.md")()
    sys.addaudithook(hook)
    refused(chat, HIDDEN)()
    watching = False
    assert not any("secret" in path for path in opened)


def test_a_question_about_a_hidden_document_asks_nobody_about_it(place: Workspace) -> None:
    """The view gate is asked as often as for a document that doesn't exist: not at all."""
    engine = SearchEngine(place)

    def asks(doc_id: str) -> int:
        chat = Chat(place, READER, engine=engine)
        done = work(lambda: asyncio.run(chat.ask(Request(text="how is the rotor kept?", doc_id=doc_id))))
        return sum(times for name, times in done.items() if name.startswith(("ViewGate.allowed", "TurnGate.allowed")))

    asks("open/a.md")
    assert asks(HIDDEN) == asks(MISSING) < asks("open/a.md")


def test_hidden_matches_of_a_search_add_no_calls(tmp_path: Path) -> None:
    """As many are ranked, asked about and read, whether 60 hidden documents hold the word or none."""
    words = {True: ("zebra", "pump", "beaker", "lamp", "valve"), False: ("yak", "pump", "beaker", "lamp", "valve")}
    mine = [doc(n, f"open/{n}.md", mine=True, words=("zebra", "yak", "beaker", "lamp", "valve")) for n in range(1, 4)]
    hidden = [doc(n, f"secret/{n}.md", mine=False, words=words[True]) for n in range(10, 70)]
    place = make(tmp_path / "ws", [*mine, *hidden])
    Rules().write(place, readers())
    engine = SearchEngine(place)

    def calls(word: str) -> Counter[str]:
        chat = Chat(place, READER, engine=engine)
        return work(lambda: chat._scope() and engine.retrieve(chat._scope(), word, config(place)))

    calls("valve")
    assert calls("zebra") == calls("yak")


def config(place: Workspace) -> Any:
    from hive_agents.ranking.deployed import active_config

    return active_config(place).stored.config
