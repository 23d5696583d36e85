"""Schemas from anywhere: what they refuse, and that none of them fetches or hangs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from hive_agents.base.errors import HiveError
from hive_agents.base.schemas import LONGEST_MATCHED, defects, faults
from hive_agents.models import validated

DOUBLING = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)}


class Thing(BaseModel, extra="forbid"):
    colour: str
    size: int | None = None


class Box(BaseModel):
    things: list[Thing]


def test_schemas_of_nested_models_are_followed() -> None:
    schema = Box.model_json_schema()
    assert faults({"things": [{"colour": "red", "size": None}]}, schema) == []
    assert faults({"things": [{"size": "x", "color": 1}]}, schema) == [
        'things[0].color is not allowed; did you mean "colour"?',
        "things[0].size is 'x', not integer or null",
        "things[0].colour is missing",
    ]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (True, {"type": "integer"}),
        (1, {"enum": [True]}),
        (1, {"const": True}),
        ("abc", {"maxLength": 2}),
        ([], {"minItems": 1}),
        ([1, 1], {"uniqueItems": True}),
        ("x", {"pattern": "^y"}),
        ("y" * (LONGEST_MATCHED + 1), {"pattern": "^y"}),
        (1, {"exclusiveMinimum": 1}),
        (1, {"allOf": [{"minimum": 0}, {"maximum": 0}]}),
        (1, {"oneOf": [{"minimum": 0}, {"maximum": 9}]}),
        (1, {"not": {}}),
        (1, False),
        ({"a": 1}, {"anyOf": [{"required": ["b", "c"]}, {"properties": {"a": {"type": "string"}}}]}),
    ],
)
def test_each_keyword_refuses(value: Any, schema: Any) -> None:
    whole = {"properties": {"v": schema}}
    assert defects(whole) == []
    assert len(faults({"v": value}, whole)) == 1


def test_a_closed_object_allows_what_it_names_and_what_it_consents_to() -> None:
    schema: dict[str, Any] = {"properties": {"to": {}, "meta": {"type": "object"}, "in": {"properties": {"n": {}}}}}
    assert faults({"to": 1, "meta": {"any": 1}, "in": {"n": 1}}, schema, closed=True) == []
    assert faults({"cc": 1, "in": {"m": 1}}, schema, closed=True) == ["in.m is not allowed", "cc is not allowed"]
    assert faults({"cc": 1}, schema | {"additionalProperties": True}, closed=True) == []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "nothing is fetched"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"items": {"$ref": "#/$defs/none"}}, "items.$ref refers to"),
        ({"items": {"$id": "http://127.0.0.1:1/"}}, "not supported"),
        ({"$dynamicRef": "#meta"}, "not supported"),
        ({"patternProperties": {"(a+)+$": {}}}, "not supported"),
        ({"properties": {"n": {"pattern": r"(a)\1"}}}, "properties.n.pattern cannot be used: backreferences"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": "a{1000}{1000}"}, "size limit"),
        ({"pattern": "a" * 201}, "more than 200"),
        ({"pattern": "("}, "unclosed group"),
        ({"properties": {"n": {"type": "integr"}}}, 'did you mean "integer"?'),
        ({"required": "n"}, "required is not valid"),
        (3, "$ is not valid"),
    ],
)
def test_a_schema_that_cannot_be_checked_says_why(schema: Any, said: str) -> None:
    (told,) = defects(schema)
    assert said in told


def test_a_name_is_not_taken_for_a_keyword() -> None:
    assert defects({"properties": {"$ref": {}, "pattern": {"default": {"$ref": "nowhere"}}}}) == []


def test_what_is_known_of_one_schema_is_not_said_of_another() -> None:
    """Faults are kept by how a schema is written; a list and a tuple, or 1 and True, aren't written alike."""
    assert defects({"required": ["a"]}) == []
    assert defects({"required": ("a",)}) != []
    assert defects({"minLength": 1}) == []
    assert defects({"minLength": True}) != []
    found = defects({"type": "integr"})
    found.clear()
    assert defects({"type": "integr"}) != []


def test_a_pattern_that_backtracks_for_years_answers_at_once() -> None:
    assert len(faults("a" * 9000 + "?", {"pattern": r"^(a+)+$"})) == 1
    assert faults("a" * 9000, {"pattern": r"^(a+)+$"}) == []


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "#"}, {"$ref": "#/$defs/d0", "$defs": DOUBLING | {"d40": {"type": "string"}}}],
    ids=["circle", "doubling"],
)
def test_references_that_lead_on_and_on_end(schema: dict[str, Any]) -> None:
    assert faults(1, schema) == ["$ cannot be checked: the schema's references lead on and on"]


def test_a_schema_that_nests_too_deep_says_so() -> None:
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"items": deep}
    assert defects(deep) == ["$ nests too deep"]


def test_a_caller_with_a_broken_schema_gets_a_diagnostic() -> None:
    with pytest.raises(HiveError, match="HIVE-105") as caught:
        validated("{}", {"properties": {"n": {"type": "integr"}}})
    assert caught.value.diagnostics[0].fix
