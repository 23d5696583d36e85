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


def of_tables(
    fields: dict[str, str], values: dict[str, list[tuple[object, int]]], *doc_ids: str, name: str = "kb"
) -> Vocabulary:
    declared = {name: {"type": kind, "filterable": True} for name, kind in fields.items()}
    collection = Collection.model_validate({"name": name, "fields": declared})
    return Vocabulary.of(collection, lambda name: values.get(name, []), doc_ids)  # type: ignore[arg-type,return-value]


PUMPEN = of_tables(
    {"bauart": "keyword", "hersteller": "keyword", "leistung_kw": "number", "stutzen": "number", "preis": "number"},
    {"bauart": [("Kreisel", 4), ("Membran", 3)], "hersteller": [("Sulzer", 4), ("Wilo", 3)]},
    "pumpen/p-1.md",
    "pumpen/p-2.md",
)
BOATS = of_tables(
    {
        "lowest_temperature": "number",
        "year": "number",
        **dict.fromkeys(("rig", "harbour", "home", "launched", "refitted", "has_engine", "hull"), "keyword"),
    },
    {
        "rig": [("Sloop", 6), ("Ketch", 3)],
        "harbour": [("Cowes", 7), ("Brest", 2)],
        "home": [("Brest", 5), ("Cowes", 1)],
        "launched": [("1987", 3), ("2004", 5)],
        "refitted": [("2004", 5), ("2011", 3)],
        "has_engine": [("Yes", 5), ("No", 3), ("Unknown", 1)],
        "hull": [("racing boats", 2), ("steel", 6)],
    },
    "boats/b-1.md",
    "boats/b-2.md",
)
BILLS = of_tables(
    {"payer": "keyword", "amount": "number", "vat_amount": "number", "has_late_fee": "keyword", "sent": "keyword"},
    {
        "payer": [("Ito", 3)],
        "has_late_fee": [("Yes", 2), ("No", 2)],
        "sent": [("1999", 2), ("2001", 2)],
    },
    "bills/b-1.md",
)
PARCELS = of_tables(
    {"net_amount": "number", "gross_amount": "number", "weight_g": "number", "tara_weight_g": "number"},
    {},
    "parcels/1.md",
)
CREW = of_tables(
    {
        "rank": "keyword",
        "deck": "keyword",
        "salary": "number",
        "berths_per_100": "number",
        "age": "number",
        "needs_visas": "keyword",
    },
    {
        "needs_visas": [("Y", 4), ("N", 2)],
        "rank": [("Koch", 4), ("Steward", 2)],
        "deck": [("Galley", 4), ("Bridge", 2)],
    },
    "sailors/c-1.md",
)
NAVIRES = of_tables(
    {"pavillon": "keyword", "port": "keyword", "longueur": "number"},
    {"pavillon": [("Norvège", 3), ("Grèce", 2)], "port": [("Brest", 3), ("Le Havre", 2)]},
    "navires/n-1.md",
)


@pytest.mark.parametrize(
    ("table", "text", "filters"),
    [
        (PUMPEN, "Wie viele Pumpen haben Membranbauart?", ["bauart eq Membran"]),
        (PUMPEN, "Welche Pumpen von Wilo gibt es?", ["hersteller eq Wilo"]),
        (PUMPEN, "Zeig mir die Pumpen, die unter 900 EUR kosten", ["preis lt 900"]),
        (PUMPEN, "Nenne alle Pumpen über 40 kW Leistung", ["leistung_kw gt 40"]),
        (PUMPEN, "Pumpen mit 2 Stutzen", ["stutzen eq 2"]),
        (
            PUMPEN,
            "Gib mir alle Pumpen mit mehr als 15 kW Leistung von Sulzer",
            ["leistung_kw gt 15", "hersteller eq Sulzer"],
        ),
        (PUMPEN, "Gib mir bitte alle Pumpen mit einer Leistung von über 40 kW", ["leistung_kw gt 40"]),
        (PUMPEN, "Pumpen teurer als 900", ["preis gt 900"]),
        (PUMPEN, "Pumpen über 1.250 EUR", ["preis gt 1250"]),
        (PUMPEN, "Welche Pumpen haben mehr als 2,5 kW Leistung?", ["leistung_kw gt 2.5"]),
        (BILLS, "bills over 300", ["amount gt 300"]),
        (BILLS, "how many bills are over 2 million", ["amount gt 2000000"]),
        (CREW, "who works on the bridge?", ["deck eq Bridge"]),
        (CREW, "show me everyone in the galley", ["deck eq Galley"]),
        (CREW, "sailors who earn less than 1800", ["salary lt 1800"]),
        (CREW, "how many sailors work as Steward", ["rank eq Steward"]),
        (CREW, "Wie viele Köche verdienen mehr als 1.800?", ["rank eq Koch", "salary gt 1800"]),
        (CREW, "sailors older than 40", ["age gt 40"]),
        (CREW, "Welche Sailors sind jünger als 40?", ["age lt 40"]),
        (CREW, "how many sailors need a visa?", ["needs_visas eq Y"]),
        (CREW, "which sailors don't need visas", ["needs_visas eq N"]),
        (CREW, "sailors with salary number 1900", ["salary eq 1900"]),
        (BILLS, "which bills have a late fee but no sent", ["has_late_fee eq Yes", "sent not_in ['1999', '2001']"]),
        (BILLS, "bills with late fees", ["has_late_fee eq Yes"]),
        (PARCELS, "parcels worth more than 20", ["gross_amount gt 20"]),
        (PARCELS, "how many parcels are heavier than 500", ["weight_g gt 500"]),
        (BOATS, "boats launched in 1987 and refitted in 2011", ["launched eq 1987", "refitted eq 2011"]),
        (NAVIRES, "Combien de navires avons-nous à Brest ?", ["port eq Brest"]),
        (NAVIRES, "Montre-moi les navires de Grèce", ["pavillon eq Grèce"]),
        (NAVIRES, "Quels navires viennent d'Norvège ?", ["pavillon eq Norvège"]),
        (BOATS, "name the boats with a lowest temperature below -4", ["lowest_temperature lt -4"]),
        (BOATS, "how many boats don't have an engine?", ["has_engine eq No"]),
        (BOATS, "which boats were launched in 1987?", ["launched eq 1987"]),
        (BOATS, "boats refitted before 2010", ["refitted eq 2004"]),
        (BOATS, "how many boats in Cowes are made of steel", ["harbour eq Cowes", "hull eq steel"]),
        (BOATS, "which boats are not made of steel", ["hull eq racing boats"]),
        (BOATS, "boats in Brest", ["home eq Brest"]),
        (BOATS, "show me the racing boats in Cowes", ["harbour eq Cowes", "hull eq racing boats"]),
        (BOATS, "how many sloops in Cowes are there", ["rig eq Sloop", "harbour eq Cowes"]),
        (BOATS, "boats from 1990", ["year gte 1990", "year lte 1990"]),
    ],
)
def test_rows_are_asked_for_in_natural_wordings_of_their_readers(
    table: Vocabulary, text: str, filters: list[str]
) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == sorted(filters)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (BOATS, "why are boats made of steel"),
        (BOATS, "boats made of bamboo"),
        (BILLS, "how many bills are over 40 florins"),
        (CREW, "who sank on the bridge of sighs"),
        (BOATS, "boats drawn in 1987 launched 2004"),
        (BOATS, "how do I paint a steel boat"),
        (BOATS, "boats that sank in 1987"),
        (BOATS, "sloops and how they sail"),
        (BOATS, "name of the boat in Cowes"),
        (PUMPEN, "Wie warte ich eine Membranpumpe?"),
        (PUMPEN, "Was sagt die Norm über Kreiselpumpen?"),
        (NAVIRES, "Comment entrer dans le port de Brest ?"),
    ],
)
def test_what_no_column_explains_is_searched_for(table: Vocabulary, text: str) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy in (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)
