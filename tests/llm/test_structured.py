from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from hive_agents.formats import Format
from hive_agents.llm import ModelError, validated


class Colour(StrEnum):
    RED = "red"


class Thing(Format):
    colour: Colour
    size: int | None = None


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
