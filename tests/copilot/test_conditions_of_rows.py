"""Conditions on columns in the words of people who don't know how the columns are called."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from hive_agents.base import HiveError
from hive_agents.copilot.documents import meeting
from hive_agents.copilot.plan import DocumentFilter, Operator, SearchStrategy
from hive_agents.copilot.router import reread, route
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents import Collection
from tests.copilot.chats import ask, make_knowledge_base

TODAY = datetime.date(2026, 11, 29)


def of_tables(fields: dict[str, str], values: dict[str, list[tuple[object, int]]], *doc_ids: str) -> Vocabulary:
    declared = {name: {"type": kind, "filterable": True} for name, kind in fields.items()}
    collection = Collection.model_validate({"name": "kb", "fields": declared})
    return Vocabulary.of(collection, lambda name: values.get(name, []), doc_ids)  # type: ignore[arg-type,return-value]


FILMS = of_tables(
    {
        "playing_time_min": "number",
        "budget": "number",
        "score": "number",
        "certificate_rating": "keyword",
        "country": "keyword",
        "shot_in": "keyword",
        "restored_flag": "boolean",
    },
    {
        "certificate_rating": [("R", 3), ("PG", 2)],
        "country": [("Japan", 4), ("Italy", 2)],
        "shot_in": [("Italy", 3), ("Spain", 2)],
    },
    "movies/a.md",
    "movies/b.md",
)
TOOLS = of_tables(
    {"weight_kg": "number", "reach": "number", "rental_fee": "number", "maker": "keyword", "hall": "keyword"},
    {"maker": [("Knipex", 4), ("Wera", 2)], "hall": [("East", 3)]},
    "power_tools/1.md",
    "power_tools/2.md",
)
TRIPS = of_tables(
    {
        "origin_city": "keyword",
        "target_city": "keyword",
        "gender": "keyword",
        "state": "keyword",
        "arrived_on": "date",
        "deadline": "date",
        "late_cancelled": "boolean",
    },
    {
        "origin_city": [("Ghent", 3), ("Lille", 3)],
        "target_city": [("Ghent", 2), ("Lille", 4)],
        "gender": [("Female", 3), ("Male", 3)],
        "state": [("planned", 1), ("on the way", 2), ("done", 3)],
    },
    "trips/1.md",
)
LOANS = of_tables(
    {"review_status": "keyword", "payout_status": "keyword", "officer": "keyword", "term_months": "number"},
    {
        "review_status": [("waiting", 6), ("done", 1)],
        "payout_status": [("waiting", 2), ("sent", 5)],
        "officer": [("Ada", 7)],
    },
    "loans/1.md",
)


@pytest.mark.parametrize(
    ("table", "text", "filters"),
    [
        (FILMS, "films longer than 2 hours", ["playing_time_min gt 120"]),
        (FILMS, "how many movies are longer than 100 minutes", ["playing_time_min gt 100"]),
        (FILMS, "films rated R", ["certificate_rating eq R"]),
        (FILMS, "how many restored films are there", ["restored_flag eq True"]),
        (FILMS, "films with a score of 7.5 or better", ["score gte 7.5"]),
        (FILMS, "films with a score of 4 or less", ["score lte 4"]),
        (FILMS, "how many films have a budget of 5 million or more", ["budget gte 5000000"]),
        (FILMS, "japanese films", ["country eq Japan"]),
        (FILMS, "films shot in Italy", ["shot_in eq Italy"]),
        (TOOLS, "all tools made by Wera", ["maker eq Wera"]),
        (TOOLS, "which tools are heavier than 500 g", ["weight_kg gt 0.5"]),
        (TOOLS, "power tools in the east hall", ["hall eq East"]),
        (TOOLS, "tools that cost less than 40", ["rental_fee lt 40"]),
        (TOOLS, "items from Knipex", ["maker eq Knipex"]),
        (LOANS, "how many loans are waiting for review", ["review_status eq waiting"]),
        (LOANS, "loans whose payout is waiting", ["payout_status eq waiting"]),
    ],
)
def test_rows_are_found_by_their_readers_words(table: Vocabulary, text: str, filters: list[str]) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == sorted(filters)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (TOOLS, "tools heavier than 3 metres"),
        (FILMS, "films longer than 3 km"),
        (FILMS, "films in hall R"),
        (TOOLS, "garden tools in the east hall"),
    ],
)
def test_a_unit_of_another_measure_and_other_words_list_nothing(table: Vocabulary, text: str) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy in (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)


@pytest.mark.parametrize(
    ("table", "text", "filters"),
    [
        (TOOLS, "tools that do not come from Wera", ["maker eq Knipex"]),
        (TOOLS, "tools which don't come from Knipex", ["maker eq Wera"]),
        (FILMS, "films not shot in Spain over 2 hours", ["playing_time_min gt 120", "shot_in eq Italy"]),
    ],
)
def test_what_is_denied_is_excluded(table: Vocabulary, text: str, filters: list[str]) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == sorted(filters)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (TOOLS, "tools that nobody but Wera does not make for 40"),
        (TOOLS, "which tools have not been lent by Wera to others"),
    ],
)
def test_a_negation_that_no_condition_explains_makes_no_exact_list(table: Vocabulary, text: str) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy in (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)


@pytest.mark.parametrize(
    ("table", "text", "filters"),
    [
        (FILMS, "films with a score below their budget", ["score below budget"]),
        (TOOLS, "how many tools have a rental fee higher than their weight", ["rental_fee above weight_kg"]),
        (TOOLS, "tools where reach < weight", ["reach below weight_kg"]),
        (TRIPS, "trips that arrived after the deadline", ["arrived_on above deadline"]),
        (TRIPS, "trips from Ghent to Lille", ["origin_city eq Ghent", "target_city eq Lille"]),
        (TRIPS, "rides that started in Lille and ended in Ghent", ["origin_city eq Lille", "target_city eq Ghent"]),
        (TRIPS, "how many trips weren't cancelled", ["late_cancelled eq False"]),
        (TRIPS, "how many women are there", ["gender eq Female"]),
        (TRIPS, "people from Ghent", ["origin_city eq Ghent"]),
        (TRIPS, "how many open trips are there", ["state in ['on the way', 'planned']"]),
    ],
)
def test_columns_are_compared_and_told_apart_by_what_a_reader_calls_them(
    table: Vocabulary, text: str, filters: list[str]
) -> None:
    decision = route(text, table, reader="raj", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert sorted(f"{one.field} {one.op} {one.value}" for one in decision.filters) == sorted(filters)


@pytest.mark.parametrize("text", ["tools not heavier than their reach", "tools with a weight above the usual reach"])
def test_a_comparison_that_is_denied_or_has_another_word_lists_nothing(text: str) -> None:
    decision = route(text, TOOLS, reader="raj", today=TODAY).decision
    assert decision.strategy in (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)


def test_a_flag_is_known_in_any_order_of_its_words() -> None:
    members = of_tables({"fan_club_member": "boolean", "town": "keyword"}, {"town": [("Bern", 2)]}, "guests/1.md")
    for text, value in (
        ("guests who are members of the fan club", True),
        ("guests that are not fan club members", False),
    ):
        decision = route(text, members, reader="raj", today=TODAY).decision
        assert [(one.field, one.value) for one in decision.filters] == [("fan_club_member", value)]


@pytest.mark.parametrize("op", ["above", "below"])
def test_two_fields_of_one_document_are_compared_where_they_can_be(op: Operator) -> None:
    """A reader's own filter may name any two fields, and front matter may have any value in one."""
    rows: dict[str, tuple[Any, Any]] = {"text": ("a", 2), "list": ([1], [2]), "none": (None, 1)}
    rows |= {"dates": ("2025-02", "2025-01"), "less": (1, 2.5), "more": (3, 2), "flag": (True, {"a": 1})}

    class Index:
        def documents(self) -> list[tuple[str, str, dict[str, Any]]]:
            return [(doc_id, doc_id, {"paid": left, "due": right}) for doc_id, (left, right) in rows.items()]

        def only(self, doc_ids: Iterable[str]) -> list[str]:
            return list(doc_ids)

    met = meeting(cast("Any", Index()), DocumentFilter(field="paid", op=op, value="due"))
    assert list(met) == (["dates", "more"] if op == "above" else ["less"])


def test_a_month_is_met_by_each_of_the_dates_of_a_document_whatever_the_year() -> None:
    rows: dict[str, Any] = {"one": "2001-07-04", "time": "1999-07-30T08:00:00", "list": ["2020-01-01", "2020-07-01"]}
    rows |= {"day": "2001-04-07", "none": None, "year": 2007}

    class Index:
        def documents(self) -> list[tuple[str, str, dict[str, Any]]]:
            return [(doc_id, doc_id, {"added": value}) for doc_id, value in rows.items()]

        def only(self, doc_ids: Iterable[str]) -> list[str]:
            return list(doc_ids)

    met = meeting(cast("Any", Index()), DocumentFilter(field="added", op="month", value=7))
    assert list(met) == ["one", "time", "list"]


def test_the_other_field_of_a_comparison_has_to_be_one(tmp_path: Path) -> None:
    place = make_knowledge_base(tmp_path)
    with pytest.raises(HiveError) as raised:
        ask(place, "dana", "keys", pinned=[DocumentFilter(field="status", op="above", value="tenant")])
    assert raised.value.diagnostics[0].code == "HIVE-206"


PEAKS = of_tables(
    {"elev": "number", "melt": "number", "relief": "number", "kind": "keyword", "phase": "keyword"},
    {"kind": [("Cone", 5), ("Dome", 4), ("Domes", 2), ("dome", 1)], "phase": [("Gas", 2), ("Solid", 3)]},
    "peaks/1.md",
)


GEMS = of_tables(
    {"category": "keyword", "colour": "keyword"},
    {"category": [("noble gas", 4), ("garnet", 3)], "colour": [("red", 3)]},
    "gems/1.md",
)


@pytest.mark.parametrize(
    ("text", "value"), [("list the noble gases", "noble gas"), ("how many garnets are there", "garnet")]
)
def test_a_value_of_a_column_called_category_names_rows_in_the_plural(text: str, value: str) -> None:
    decision = route(text, GEMS, reader="mei", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert [(one.field, one.value) for one in decision.filters] == [("category", value)]


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("how many domes are there", [("kind", "in", ["Dome", "Domes", "dome"])]),
        ("which peaks are not domes", [("kind", "eq", "Cone")]),
        ("how many peaks are gases", [("phase", "eq", "Gas")]),
        ("how many peaks are higher than 5000 metres", [("elev", "gt", 5000)]),
        ("which peaks have a melting point below 100", [("melt", "lt", 100)]),
    ],
)
def test_values_and_columns_are_known_in_their_other_forms(text: str, filters: list[object]) -> None:
    decision = route(text, PEAKS, reader="mei", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    found = [(one.field, one.op, [*one.values] if one.op == "in" else one.value) for one in decision.filters]
    assert found == filters


SONGS = of_tables(
    {"official_song": "keyword", "year": "keyword", "tempo": "number", "encores": "number", "label": "keyword"},
    {
        "official_song": [("Yes", 5), ("No", 2)],
        "year": [(str(1900 + n), 1) for n in range(19)] + [("Unknown", 1)],
        "tempo": [("90", 2), ("120", 3)],
        "encores": [("0", 2), ("1", 3)],
        "label": [("Acme", 4)],
    },
    "songs/1.md",
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("which songs are not official?", [("official_song", "eq", "No")]),
        ("how many songs were written before 1902", [("year", "in", ["1900", "1901"])]),
        ("how many songs have no encores", [("encores", "eq", 0)]),
        ("how many songs have no tempo", None),
        ("which labels do we not have", None),
    ],
)
def test_what_rows_are_called_is_no_part_of_a_column_and_no_number_is_no_zero(
    text: str, filters: list[object] | None
) -> None:
    decision = route(text, SONGS, reader="mei", today=TODAY).decision
    assert (decision.strategy is SearchStrategy.METADATA_ONLY) == (filters is not None)
    found = [(one.field, one.op, [*one.values] if one.op == "in" else one.value) for one in decision.filters]
    assert filters is None or found == filters


def test_a_follow_up_has_conditions_on_columns() -> None:
    before = reread(["how many songs are of Acme"], SONGS, reader="mei", today=TODAY)
    after = route("and how many of them are official?", SONGS, reader="mei", today=TODAY, history=before).decision
    assert [(one.field, one.value) for one in after.filters] == [("label", "Acme"), ("official_song", "Yes")]


HILLS = of_tables(
    {"country": "keyword", "cost": "number", "opened": "date", "owner": "keyword", "region": "keyword"},
    {"country": [("Chile", 3), ("Peru", 2)], "owner": [("Ada", 2), ("Mei", 3)], "region": [("Africa-N", 2)]},
    "hills/1.md",
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("which hills are outside of Chile", [("country", "in", ["Peru"])]),
        ("how many hills outside Chile", [("country", "in", ["Peru"])]),
        ("how many hills are owned by Ada", [("owner", "eq", "Ada")]),
    ],
)
def test_what_is_outside_is_excluded(text: str, filters: list[object]) -> None:
    decision = route(text, HILLS, reader="mei", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    found = [(one.field, one.op, one.value) for one in decision.filters]
    assert found in (filters, [("country", "not_in", ["Chile"])])


def test_who_is_other_than_somebody_is_not_them() -> None:
    decision = route("how many hills by owners other than Ada", HILLS, reader="mei", today=TODAY).decision
    assert [(one.op, one.value) for one in decision.filters] == [("not_in", ["Ada"])]


@pytest.mark.parametrize(
    "text",
    [
        "how many hills rejected by Mei",
        "how many hills exploded in 2020",
        "hills lost by Ada",
        "how many hills in Chile were destroyed",
        "which owners had more than 100 hills",
        "how many hills are in Africa",
        "how many hills have cost 3 and 4",
        "how many hills are not at cost 3 or 4",
    ],
)
def test_what_more_is_said_of_rows_makes_no_exact_list(text: str) -> None:
    assert route(text, HILLS, reader="mei", today=TODAY).decision.strategy is not SearchStrategy.METADATA_ONLY


MAPS = of_tables(
    {"designer": "keyword", "sheets": "number"},
    {"designer": [("Ada Berg", 4), ("Lu Chen", 3)], "sheets": [(1, 4), (9, 3)]},
    "maps/1.md",
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("maps designed by Lu Chen with more than 3 sheets", [("designer", "Lu Chen"), ("sheets", 3)]),
        ("how many maps designed by Ada Berg have over 3 sheets", [("designer", "Ada Berg"), ("sheets", 3)]),
    ],
)
def test_what_somebody_did_names_the_column_that_tells_who(text: str, filters: list[object]) -> None:
    decision = route(text, MAPS, reader="mei", today=TODAY).decision
    assert decision.strategy is SearchStrategy.METADATA_ONLY
    assert [(one.field, one.value) for one in decision.filters] == filters
