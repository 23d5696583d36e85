from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from hive_agents.formats import Format
from hive_agents.llm import ModelError, validated
from hive_agents.llm.json_schema import faults


class Colour(StrEnum):
    RED = "red"


class Thing(Format):
    colour: Colour
    size: int | None = None


class Box(BaseModel):
    things: list[Thing]


def test_text_with_a_code_fence_is_read() -> None:
    assert validated('Sure:\n```json\n{"colour": "red"}\n```\n', Thing) == {"colour": "red"}


@pytest.mark.parametrize(
    "answer",
    ["", "yes", "[1]", '{"colour": "red"', '{"colour": "blue"}', '{"colour": "red", "size": 1.5}', '{"x": NaN}'],
)
@pytest.mark.parametrize("schema", [Thing, Thing.model_json_schema()], ids=["model", "schema"])
def test_what_does_not_fit_is_garbage(answer: str, schema: Any) -> None:
    with pytest.raises(ModelError) as caught:
        validated(answer, schema)
    assert caught.value.kind == "garbage"


def test_schemas_of_nested_models_are_followed() -> None:
    schema = Box.model_json_schema()
    assert faults({"things": [{"colour": "red", "size": None}]}, schema) == []
    assert faults({"things": [{"colour": "red", "size": "x", "y": 1}]}, schema) == [
        "things[0].size is 'x', not integer",
        "things[0].y is not allowed",
    ]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (True, {"type": "integer"}),
        (1, {"enum": [True]}),
        ("abc", {"maxLength": 2}),
        ([], {"minItems": 1}),
        ("x", {"pattern": "^y"}),
        (1, {"exclusiveMinimum": 1}),
        (1, {"allOf": [{"minimum": 0}, {"maximum": 0}]}),
        (1, False),
    ],
)
def test_each_keyword_refuses(value: Any, schema: Any) -> None:
    assert len(faults({"v": value}, {"properties": {"v": schema}})) == 1
