"""Figures over the rows of tables: distinct values, sums with a condition, the first few by a column."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.figures import TitledRow, cell_in, tallied
from hive_agents.copilot.plan import FieldTally, SearchStrategy, described
from hive_agents.copilot.router import reread, route
from hive_agents.copilot.sentence import asks_how_many
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents import Collection

TODAY = datetime.date(2026, 11, 29)
RENTALS = Vocabulary(
    {
        "branch": FieldWords("keyword", ("Ghent", "Lille")),
        "bike_class": FieldWords("keyword", ("cargo", "tandem")),
        "booked_by": FieldWords("keyword", ("Ines", "Piet")),
        "hours_rented": FieldWords("number"),
        "satisfaction_rating": FieldWords("number"),
        "deposit": FieldWords("number"),
        "cost_total": FieldWords("number"),
        "cost_repair": FieldWords("number"),
        "deposit_insurer_name": FieldWords("keyword", ("Axa",)),
    },
    noun="rental",
    folders=frozenset({"rental"}),
)


@pytest.mark.parametrize(
    ("text", "tally", "filters"),
    [
        ("which branches are there?", {"of": "values", "field": "branch"}, ""),
        ("what bike classes do we have", {"of": "values", "field": "bike_class"}, ""),
        ("list all branches", {"of": "values", "field": "branch"}, ""),
        ("how many different branches are there", {"of": "values", "field": "branch"}, ""),
        ("how many distinct bike classes does Lille have", {"of": "values", "field": "bike_class"}, "branch Lille"),
        ("which bike classes are there in Ghent?", {"of": "values", "field": "bike_class"}, "branch Ghent"),
        ("which branches offer tandem rentals", {"of": "values", "field": "branch"}, "bike_class tandem"),
        (
            "how many hours did Ines rent in Lille",
            {"of": "sum", "field": "hours_rented"},
            "branch Lille, booked_by Ines",
        ),
        ("how many hours were rented in Lille?", {"of": "sum", "field": "hours_rented"}, "branch Lille"),
        ("total hours rented by Piet", {"of": "sum", "field": "hours_rented"}, "booked_by Piet"),
        ("hours rented per branch", {"of": "sum", "field": "hours_rented", "by": "branch"}, ""),
        ("satisfaction rating by branch", {"of": "average", "field": "satisfaction_rating", "by": "branch"}, ""),
        ("top 3 most expensive rentals in Ghent", {"of": "max", "field": "cost_total", "most": 3}, "branch Ghent"),
        ("which branches offered rentals in Lille", {"of": "values", "field": "branch"}, "branch Lille"),
        ("which branches lost rentals", None, ""),
        ("top 3 rentals by deposit", {"of": "max", "field": "deposit", "most": 3}, ""),
        ("the 4 lowest deposits in Ghent", {"of": "min", "field": "deposit", "most": 4}, "branch Ghent"),
        ("bottom two rentals by satisfaction rating", {"of": "min", "field": "satisfaction_rating", "most": 2}, ""),
        ("which branch has the most tandem rentals", {"by": "branch"}, "bike_class tandem"),
        ("who has the most rentals in Ghent?", {"by": "booked_by"}, "branch Ghent"),
        ("which branch has the fewest tandem rentals", {"by": "branch", "first": "fewest"}, "bike_class tandem"),
        ("welche branch hat die wenigsten rentals?", {"by": "branch", "first": "fewest"}, ""),
        ("quelle branch a le moins de rentals ?", {"by": "branch", "first": "fewest"}, ""),
        ("¿qué branch tiene menos rentals?", {"by": "branch", "first": "fewest"}, ""),
        (
            "which branch has the most hours rented",
            {"of": "sum", "field": "hours_rented", "by": "branch", "first": "most"},
            "",
        ),
        (
            "what branch has the lowest average deposit",
            {"of": "average", "field": "deposit", "by": "branch", "first": "fewest"},
            "",
        ),
        ("deposit total in Lille", {"of": "sum", "field": "deposit"}, "branch Lille"),
        ("quel est le deposit moyen par branch ?", {"of": "average", "field": "deposit", "by": "branch"}, ""),
        ("¿cuál es el deposit más alto?", {"of": "max", "field": "deposit"}, ""),
        ("average deposit per bike class type", {"of": "average", "field": "deposit", "by": "bike_class"}, ""),
        ("which rental was hired the longest in Ghent", None, ""),
        ("the rental rented longest in Ghent", {"of": "max", "field": "hours_rented"}, "branch Ghent"),
        ("the most reliable deposit", None, ""),
        ("what is the most common bike class", {"by": "bike_class"}, ""),
        ("rentals by insurer", {"by": "deposit_insurer_name"}, ""),
        ("the most expensive rental", {"of": "max", "field": "cost_total"}, ""),
        ("which bike class is used least in Ghent", {"by": "bike_class", "first": "fewest"}, "branch Ghent"),
        ("sum of the deposits paid in Ghent", {"of": "sum", "field": "deposit"}, "branch Ghent"),
        ("average leather deposit", None, ""),
    ],
)
def test_a_figure_is_over_the_rows_that_the_message_names(
    text: str, tally: dict[str, object] | None, filters: str
) -> None:
    routed = route(text, RENTALS, reader="mei", today=TODAY)
    found = None if routed.tally is None else routed.tally.model_dump(exclude_none=True)
    assert found == (None if tally is None else {"of": "count", **tally})
    assert described(routed.decision.filters) == filters


COURSES = Vocabulary(
    {
        "category": FieldWords("keyword", ("courses",)),
        "course_category": FieldWords("keyword", ("Crafts", "Last Aid")),
        "women": FieldWords("number"),
        "men": FieldWords("number"),
        "area": FieldWords("number"),
        "certified": FieldWords("boolean", ("true", "false")),
        "teachers": FieldWords("keyword", ("Mei Lin (@mei)", "Mei Lin")),
        "replaces": FieldWords("keyword", ("12",)),
        "state": FieldWords("keyword", ("superseded", "valid")),
    },
    noun="cours",
    folders=frozenset({"cours"}),
    flags={"certified": (True, False)},
)


@pytest.mark.parametrize(
    ("text", "tally", "filters"),
    [
        ("courses by category", {"by": "course_category"}, ""),
        ("which category has the most courses", {"by": "course_category"}, ""),
        ("top 2 categories", {"by": "course_category", "most": 2, "first": "most"}, ""),
        ("courses in last aid", None, "course_category Last Aid"),
        ("courses with more women than men", None, "women above men"),
        ("courses that aren't certified", None, "certified False"),
        ("courses by Mei Lin", None, "teachers Mei Lin or Mei Lin (@mei)"),
        ("courses smaller than 50 m2", None, "area before 50"),
        ("combined women in Crafts", {"of": "sum", "field": "women"}, "course_category Crafts"),
        ("in which category are the most courses", {"by": "course_category"}, ""),
    ],
)
def test_columns_are_told_apart_by_what_they_hold(text: str, tally: dict[str, object] | None, filters: str) -> None:
    routed = route(text, COURSES, reader="mei", today=TODAY)
    found = None if routed.tally is None else routed.tally.model_dump(exclude_none=True)
    assert found == (None if tally is None else {"of": "count", **tally})
    assert described(routed.decision.filters) == filters


def test_a_folder_that_no_document_has_gives_way_to_a_field_of_its_name() -> None:
    kinds = Vocabulary({"category": FieldWords("keyword"), "Category": FieldWords("keyword", ("Crafts", "Music"))})
    routed = route("what categories exist", kinds, reader="mei", today=TODAY)
    assert routed.tally == FieldTally(of="values", field="Category")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("how big is Weaving", "Weaving, area: 40."),
        ("how many women does Weaving have", "Weaving, women: 7."),
        ("in which category is Weaving", "Weaving, course category: Crafts."),
        ("Was ist die Fläche von Weaving?", "Weaving, area: 40."),
        ("how old is Weaving", None),
    ],
)
def test_a_cell_is_told_by_adjectives_counts_and_words_of_another_language(text: str, cell: str | None) -> None:
    rows: list[TitledRow] = [
        ("a.md", "Weaving", {"area": 40, "women": 7, "course_category": "Crafts", "category": "courses"})
    ]
    assert cell_in(text, COURSES, rows) == cell


FLIGHTS = Vocabulary(
    {
        "carrier": FieldWords("keyword", ("Condor", "Icarus")),
        "takeoff_date": FieldWords("date"),
        "fuel": FieldWords("number"),
        "landed": FieldWords("boolean"),
        "successful": FieldWords("boolean"),
    },
    noun="flight",
    folders=frozenset({"flight"}),
    flags={"successful": (True, False), "landed": (True, False)},
)


@pytest.mark.parametrize(
    ("text", "tally", "filters"),
    [
        ("flights per year", {"by": "takeoff_date", "span": "year"}, ""),
        ("how many flights by month", {"by": "takeoff_date", "span": "month"}, ""),
        ("which year had the most flights by Condor", {"by": "takeoff_date", "span": "year"}, "carrier Condor"),
        ("average fuel per year", {"of": "average", "field": "fuel", "by": "takeoff_date", "span": "year"}, ""),
        ("what was the first flight of Icarus", {"of": "min", "field": "takeoff_date"}, "carrier Icarus"),
        ("the oldest flight", {"of": "min", "field": "takeoff_date"}, ""),
        ("which carrier launched the most flights", {"by": "carrier"}, ""),
        ("3 flights with the lowest fuel", {"of": "min", "field": "fuel", "most": 3}, ""),
        (
            "which carrier has the highest fuel on average",
            {"of": "average", "field": "fuel", "by": "carrier", "first": "most"},
            "",
        ),
        ("flights in the 1990s", None, "takeoff_date from 1990-01-01, takeoff_date until 1999-12-31"),
        ("the last flight by Condor", {"of": "max", "field": "takeoff_date"}, "carrier Condor"),
        ("how many flights failed", None, "successful False"),
        (
            "how many flights failed in 2020",
            None,
            "takeoff_date from 2020-01-01, takeoff_date until 2020-12-31, successful False",
        ),
        ("which flights of Condor did not succeed", None, "carrier Condor, successful False"),
        ("flights that did not fail", None, "successful True"),
        ("which carrier had the most failures", {"by": "carrier"}, "successful False"),
    ],
)
def test_rows_have_an_order_and_years_by_their_one_date_and_outcomes_by_a_column_of_yes_and_no(
    text: str, tally: dict[str, object] | None, filters: str
) -> None:
    routed = route(text, FLIGHTS, reader="mei", today=TODAY)
    found = None if routed.tally is None else routed.tally.model_dump(exclude_none=True)
    assert found == (None if tally is None else {"of": "count", **tally})
    assert routed.decision.strategy is SearchStrategy.METADATA_ONLY
    assert described(routed.decision.filters) == filters


def firms() -> Vocabulary:
    """Two tables, of which one has a date, and years with remarks: what rows are called is a value of a folder."""
    values = {
        "category": [("firms", 6), ("drinks", 3)],
        "seat_city": [("Ghent, Belgium", 2), ("Lille, France", 4)],
        "founded": [("1784", 2), ("1998", 2), ("1998 (1923 / 1874)", 1), ("2013/1888", 1)],
        "date_added": [("2026-09-01", 1), ("2001-07-04", 1), ("1999-07-30", 1)],
    }
    types = {"category": "keyword", "seat_city": "keyword", "founded": "keyword", "date_added": "date"}
    numbers = ("top_speed", "lap_seconds", "model_year", "cash_income")
    fields = {name: {"type": kind, "filterable": True} for name, kind in types.items()}
    fields |= {name: {"type": "number", "filterable": True} for name in numbers}
    schema = Collection.model_validate({"name": "kb", "fields": fields})
    return Vocabulary.of(schema, lambda name: values.get(name, []), ["firms/a.md", "drinks/b.md"])


@pytest.mark.parametrize(
    ("text", "tally", "filters"),
    [
        ("how many firms were added in July", None, "category firms, date_added in month 7"),
        ("firms added in July 2001", None, "category firms, date_added from 2001-07-01, date_added until 2001-07-31"),
        (
            "how many firms were added in September",
            None,
            "category firms, date_added from 2026-09-01, date_added until 2026-09-30",
        ),
        ("firms added since July", None, "category firms, date_added from 2026-07-01"),
        ("firms founded in 1998", None, "category firms, founded 1998 or 1998 (1923 / 1874)"),
        ("how many firms were founded before 1850", None, "category firms, founded 1784"),
        ("how many firms have their seat in Lille, France", None, "category firms, seat_city Lille, France"),
        ("which firm was added last", {"of": "max", "field": "date_added"}, "category firms"),
        ("the first firm to be added", {"of": "min", "field": "date_added"}, "category firms"),
        ("what is the latest date added", {"of": "max", "field": "date_added"}, ""),
        ("the fastest firm", {"of": "max", "field": "top_speed"}, "category firms"),
        ("the slowest firm", {"of": "min", "field": "top_speed"}, "category firms"),
        ("the richest firm", {"of": "max", "field": "cash_income"}, "category firms"),
        ("the oldest firm", {"of": "min", "field": "model_year"}, "category firms"),
    ],
)
def test_dates_years_and_superlatives_are_read_over_several_tables(
    text: str, tally: dict[str, object] | None, filters: str
) -> None:
    routed = route(text, firms(), reader="mei", today=TODAY)
    found = None if routed.tally is None else routed.tally.model_dump(exclude_none=True)
    assert described(routed.decision.filters) == filters
    assert found == tally


def test_the_fastest_is_by_the_shortest_time_where_no_column_holds_a_speed() -> None:
    laps = Vocabulary({"lap_seconds": FieldWords("number")}, noun="lap", folders=frozenset({"lap"}))
    routed = route("the fastest lap", laps, reader="mei", today=TODAY)
    assert routed.tally == FieldTally(of="min", field="lap_seconds")


def test_dates_are_told_as_the_earliest_and_the_latest_and_grouped_by_year() -> None:
    rows = [
        (f"{n}.md", f"F{n}", {"takeoff_date": day}) for n, day in enumerate(("1999-05-01", "1999-06-02", "2001-01-01"))
    ]
    assert tallied(FieldTally(of="min", field="takeoff_date"), rows).startswith(
        "The earliest takeoff date is 1999-05-01"
    )
    by_year = FieldTally(by="takeoff_date", span="year")
    assert tallied(by_year, rows) == "3 documents by year: 1999 2, 2001 1."


@pytest.mark.parametrize(
    ("first", "then", "tally", "filters"),
    [
        (
            "which rental has the highest deposit in Ghent",
            "and in Lille?",
            {"of": "max", "field": "deposit"},
            "branch Lille",
        ),
        ("how many rentals are there in Ghent", "and in Lille?", None, "branch Lille"),
        ("rentals by branch", "only cargo", {"of": "count", "by": "branch"}, "bike_class cargo"),
        ("how many rentals have 3 hours rented", "and 4 hours rented?", None, "hours_rented 4"),
    ],
)
def test_a_follow_up_asks_for_the_same_figure_over_other_rows(
    first: str, then: str, tally: dict[str, object] | None, filters: str
) -> None:
    history = reread([first], RENTALS, reader="mei", today=TODAY)
    routed = route(then, RENTALS, reader="mei", today=TODAY, history=history)
    assert (None if routed.tally is None else routed.tally.model_dump(exclude_none=True)) == tally
    assert described(routed.decision.filters) == filters
    assert asks_how_many(routed.decision.rewritten_query) == first.startswith("how many")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("What's the melting point of iron?", "Iron, melt: 1811."),
        ("in which country is the Red Hill", "Red Hill, country: Kenya."),
        ("who discovered iron?", "Iron, discovered by: Ada, Mei."),
        ("what is the melting point of iron ore", None),
        ("when was iron discovered", None),
        ("what is the melting point of the hill", None),
        ("what does the country of Red Hill export", None),
        ("which country is Hill in", None),
    ],
)
def test_the_value_of_one_row_is_told_where_nothing_else_is_said(text: str, told: str | None) -> None:
    vocabulary = Vocabulary(
        {"melt": FieldWords("number"), "country": FieldWords("keyword"), "discovered_by": FieldWords("keyword")}
    )
    rows: list[TitledRow] = [
        ("1.md", "Iron", {"melt": 1811, "discovered_by": ["Ada", "Mei"]}),
        ("2.md", "Red Hill", {"country": "Kenya"}),
        ("3.md", "Hill", {"country": "Chad"}),
        ("4.md", "Hill", {"country": "Mali"}),
    ]
    assert cell_in(text, vocabulary, rows) == told


@pytest.mark.parametrize(
    "text",
    [
        "which branches are responsible for broken brakes",
        "how many different brakes are there",
        "top 3 rentals by mileage",
        "top tips for rentals",
        "how many hours does a repair take",
        "who has the most experience with hydraulics",
    ],
)
def test_what_no_column_explains_has_no_figure(text: str) -> None:
    routed = route(text, RENTALS, reader="mei", today=TODAY)
    assert routed.tally is None
    assert routed.decision.strategy is not SearchStrategy.METADATA_ONLY


def test_the_first_few_are_told_with_those_that_are_level_with_the_last() -> None:
    rows = [
        (f"{n}.md", f"R{n}", {"deposit": value, "branch": "Ghent"}) for n, value in enumerate((9, 7, 7, 2), start=1)
    ]
    assert tallied(FieldTally(of="max", field="deposit", most=2), rows) == (
        "The 3 largest of deposit are 9 (R1), 7 (R2), 7 (R3), over 4 documents."
    )
    assert tallied(FieldTally(of="min", field="deposit", most=9), rows) == (
        "The 4 smallest of deposit are 2 (R4), 7 (R2), 7 (R3), 9 (R1), over 4 documents."
    )
    assert tallied(FieldTally(by="deposit", first="fewest"), rows) == (
        "4 documents by deposit, fewest first: 2 1, 9 1, 7 2."
    )
    by_branch = FieldTally(of="sum", field="deposit", by="branch", first="most")
    lines = tallied(by_branch, [*rows[2:], ("5.md", "R5", {"deposit": 10, "branch": "Lille"})]).splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == ["Lille", "Ghent"]
    assert (
        tallied(FieldTally(of="values", field="deposit"), rows[:3])
        == "2 values of deposit: 7 2, 9 1, over 3 documents."
    )


def test_who_did_something_to_a_row_is_told_by_the_column_of_who_did() -> None:
    fields, rows = {"director": FieldWords("keyword", ("Ada Berg",))}, [("a.md", "Dunes", {"director": "Ada Berg"})]
    assert cell_in("Who directed Dunes?", Vocabulary(fields), rows) == "Dunes, director: Ada Berg."
    assert cell_in("Who watched Dunes?", Vocabulary(fields), rows) is None
