"""Structured answers of models, checked against the requested schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from hive_agents.base import HiveError, schemas
from hive_agents.base.files import jsontext
from hive_agents.models.model import ModelError, Tool, Usage

ANSWER = "answer"
"""The name of the answer's tool when the schema's title is no valid name."""

IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema:\n"
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Schema = Mapping[str, Any] | type[BaseModel]
_DECODER = json.JSONDecoder()
_SHOWN = 200


def validated(answer: str | Mapping[str, Any], schema: Schema, *, usage: Usage | None = None) -> dict[str, Any]:
    """Return the answer as an object that fits `schema`; a text has one object, with prose or a code fence around it.

    A text with a second object, or any brace outside the first, is garbage: one of them may be a quotation.

    >>> validated('{"n": 1}', {"type": "object", "properties": {"n": {"type": "integer"}}})
    {'n': 1}

    Raises: ModelError of kind garbage; HIVE-105 for an unusable schema.
    """
    value = _parsed(answer, usage) if isinstance(answer, str) else answer
    if not isinstance(value, Mapping):
        raise ModelError("garbage", f"the answer is not an object: {_shortened(value)}", usage=usage)
    value = value if isinstance(schema, type) else _spelled(value, schema)
    misfits = _model_faults(value, schema) if isinstance(schema, type) else _faults(value, schema)
    if misfits:
        raise ModelError(
            "garbage", f"the answer doesn't fit: {'; '.join(misfits[:5])}: {_shortened(value)}", usage=usage
        )
    return dict(value)


def json_schema(schema: Schema) -> dict[str, Any]:
    return schema.model_json_schema() if isinstance(schema, type) else dict(schema)


def answer_tool(schema: Mapping[str, Any] | None, tools: Sequence[Tool]) -> str:
    """Return a name, of none of `tools`, for the tool that a model calls to give a structured answer."""
    title = str((schema or {}).get("title", ""))
    taken = {tool.name for tool in tools}
    return next(
        name for name in (title, ANSWER, "final_answer", "_") if _TOOL_NAME.fullmatch(name) and name not in taken
    )


def _parsed(text: str, usage: Usage | None) -> Any:
    object_text = _only_object(text)
    if object_text is None:
        why = "more than one object may be meant as the answer"
        raise ModelError("garbage", f"{why}: {_shortened(text)}", usage=usage)
    try:
        return jsontext.parse(object_text, "answer")
    except HiveError as error:
        why = error.diagnostics[0].message
        raise ModelError("garbage", f"the answer is {why}: {_shortened(text)}", usage=usage) from None


def _only_object(text: str) -> str | None:
    """Return the part of a text that is one object, or may be a broken one; None if there may be a second."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return text[start:]
    around = text[:start] + text[end:]
    in_list = text[:start].rstrip().endswith("[")
    return None if "{" in around or "}" in around or in_list else text[start:end]


def _faults(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    unusable = schemas.defects(schema)
    if unusable:
        fix = "correct the schema of the answers"
        raise HiveError.of("HIVE-105", f"the schema cannot be used: {'; '.join(unusable)}", path="schema", fix=fix)
    return schemas.faults(value, schema)


def _spelled(value: Any, schema: Any) -> Any:
    """Return the value with enumeration members in the schema's upper and lower case.

    >>> _spelled({"verdict": "ACCEPT"}, {"properties": {"verdict": {"enum": ["accept", "retry"]}}})
    {'verdict': 'accept'}
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, Mapping):
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        return {key: _spelled(member, properties.get(key)) for key, member in value.items()}
    if isinstance(value, list):
        return [_spelled(item, schema.get("items")) for item in value]
    members = schema.get("enum")
    if not isinstance(value, str) or not isinstance(members, list) or value in members:
        return value
    matches = [one for one in members if isinstance(one, str) and one.casefold() == value.strip().casefold()]
    return matches[0] if len(matches) == 1 else value


def _model_faults(value: Mapping[str, Any], model: type[BaseModel]) -> list[str]:
    try:
        model.model_validate_json(json.dumps(value))  # as JSON, in which a strict model accepts text for an enum
    except ValidationError as error:
        return [f"{jsontext.show_path(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
    return []


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
