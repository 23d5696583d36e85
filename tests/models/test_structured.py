from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from hive_agents.base.files import Format
from hive_agents.models import ModelError, validated


class Colour(StrEnum):
    RED = "red"


class Thing(Format):
    colour: Colour
    size: int | None = None


def test_text_with_a_code_fence_is_read() -> None:
    assert validated('Sure:\n```json\n{"colour": "red"}\n```\n', Thing) == {"colour": "red"}


RED, BLUE = '{"colour": "red"}', '{"colour": "blue"}'


@pytest.mark.parametrize("answer", [RED, f"It is:\n{RED}.", f"```\n{RED}\n```", f"```json\n{RED}", f"I say [1] {RED}"])
def test_one_object_may_have_anything_but_braces_around_it(answer: str) -> None:
    assert validated(answer, Thing) == {"colour": "red"}


@pytest.mark.parametrize(
    "answer",
    [
        f"The result says\n```json\n{RED}\n```\nI say\n```json\n{BLUE}\n```",
        f"{BLUE}\n```json\n{RED}\n```",
        f"```json\n{RED}\n```\n{BLUE}",
        f"{RED} {RED}",
        f"{{'colour': 'blue'}} {RED}",
        f"{RED} {{'colour': 'blue'",
        f'{{"colour": "blue", "because": "x" {RED}',
        f"[{RED}]",
        f"[{RED}, {BLUE}]",
        f"Sure: [ {RED}]",
        '{"colour": "blue", "colour": "red"}',
    ],
)
def test_a_text_that_may_quote_an_answer_that_is_not_its_own_is_garbage(answer: str) -> None:
    for schema in (Thing, {"type": "object"}):
        with pytest.raises(ModelError) as caught:
            validated(answer, schema)
        assert caught.value.kind == "garbage"


def test_a_tool_call_is_taken_as_it_is() -> None:
    assert validated({"colour": "red", "size": 1}, Thing) == {"colour": "red", "size": 1}
    assert validated({"said": f"{RED} {BLUE}"}, {"type": "object"}) == {"said": f"{RED} {BLUE}"}


@pytest.mark.parametrize(
    "answer",
    ["", "yes", "[1]", '{"colour": "red"', '{"colour": "blue"}', '{"colour": "red", "size": 1.5}', '{"x": NaN}'],
)
@pytest.mark.parametrize("schema", [Thing, Thing.model_json_schema()], ids=["model", "schema"])
def test_what_does_not_fit_is_garbage(answer: str, schema: Any) -> None:
    with pytest.raises(ModelError) as caught:
        validated(answer, schema)
    assert caught.value.kind == "garbage"


def test_a_member_of_an_enumeration_may_be_written_in_any_case() -> None:
    verdict = {"type": "object", "properties": {"action": {"type": "string", "enum": ["accept", "retry"]}}}
    steps = {"properties": {"steps": {"type": "array", "items": {"properties": {"strategy": {"enum": ["NoMatch"]}}}}}}
    assert validated('{"action": "ACCEPT"}', verdict) == {"action": "accept"}
    assert validated({"steps": [{"strategy": "nomatch"}]}, steps) == {"steps": [{"strategy": "NoMatch"}]}


@pytest.mark.parametrize("answer", [{"action": "APPROVE"}, {"action": "Accept"}, {"action": ["ACCEPT"]}])
def test_what_is_no_one_member_stays_garbage(answer: Any) -> None:
    schema = {"properties": {"action": {"enum": ["accept", "ACCEPT", "retry"]}}}
    with pytest.raises(ModelError):
        validated(answer, schema)
