from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator

from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.base.files import AnyCase, FileFormat, Format, Name, load, load_value
from hive_agents.base.resources import KINDS, json_schema
from hive_agents.documents import Collection
from hive_agents.evaluation.golden import GoldenFile
from hive_agents.ranking import RetrievalConfig


class Leaf(Format):
    count: Annotated[int, Field(ge=1, le=5)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    color: Annotated[Literal["red", "green"], AnyCase] = "red"


class Sized(Format):
    some: Annotated[list[int], Field(min_length=1)]
    word: Annotated[str, Field(max_length=3)]


class Tree(FileFormat):
    name: Name
    leaves: list[Leaf] = []
    by_name: dict[str, Leaf] = {}
    maybe: Leaf | None = None


def faults(value: Any, **options: Any) -> list[Diagnostic]:
    with pytest.raises(HiveError) as raised:
        load(Tree, json.dumps(value, indent=1).encode(), "trees/t.json")
    assert raised.value.exit_code == 1
    for found in raised.value.diagnostics:
        assert (found.file, found.level, found.severity) == ("trees/t.json", 1, "error")
        assert found.path
        assert found.line
        assert found.fix
    return raised.value.diagnostics


def only(value: Any) -> tuple[str, str | None, str | None]:
    (found,) = faults(value)
    return found.code, found.path, found.fix


def test_schema_key_is_allowed_and_not_kept() -> None:
    tree = load(Tree, b'{"$schema": "https://x/y.json", "name": "t"}', "t.json")
    assert tree.model_dump() == Tree(name="t").model_dump()


def test_field_name_of_the_schema_key_is_unknown() -> None:
    assert only({"name": "t", "schema_": "x"})[0] == "HIVE-103"


@pytest.mark.parametrize(
    ("value", "path", "fix"),
    [
        ({"name": "t", "leafs": []}, "leafs", 'did you mean "leaves"?'),
        ({"name": "t", "leaves": [{}, {"cuont": 1}]}, "leaves[1].cuont", 'did you mean "count"?'),
        ({"name": "t", "by_name": {"a": {"colour": 1}}}, "by_name.a.colour", 'did you mean "color"?'),
        ({"name": "t", "maybe": {"shared": 1}}, "maybe.shared", 'did you mean "share"?'),
        ({"name": "t", "zzz": 1}, "zzz", "remove it; known keys are by_name, leaves, maybe, name"),
    ],
)
def test_unknown_key_gets_a_proposal(value: Any, path: str, fix: str) -> None:
    assert only(value) == ("HIVE-103", path, fix)


@pytest.mark.parametrize(
    ("leaf", "code", "fix"),
    [
        ({"count": 0}, "HIVE-105", "use a number that is at least 1"),
        ({"count": 6}, "HIVE-105", "use a number that is at most 5"),
        ({"share": 0}, "HIVE-105", "use a number that is more than 0.0"),
        ({"share": 1}, "HIVE-105", "use a number that is less than 1.0"),
        ({"color": "blue"}, "HIVE-105", "use 'red' or 'green'"),
        ({"count": "1"}, "HIVE-104", "input should be a valid integer"),
        ({"count": True}, "HIVE-104", "input should be a valid integer"),
        ({"count": 1.5}, "HIVE-104", "input should be a valid integer"),
        ({"count": None}, "HIVE-104", "input should be a valid integer"),
        ({"share": "0.5"}, "HIVE-104", "input should be a valid number"),
    ],
)
def test_wrong_value_is_shown_with_what_is_right(leaf: Any, code: str, fix: str) -> None:
    (found,) = faults({"name": "t", "leaves": [leaf]})
    key, value = next(iter(leaf.items()))
    assert (found.code, found.path, found.fix) == (code, f"leaves[0].{key}", fix)
    assert json.dumps(value) in found.message


class Even(Format):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("use an even number")
        return number


def test_what_a_validator_says_is_told_in_its_own_words() -> None:
    with pytest.raises(HiveError) as raised:
        load(Even, b'{"number": 3}', "even.json")
    (found,) = raised.value.diagnostics
    assert (found.code, found.path) == ("HIVE-105", "number")
    assert (found.message, found.fix) == ("number is 3: use an even number", "use an even number")


def test_enum_ignores_case() -> None:
    assert load_value(Tree, {"name": "t", "leaves": [{"color": "GREEN"}]}, "t").leaves[0].color == "green"


def test_integer_serves_as_a_float() -> None:
    assert load_value(RetrievalConfig, config(bm25={"k1": 2}), "c").bm25.k1 == 2.0


def config(**blocks: Any) -> dict[str, Any]:
    return {"name": "c", "collection": "kb", "retrieval": {"method": "hybrid", "top_k": 5}, **blocks}


def test_missing_key_is_named_in_its_place() -> None:
    assert only({}) == ("HIVE-106", "name", 'add "name"')


def test_value_that_is_no_object_is_a_fault_of_the_whole_file() -> None:
    assert only([]) == ("HIVE-104", "$", "input should be an object, { … }")
    assert only({"name": "t", "maybe": []})[:2] == ("HIVE-104", "maybe")


def test_all_faults_are_collected() -> None:
    found = faults({"name": "T", "leaves": [{"count": 9}, {"count": "x"}, {"cuont": 1}], "other": 1})
    assert sorted(d.code for d in found) == ["HIVE-103", "HIVE-103", "HIVE-104", "HIVE-105", "HIVE-113"]


def test_long_value_is_shortened() -> None:
    (found,) = faults({"name": "t", "leaves": [{"count": "x" * 500}]})
    assert len(found.message) < 200


@pytest.mark.parametrize("name", ["a", "0", "v2", "a.b-c_d", "a" * 64])
def test_names(name: str) -> None:
    assert load_value(Tree, {"name": name}, "t").name == name


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", ".a", "_a", "a/b", "ä", "a\n", "a" * 65, "../a"])
def test_what_is_no_name(name: str) -> None:
    assert only({"name": name})[:2] == ("HIVE-113", "name")


def test_active_is_reserved_for_configs_only() -> None:
    value = config(name="active")
    with pytest.raises(HiveError, match="HIVE-113"):
        load_value(RetrievalConfig, value, "t")
    assert load_value(RetrievalConfig, value | {"name": "passive"}, "t").name == "passive"
    assert load_value(Tree, {"name": "active"}, "t").name == "active"


def test_model_cannot_be_changed_in_place() -> None:
    tree = load_value(Tree, {"name": "t"}, "t")
    with pytest.raises(ValueError, match="frozen"):
        tree.name = "other"


def choices(kind: Any, validators: tuple[Any, ...] = (), seen: frozenset[Any] = frozenset()) -> Iterator[Any]:
    """Yield (values, validators) of every choice between words in a model or a type."""
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        validators = (*validators, *more)
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        yield get_args(kind) or tuple(kind), kind, validators
    elif isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        for field in kind.model_fields.values():
            yield from choices(field.annotation, tuple(field.metadata), seen | {kind})
    else:
        for part in get_args(kind):
            yield from choices(part, validators, seen)


@pytest.mark.parametrize("kind", KINDS)
def test_every_choice_of_a_file_ignores_case(kind: str) -> None:
    module, name = KINDS[kind]
    strict = [
        values
        for values, one, validators in choices(getattr(import_module(module), name))
        for adapter in [TypeAdapter(Annotated[(one, *validators)] if validators else one)]
        for value in values
        if isinstance(value, str)
        and accepted(adapter, value.swapcase()) != value
        and values not in (("steps", "tokens", "usd"), ("rule", "llm", "evidence"))  # these are keys
    ]
    assert strict == []


def accepted(adapter: TypeAdapter[Any], value: str) -> Any:
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return None


@pytest.mark.parametrize("value", [["red"], 5, None, {"red": 1}])
def test_a_choice_of_another_type_is_a_fault_of_the_type(value: Any) -> None:
    assert only({"name": "t", "leaves": [{"color": value}]})[:2] == ("HIVE-104", "leaves[0].color")


def test_a_list_or_text_of_a_wrong_length_is_told_what_length_is_right() -> None:
    with pytest.raises(HiveError) as raised:
        load_value(Sized, {"some": [], "word": "abcd"}, "s.json")
    assert [found.fix for found in raised.value.diagnostics] == ["give at least 1 entry", "give at most 3 characters"]


@pytest.mark.parametrize("kind", KINDS)
def test_schema_of_every_kind_allows_the_schema_key_and_no_others(kind: str) -> None:
    schema = json_schema(kind)
    kinds = [schema["$defs"][one["$ref"].rpartition("/")[2]] for one in schema.get("anyOf", [])] or [schema]
    for one in kinds:
        assert "$schema" in one["properties"]
        assert "schema_" not in one["properties"]
        assert one["additionalProperties"] is False


@pytest.mark.parametrize("kind", KINDS)
def test_schema_of_every_kind_has_no_examples_in_python(kind: str) -> None:
    assert ">>>" not in json.dumps(json_schema(kind))


def test_schema_of_an_unknown_kind_is_wrong_usage() -> None:
    with pytest.raises(HiveError) as raised:
        json_schema("confg")
    assert (raised.value.exit_code, raised.value.diagnostics[0].fix) == (2, 'did you mean "config"?')


def test_published_examples_are_valid() -> None:
    collection = {
        "name": "knowledge-base",
        "fields": {
            "title": {"type": "text"},
            "category": {"type": "keyword", "filterable": True},
            "content": {"type": "text"},
        },
        "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
    }
    assert load_value(Collection, collection, "c").filterable == ["category"]
    v1 = {
        "name": "v1-naive",
        "collection": "knowledge-base",
        "retrieval": {"method": "hybrid", "top_k": 10, "rrf_k": 60},
        "dynamic_k": {"enabled": False, "gap_threshold_factor": 3.0, "min_results": 1, "max_results": 10},
        "filters": {},
        "distraction_detection": {"enabled": False, "disagreement_threshold": 0.5},
    }
    written_out = load_value(RetrievalConfig, v1, "c").model_dump()
    short = {key: v1[key] for key in ("name", "collection", "retrieval")}
    defaults = load_value(RetrievalConfig, short, "c").model_dump()
    assert written_out["dynamic_k"].pop("max_results") == 10
    assert defaults["dynamic_k"].pop("max_results") is None
    assert written_out == defaults
    golden = {
        "collection": "knowledge-base",
        "k": 10,
        "queries": [
            {
                "id": "q1",
                "query": "How do I …",
                "relevant": ["faqs/x.md"],
                "distractors": ["faqs/y.md"],
                "tags": ["auth"],
                "split": "train",
            }
        ],
    }
    assert load_value(GoldenFile, golden, "g").queries[0].label("faqs/y.md") == "distractor"
