"""A folder of tickets and one of mails: whose columns a question means, and which row a number tells."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.figures import cell_in
from hive_agents.copilot.plan import described
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents import Collection

TODAY = datetime.date(2026, 11, 30)
TICKETS = {"ticket_id": "number", "requester": "keyword", "channel": "keyword", "opened": "date", "bought_date": "date"}
MAILS = {"from": "keyword", "date": "date"}
VALUES: dict[str, list[tuple[object, int]]] = {
    "category": [("tickets", 9), ("mail", 3)],
    "requester": [("Dan Novak", 5), ("Ada Berg", 4)],
    "channel": [("phone", 6), ("mail", 3)],
    "from": [("dan.novak@office.example", 2), ("desk@office.example", 1)],
    "ticket_id": [(4211, 1), (17, 1)],
}
FIELDS = {"category": "keyword", **TICKETS, **MAILS}
OFFICE = Vocabulary.of(
    Collection.model_validate(
        {"name": "office", "fields": {name: {"type": kind, "filterable": True} for name, kind in FIELDS.items()}}
    ),
    lambda name: VALUES.get(name, []),  # type: ignore[arg-type,return-value]
    ("tickets/vpn.md", "mail/board/minutes.md"),
    lambda field, value: frozenset(TICKETS if value == "tickets" else MAILS),
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("how many mails are there", "category mail"),
        ("which mails are from Dan Novak", "category mail, from dan.novak@office.example"),
        ("how many tickets are from Dan Novak", "category tickets, requester Dan Novak"),
        ("how many mails were sent in 2025", "category mail, date from 2025-01-01, date until 2025-12-31"),
        ("what is the requester of ticket 4211", "ticket_id 4211"),
        ("which channel did ticket 17 come by", "ticket_id 17"),
        ("what is wrong with 4211 tickets", ""),
        ("how do I send mail", ""),
    ],
)
def test_a_question_means_the_columns_of_the_documents_that_it_names(text: str, filters: str) -> None:
    found = route(text, OFFICE, reader="mei", today=TODAY).decision.filters
    told = [f"{each.field} {each.value}" if each.op == "eq" else described([each]) for each in found]
    assert ", ".join(told) == filters


def test_who_wrote_the_most_of_them_is_counted_by_their_sender() -> None:
    found = route("who wrote the most mails", OFFICE, reader="mei", today=TODAY)
    assert found.tally is not None
    assert (found.tally.by, [each.value for each in found.decision.filters]) == ("from", ["mail"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("what is the requester of ticket 4211?", "VPN drops, requester: Dan Novak."),
        ("which channel has ticket 4211", "VPN drops, channel: phone."),
        ("what is the requester of ticket 17", None),
        ("what is the requester's password of ticket 4211", None),
    ],
)
def test_a_cell_is_told_of_the_row_with_a_number(text: str, told: str | None) -> None:
    row = {"ticket_id": 4211, "requester": "Dan Novak", "channel": "phone"}
    assert cell_in(text, OFFICE, [("tickets/vpn.md", "VPN drops", row)]) == told
