"""A category called like a word of everyday language filters only where the sentence names documents by it."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary

VALUES = ("data", "tools", "network", "security", "metrics", "archives", "logs", "recipes")


def decided(text: str, field: str) -> RouterDecision:
    vocabulary = Vocabulary({field: FieldWords("keyword", VALUES)})
    return route(text, vocabulary, reader="dana", today=datetime.date(2026, 2, 2)).decision


@pytest.mark.parametrize("field", ["category", "section", "type", "doc_type"])
@pytest.mark.parametrize(
    "text",
    [
        "compress data with gzip",
        "how do I compress data with gzip",
        "how is data compressed in network",
        "copy data from archives",
        "send data over the network",
        "show network connections",
        "get metrics from prometheus",
        "rotate logs",
        "network security",
        "which tools compress data",
        "data compression",
        "logs how to rotate",
    ],
)
def test_a_word_of_the_question_filters_nothing(text: str, field: str) -> None:
    decision = decided(text, field)
    assert (decision.filters, decision.strategy) == ([], SearchStrategy.CONTENT_ONLY)


@pytest.mark.parametrize("field", ["category", "section", "type", "doc_type"])
@pytest.mark.parametrize(
    ("text", "values", "search"),
    [
        ("data docs", ["data"], None),
        ("from data", ["data"], None),
        ("documents about data", ["data"], None),
        ("only data", ["data"], None),
        ("documents in network", ["network"], None),
        ("how do I sort rows in the data docs", ["data"], "how do I sort rows"),
        ("list tools", ["tools"], None),
        ("what tools are there", ["tools"], None),
        ("list logs and archives", ["archives", "logs"], None),
        ("data", ["data"], None),
        ("list recipes about garlic", ["recipes"], "garlic"),
        ("what do the recipes say about garlic", ["recipes"], "garlic"),
    ],
)
def test_where_documents_are_named_it_filters(text: str, values: list[str], search: str | None, field: str) -> None:
    decision = decided(text, field)
    assert [(demand.field, sorted(map(str, demand.values))) for demand in decision.filters] == [(field, values)]
    assert decision.search_value == search


def test_a_name_is_no_word_of_everyday_language() -> None:
    vocabulary = Vocabulary({"category": FieldWords("keyword", ("traefik", "python"))})
    for text, value in (("limit requests in traefik", "traefik"), ("limit requests in Python", "python")):
        decision = route(text, vocabulary, reader="dana", today=datetime.date(2026, 2, 2)).decision
        assert [demand.value for demand in decision.filters] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "how many pumps has Oslo",
        "how many pumps does Oslo have?",
        "how many pumps for Oslo",
        "how many pumps in Oslo",
    ],
)
def test_who_has_them_filters_what_is_counted(text: str) -> None:
    fields = {"kind": FieldWords("keyword", ("pump", "valve")), "city": FieldWords("keyword", ("Oslo", "Graz"))}
    found = route(text, Vocabulary(fields), reader="dana", today=datetime.date(2026, 2, 2)).decision
    assert sorted((one.field, one.value) for one in found.filters) == [("city", "Oslo"), ("kind", "pump")]
    assert found.strategy is SearchStrategy.METADATA_ONLY


@pytest.mark.parametrize("text", ["how many pumps do I need to fill a tank", "how many valves does a pump take"])
def test_how_many_it_takes_counts_no_documents(text: str) -> None:
    fields = {"kind": FieldWords("keyword", ("pump", "valve"))}
    found = route(text, Vocabulary(fields), reader="dana", today=datetime.date(2026, 2, 2)).decision
    assert (found.filters, found.strategy) == ([], SearchStrategy.CONTENT_ONLY)
