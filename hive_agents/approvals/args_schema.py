"""What an edit may make of a tool's arguments: a JSON schema in which every keyword holds, and nothing is unnamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_agents.llm import json_schema

_ANNOTATIONS = "title description default examples $schema $comment $defs definitions deprecated format readOnly"
_CONSTRAINTS = (
    "type enum const properties required additionalProperties minProperties maxProperties items prefixItems minItems"
    " maxItems uniqueItems minLength maxLength pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"
    " anyOf allOf oneOf $ref"
)
_KEYWORDS = frozenset(f"{_ANNOTATIONS} {_CONSTRAINTS}".split())
"""Others would be passed over where they are misspelt; `if` and `not` turn a closed object's refusal round."""


def check_schema(schema: Any) -> None:
    """Raises: ValueError naming everything that couldn't be enforced."""
    found = json_schema.defects(schema)
    if not found:
        unknown = {name for _, inner in json_schema.subschemas(schema) for name in inner.keys() - _KEYWORDS}
        found = [f"uses {name}, which can't be checked here" for name in sorted(unknown)]
    if found:
        raise ValueError(f"args_schema: {'; '.join(found)}")


def faults(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """What of `value` the schema forbids, each with its path; empty where it is valid.

    Arguments that the schema doesn't name would reach the tool unseen, so they need its explicit consent.

    >>> faults({"n": "3", "cc": ""}, {"type": "object", "properties": {"n": {"type": "integer"}}})
    ["n is '3', not integer", 'cc is not allowed']
    """
    return json_schema.faults(value, schema, closed=True)
