"""Filters as people type them, over the fields of a tracker and of a file of contracts."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary

TODAY = datetime.date(2026, 11, 25)
TRACKER = Vocabulary(
    {
        "type": FieldWords("keyword", ("bug", "task", "manual")),
        "status": FieldWords("keyword", ("open", "new", "done", "blocked")),
        "assignee": FieldWords("keyword", ("anna", "raj")),
        "due_date": FieldWords("date"),
        "created": FieldWords("date"),
        "votes": FieldWords("number"),
    }
)
CONTRACTS = Vocabulary(
    {
        "doc_type": FieldWords("keyword", ("nda", "sla", "amendment", "guide")),
        "expiry_date": FieldWords("date"),
        "review_due": FieldWords("date"),
        "signed_on": FieldWords("date"),
        "pages": FieldWords("number"),
    }
)


def decided(text: str, vocabulary: Vocabulary) -> tuple[RouterDecision, list[str]]:
    decision = route(text, vocabulary, reader="raj", today=TODAY).decision
    return decision, [f"{one.field} {one.op} {one.value}" for one in decision.filters]


@pytest.mark.parametrize("text", ["open bugs", "which bugs are open?", "my list of open bugs", "list open bugs"])
def test_a_status_that_is_a_word_of_grammar_filters_where_documents_have_it(text: str) -> None:
    _, filters = decided(text, TRACKER)
    assert {"type eq bug", "status eq open"} <= set(filters)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("done tasks", ["type eq task", "status eq done"]),
        ("open and blocked bugs", ["type eq bug", "status in ['open', 'blocked']"]),
        ("which tasks are not done", ["type eq task", "status not_in ['done']"]),
        ("how many bugs are open in production?", ["type eq bug", "status eq open"]),
        ("bugs assigned to anna", ["type eq bug", "assignee eq anna"]),
        ("blocked tasks assigned to me", ["type eq task", "status eq blocked", "assignee eq raj"]),
        ("manuals with more than 10 votes", ["type eq manual", "votes gt 10"]),
        ("bugs with at least 50 votes", ["type eq bug", "votes gte 50"]),
        ("tasks due before 1 December", ["type eq task", "due_date lt 2026-12-01"]),
        ("tasks due in January", ["type eq task", "due_date gte 2027-01-01", "due_date lte 2027-01-31"]),
        ("bugs since 1 December", ["type eq bug", "created gte 2025-12-01"]),
    ],
)
def test_a_tracker_is_filtered_as_people_say_it(text: str, filters: list[str]) -> None:
    assert decided(text, TRACKER)[1] == filters


@pytest.mark.parametrize(
    ("text", "tally"),
    [
        ("bugs with at least 50 votes", None),
        ("bugs with at least one vote", None),
        ("bugs with a minimum of 50 votes", None),
        ("the least votes of bugs", "min"),
        ("what is the maximum of the votes of bugs", "max"),
    ],
)
def test_a_bound_is_no_figure(text: str, tally: str | None) -> None:
    found = route(text, TRACKER, reader="raj", today=TODAY).tally
    assert (found and (found.of, found.field)) == (tally and (tally, "votes"))


@pytest.mark.parametrize("text", ["how do I open bugs", "how to open bugs", "steps to open a bug", "open bug 17"])
def test_what_is_opened_is_no_status(text: str) -> None:
    assert "status eq open" not in decided(text, TRACKER)[1]


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("ndas", ["doc_type eq nda"]),
        ("all SLAs with more than 3 pages", ["doc_type eq sla", "pages gt 3"]),
        ("amendments since 2023-05-01", ["doc_type eq amendment", "signed_on gte 2023-05-01"]),
        ("ndas reviewed before March", ["doc_type eq nda", "review_due lt 2026-03-01"]),
        ("ndas due for review before 2027", ["doc_type eq nda", "review_due lt 2027-01-01"]),
    ],
)
def test_contracts_are_filtered_as_people_say_it(text: str, filters: list[str]) -> None:
    decision, found = decided(text, CONTRACTS)
    assert (decision.strategy, found) == (SearchStrategy.METADATA_ONLY, filters)


@pytest.mark.parametrize("text", ["how to rotate a key", "how to set up a proxy"])
def test_how_to_is_a_question_and_no_kind_of_document(text: str) -> None:
    decision, filters = decided(text, CONTRACTS)
    assert (decision.strategy, filters, decision.search_value) == (SearchStrategy.CONTENT_ONLY, [], text)


def test_a_how_to_is_a_kind_of_document() -> None:
    assert decided("list the how-tos", CONTRACTS)[1] == ["doc_type eq guide"]


@pytest.mark.parametrize("text", ["danke", "Guten Tag!", "merci beaucoup", "Hola", "vielen Dank"])
def test_greetings_and_thanks_of_neighbours_are_small_talk(text: str) -> None:
    assert decided(text, CONTRACTS)[0].strategy is SearchStrategy.NO_MATCH
