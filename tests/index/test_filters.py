import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.index.bm25 import BM25Params
from hive_agents.index.filters import Condition, condition, parse_filters
from hive_agents.ranking import build_index
from tests.conftest import COLLECTION, config_json, write_document

EVERYTHING = "the a key run request is"


@pytest.fixture
def searched(text_workspace: Workspace) -> Workspace:
    build_index(text_workspace)
    return text_workspace


def found(workspace: Workspace, filters: dict[str, Any], query: str = EVERYTHING) -> set[str]:
    hits = workspace.engine().search(query, config_json("filtered", "keyword", filters=filters)).hits
    return {hit.doc_id.split("/")[-1].removesuffix(".md") for hit in hits}


def refused(workspace: Workspace, filters: dict[str, Any]) -> tuple[str, str | None, str | None]:
    with pytest.raises(HiveError) as caught:
        found(workspace, filters)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.message
    return diagnostic.code, diagnostic.path, diagnostic.fix


ALL = {"rotate-key", "lost-key", "webhooks", "centrifuge", "pipettes", "errors", "limits", "welcome"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ALL),
        ({"category": "faqs"}, {"rotate-key", "lost-key"}),
        ({"category": ["faqs", "reference"]}, {"rotate-key", "lost-key", "errors", "limits"}),
        ({"labels": "auth"}, {"rotate-key", "lost-key"}),
        ({"labels": ["keys", "events"]}, {"rotate-key", "webhooks"}),
        ({"category": "guides", "status": "effective"}, {"webhooks", "centrifuge"}),
        ({"category": {"not": ["guides"]}}, ALL - {"webhooks", "centrifuge", "pipettes"}),
        ({"category": {"not": "guides"}}, ALL - {"webhooks", "centrifuge", "pipettes"}),
        ({"status": {"not": ["draft", "retired"]}}, ALL - {"lost-key", "pipettes"}),
        ({"public": True}, {"rotate-key", "lost-key"}),
        ({"public": {"not": [True]}}, ALL - {"rotate-key", "lost-key"}),
        ({"version": 3}, {"webhooks", "errors"}),
        ({"version": 3.0}, {"webhooks", "errors"}),
        ({"version": [1.5, 2]}, {"lost-key", "rotate-key"}),
        ({"version": {"gt": 1, "lte": 2}}, {"lost-key", "rotate-key"}),
        ({"version": {"gte": 2}}, {"rotate-key", "webhooks", "errors"}),
        ({"effective": "2025-03-01"}, {"rotate-key"}),
        ({"effective": {"gte": "2025-01-10", "lt": "2025-06-15"}}, {"centrifuge", "rotate-key"}),
        ({"effective": {"gt": "2025-01-10"}}, {"rotate-key", "lost-key"}),
        ({"version": {"gt": 100}}, set()),
    ],
)
def test_a_filter_leaves_the_documents_that_meet_it(
    searched: Workspace, filters: dict[str, Any], expected: set[str]
) -> None:
    assert found(searched, filters) == expected


def test_documents_that_lack_a_field_meet_no_demand_and_every_exclusion(searched: Workspace) -> None:
    assert "welcome" not in found(searched, {"version": {"gte": 0}})
    assert "welcome" in found(searched, {"version": {"not": [3]}})


def test_an_unknown_field_is_an_error_with_a_guess(searched: Workspace) -> None:
    assert refused(searched, {"categry": "faqs"}) == ("HIVE-206", "filters.categry", 'did you mean "category"?')


def test_a_field_that_is_not_filterable_is_an_error(searched: Workspace) -> None:
    code, path, fix = refused(searched, {"owner": "dana"})
    assert (code, path) == ("HIVE-207", "filters.owner")
    assert fix is not None
    assert '"filterable": true' in fix


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        ({"category": "faq"}, 'did you mean "faqs"?'),
        ({"category": ["faqs", "faq"]}, 'did you mean "faqs"?'),
        ({"status": {"not": ["gone"]}}, "draft, effective, retired"),
        ({"version": 9}, "1, 1.5, 2, 3"),
        ({"effective": "2001-01-01"}, "2025-01-10"),
    ],
)
def test_a_value_that_no_document_has_is_an_error(searched: Workspace, filters: dict[str, Any], shown: str) -> None:
    code, path, fix = refused(searched, filters)
    assert (code, path) == ("HIVE-208", f"filters.{next(iter(filters))}")
    assert shown in str(fix)


def test_one_is_not_true_although_python_says_so(searched: Workspace) -> None:
    engine = searched.engine()
    assert engine.search(EVERYTHING, config_json("filtered", "keyword", filters={"public": True})).hits
    with pytest.raises(HiveError, match="HIVE-208"):
        engine.search(EVERYTHING, config_json("filtered", "keyword", filters={"public": 1}))


def test_bounds_need_a_field_with_an_order(searched: Workspace) -> None:
    assert refused(searched, {"category": {"gte": "a"}})[:2] == ("HIVE-207", "filters.category")
    assert refused(searched, {"public": {"gte": 1}})[:2] == ("HIVE-207", "filters.public")


def test_bounds_of_another_type_are_an_error(searched: Workspace) -> None:
    assert refused(searched, {"effective": {"gte": "soon"}})[:2] == ("HIVE-104", "filters.effective")
    assert refused(searched, {"version": {"gte": "2"}})[:2] == ("HIVE-104", "filters.version")


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "HIVE-104"),
        ([None], "HIVE-104"),
        ([["a"]], "HIVE-104"),
        ({"gte": [1]}, "HIVE-104"),
        ({"gte": True}, "HIVE-104"),
        ([], "HIVE-105"),
        ({"not": []}, "HIVE-105"),
        ({}, "HIVE-103"),
        ({"gte": 1, "not": [2]}, "HIVE-103"),
        ({"above": 1}, "HIVE-103"),
    ],
)
def test_a_filter_of_another_form_is_an_error_of_level_one(searched: Workspace, value: Any, code: str) -> None:
    found_code, path, _ = refused(searched, {"version": value})
    assert found_code == code
    assert str(path).startswith("filters.version")


def test_numbers_that_look_alike_stay_apart(text_workspace: Workspace) -> None:
    for name, version in {"a": "1234567.5", "b": "1234567.6", "c": "1e20"}.items():
        write_document(text_workspace, f"{name}.md", f"---\nversion: {version}\n---\nthe key\n")
    write_document(text_workspace, "c.md", "---\nversion: 100000000000000000000\n---\nthe key\n")
    build_index(text_workspace)
    assert found(text_workspace, {"version": 1234567.5}) == {"a"}
    assert found(text_workspace, {"version": 1e20}) == {"c"}


@pytest.mark.parametrize(
    ("bounds", "days"),
    [
        ({"gte": "2024-03-05"}, {"morning", "day", "next"}),
        ({"gt": "2024-03-05"}, {"next"}),
        ({"lte": "2024-03-05"}, {"before", "morning", "day"}),
        ({"lt": "2024-03-05"}, {"before"}),
        ({"gt": "2024-03-05T09:00"}, {"morning", "next"}),
        ({"lte": "9999-12-31"}, {"before", "morning", "day", "next"}),
    ],
)
def test_a_day_without_a_time_is_all_of_that_day(
    text_workspace: Workspace, bounds: dict[str, str], days: set[str]
) -> None:
    dates = {
        "before": "2024-03-04T23:59:59Z",
        "morning": "2024-03-05T10:00:00Z",
        "day": "2024-03-05",
        "next": "2024-03-06",
    }
    for name, date in dates.items():
        write_document(text_workspace, f"{name}.md", f"---\neffective: {date}\n---\nquokka")
    build_index(text_workspace)
    assert found(text_workspace, {"effective": bounds}, "quokka") == days


def test_a_keyword_that_yaml_reads_as_a_boolean_is_found_by_either_spelling(text_workspace: Workspace) -> None:
    write_document(text_workspace, "a.md", "---\nstatus: true\n---\nthe key\n")
    build_index(text_workspace)
    assert found(text_workspace, {"status": True}) == found(text_workspace, {"status": "true"}) == {"a"}


def test_statistics_stay_those_of_the_collection(searched: Workspace) -> None:
    engine = searched.engine()
    whole = {hit.chunk_id: hit.bm25_score for hit in engine.search("revoke a key", "words").hits}
    config = config_json("filtered", "keyword", filters={"category": "faqs"})
    hits = engine.search("revoke a key", config).hits
    assert hits
    assert {hit.chunk_id: hit.bm25_score for hit in hits} == {hit.chunk_id: whole[hit.chunk_id] for hit in hits}


def test_excluded_documents_never_enter_a_lane(indexed: Workspace) -> None:
    engine = indexed.engine()
    config = config_json("filtered", filters={"category": "guides"})
    hits = engine.search("rotate an API key", config).hits
    assert {hit.doc_id.split("/")[0] for hit in hits} == {"guides"}
    assert sorted(hit.vector_rank or 0 for hit in hits) == list(range(1, len(hits) + 1))
    whole = {hit.chunk_id: hit.vector_score for hit in engine.search("rotate an API key", "meaning").hits}
    assert {hit.chunk_id: hit.vector_score for hit in hits} == {hit.chunk_id: whole[hit.chunk_id] for hit in hits}


def test_the_index_lists_the_values_of_a_field(searched: Workspace) -> None:
    index = searched.engine().index("kb")
    assert index.values("category") == [("faqs", 2), ("guides", 3), ("reference", 2)]
    assert index.values("labels") == [("auth", 2), ("events", 1), ("keys", 1), ("retries", 1)]
    assert index.values("nothing") == []


def test_no_conditions_select_everything(searched: Workspace) -> None:
    index = searched.engine().index("kb")
    assert index.select({}) is None
    mask = index.select({"category": Condition(include=("faqs",))})
    assert mask is not None
    assert index.documents_of(mask.nonzero()[0]) == ["faqs/lost-key.md", "faqs/rotate-key.md"]
    assert len(index.keyword("key", 10, BM25Params(), mask).chunks) == 2


def test_a_condition_says_what_its_json_means() -> None:
    assert condition(["a", 1]) == Condition(include=("a", 1))
    assert condition({"not": "a"}) == Condition(exclude=("a",))
    assert condition({"lt": 2, "gte": 1}) == Condition(bounds=(("gte", 1), ("lt", 2)))


TYPES = {name: str(field["type"]) for name, field in COLLECTION["fields"].items()}


@pytest.mark.parametrize(
    ("expressions", "filters"),
    [
        (["category=faqs"], {"category": "faqs"}),
        (["category = faqs, guides"], {"category": ["faqs", "guides"]}),
        (["category=faqs", "category=guides"], {"category": ["faqs", "guides"]}),
        (["category!=faqs", "category!=guides"], {"category": {"not": ["faqs", "guides"]}}),
        (["version>=1", "version<3"], {"version": {"gte": 1, "lt": 3}}),
        (["version>1.5", "version<=-2"], {"version": {"gt": 1.5, "lte": -2}}),
        (["public=TRUE"], {"public": True}),
        (["effective>=2025-01-01"], {"effective": {"gte": "2025-01-01"}}),
        (["status=a=b"], {"status": "a=b"}),
        (['status="a, b", c'], {"status": ["a, b", "c"]}),
        (['status!="a, b"'], {"status": {"not": ["a, b"]}}),
        (['status=the "old" one'], {"status": 'the "old" one'}),
        (["effective date >= 2025-01-01"], {"effective date": {"gte": "2025-01-01"}}),
    ],
)
def test_the_command_line_writes_the_same_filters(expressions: list[str], filters: dict[str, Any]) -> None:
    assert parse_filters(expressions, TYPES) == filters
    assert json.dumps(filters)
    for value in filters.values():
        condition(value)


@pytest.mark.parametrize(
    "expressions",
    [
        ["category"],
        ["=faqs"],
        ["category="],
        ["category=,"],
        ["version=two"],
        ['category="faqs'],
        ['category=""'],
        ["version>=nan"],
        ["version=inf"],
        ["version>=1,2"],
        ["category=a", "category!=b"],
        ["version>=1", "version=2"],
        ["version=2", "version>=1"],
    ],
)
def test_an_expression_that_cannot_be_read_is_wrong_usage(expressions: list[str]) -> None:
    with pytest.raises(HiveError) as caught:
        parse_filters(expressions, TYPES)
    assert caught.value.diagnostics[0].code == "HIVE-409"
    assert caught.value.exit_code == 2
