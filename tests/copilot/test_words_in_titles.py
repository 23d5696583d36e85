"""Documents are listed and counted by words of their titles."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.plan import SearchStrategy
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from tests.copilot.chats import as_bytes, ask, knowledge_base

TODAY = datetime.date(2026, 11, 29)
DESK = Vocabulary({"state": FieldWords("keyword", ("open", "closed"))}, noun="ticket")


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("which tickets mention printer in the title?", ["title has printer"]),
        ('how many closed tickets have "paper jam" in their title', ["state eq closed", "title has paper jam"]),
        ("list tickets whose title contains VPN", ["title has VPN"]),
        ("documents with the word badge in the title", ["title has badge"]),
    ],
)
def test_words_of_titles_filter(text: str, filters: list[str]) -> None:
    decision = route(text, DESK, reader="mei", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == filters


@pytest.mark.parametrize(
    "text",
    [
        "how do I put a date in the title",
        "broken tickets with a printer in the title",
        "who may have VPN in the office",
    ],
)
def test_other_mentions_of_titles_are_searched_for(text: str) -> None:
    decision = route(text, DESK, reader="mei", today=TODAY).decision
    assert not any(demand.op == "has" for demand in decision.filters)


@pytest.mark.parametrize(("reader", "titles"), [("dana", ["Recall"]), ("guest", []), ("hana", ["Recall at Globex"])])
def test_only_titles_that_the_reader_may_see_are_found_and_counted(reader: str, titles: list[str]) -> None:
    found = ask(knowledge_base(), reader, "documents with recall in the title")
    counted = ask(knowledge_base(), reader, "how many documents have recall in the title")
    assert [one["title"] for one in found["results"]] == titles
    noun = "is 1 such document" if titles else "are no such documents"
    assert counted["answer"] == f"There {noun} that you can open."


def test_a_word_of_hidden_titles_reads_as_one_of_none() -> None:
    replies = [
        ask(knowledge_base(), "guest", f"list documents with {word} in the title") for word in ("recall", "zzyzx")
    ]
    assert as_bytes(replies[0]) == as_bytes(replies[1]).replace(b"zzyzx", b"recall")


def test_the_beginning_of_a_word_is_enough_and_letters_inside_are_not() -> None:
    titles = [
        [one["title"] for one in ask(knowledge_base(), "dana", f"pages whose title contains {word}")["results"]]
        for word in ("rotat", "otate")
    ]
    assert titles == [["How to rotate a key"], []]
