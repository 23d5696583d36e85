"""Conditions on columns as people say them, over two tables whose rows are documents."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.plan import SearchStrategy
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents import Collection

TODAY = datetime.date(2026, 11, 25)
FIELDS = {
    "discontinued": "number",
    "organic": "keyword",
    "paid": "boolean",
    "deposit_made": "boolean",
    "unitsinstock": "number",
    "unitprice": "number",
    "weight_kg": "number",
    "year_built": "number",
    "supplier": "keyword",
    "sales_rep": "keyword",
    "launched": "date",
}
VALUES: dict[str, list[tuple[object, int]]] = {
    "discontinued": [(0, 8), (1, 2)],
    "organic": [("yes", 5), ("no", 5)],
    "unitsinstock": [(0, 3), (7, 7)],
    "supplier": [("Acme", 5), ("Zorn", 3), ("Ito", 2)],
    "sales_rep": [("Mona", 4), ("Kurt", 2)],
}
SHOP = Vocabulary.of(
    Collection.model_validate(
        {"name": "shop", "fields": {name: {"type": kind, "filterable": True} for name, kind in FIELDS.items()}}
    ),
    lambda name: VALUES.get(name, []),  # type: ignore[arg-type,return-value]
    ("products/chai.md", "invoices/r-1.md"),
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("how many products are discontinued?", ["discontinued eq 1"]),
        ("which products are not discontinued", ["discontinued eq 0"]),
        ("welche products sind nicht discontinued", ["discontinued eq 0"]),
        ("organic products", ["organic eq yes"]),
        ("which products aren't organic", ["organic eq no"]),
        ("invoices where the deposit is not made", ["deposit_made eq False"]),
        ("how many invoices are unpaid", ["paid eq False"]),
        ("which invoices haven't been paid yet", ["paid eq False"]),
        ("which products are out of stock", ["unitsinstock eq 0"]),
        ("products that are still in stock", ["unitsinstock gt 0"]),
        ("products with no units in stock", ["unitsinstock eq 0"]),
        ("how many products have units in stock", ["unitsinstock gt 0"]),
        ("products that cost more than 30", ["unitprice gt 30"]),
        ("products with exactly 30 units in stock", ["unitsinstock eq 30"]),
        ("products above unit price 30", ["unitprice gt 30"]),
        ("products over 1,500", ["unitprice gt 1500"]),
        ("which products cost between 10 and 20.5", ["unitprice gte 10", "unitprice lte 20.5"]),
        ("wie viele products kosten mehr als 30", ["unitprice gt 30"]),
        ("products weighing at least 3 kg", ["weight_kg gte 3"]),
        ("products built before 2005", ["year_built lt 2005"]),
        ("products launched in 2021", ["launched gte 2021-01-01", "launched lte 2021-12-31"]),
        ("invoices without a sales rep", ["sales_rep not_in ['Mona', 'Kurt']"]),
        ("which invoices have a sales rep", ["sales_rep in ['Mona', 'Kurt']"]),
        ("products not from Acme", ["supplier in ['Zorn', 'Ito']"]),
        ("products neither from Acme nor from Zorn", ["supplier eq Ito"]),
        ("discontinued products from Zorn under 20", ["discontinued eq 1", "unitprice lt 20", "supplier eq Zorn"]),
    ],
)
def test_a_message_of_conditions_alone_lists_the_rows_that_meet_them(text: str, filters: list[str]) -> None:
    decision = route(text, SHOP, reader="raj", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == sorted(filters)


@pytest.mark.parametrize(
    "text",
    [
        "why are products discontinued",
        "how do I mark an invoice as unpaid?",
        "discontinued products and their successors",
        "organic farming",
        "products about organic food",
        "invoices paid or without a sales rep",
        "what happens when an item is out of stock",
    ],
)
def test_other_words_are_searched_for(text: str) -> None:
    decision = route(text, SHOP, reader="raj", today=TODAY).decision
    assert decision.strategy in (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)


def test_a_column_of_numbers_with_others_than_one_and_nought_is_no_flag() -> None:
    assert set(SHOP.flags) == {"discontinued", "organic", "paid", "deposit_made"}
    assert Vocabulary({"paid": FieldWords("boolean")}).flags == {}
