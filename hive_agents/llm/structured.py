"""A model's structured answer, checked against what was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from hive_agents.errors import HiveError
from hive_agents.files import jsontext
from hive_agents.llm.json_schema import defects, faults
from hive_agents.llm.model import ModelError, Tool, Usage

ANSWER = "answer"
"""The tool that a model is made to call where the schema's title can't name it."""

IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema:\n"
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Schema = Mapping[str, Any] | type[BaseModel]
_DECODER = json.JSONDecoder()
_SHOWN = 200


def validated(answer: str | Mapping[str, Any], schema: Schema, *, usage: Usage | None = None) -> dict[str, Any]:
    """Return the answer as an object that fits `schema`; a text holds one object, with prose or a code fence around it.

    A text with a second object, or any brace outside the first, is garbage: it may quote one that is not its own.

    >>> validated('{"n": 1}', {"type": "object", "properties": {"n": {"type": "integer"}}})
    {'n': 1}

    Raises: ModelError of kind garbage; HIVE-105 for a schema that nothing can be checked with.
    """
    value = _parsed(answer, usage) if isinstance(answer, str) else answer
    if not isinstance(value, Mapping):
        raise ModelError("garbage", f"the answer is not an object: {_shortened(value)}", usage=usage)
    value = value if isinstance(schema, type) else _spelled(value, schema)
    wrong = _model_faults(value, schema) if isinstance(schema, type) else _faults(value, schema)
    if wrong:
        raise ModelError("garbage", f"the answer doesn't fit: {'; '.join(wrong[:5])}: {_shortened(value)}", usage=usage)
    return dict(value)


def json_schema(schema: Schema) -> dict[str, Any]:
    return schema.model_json_schema() if isinstance(schema, type) else dict(schema)


def answer_tool(schema: Mapping[str, Any] | None, tools: Sequence[Tool]) -> str:
    """Return the name of the tool by whose call a structured answer comes, which none of `tools` has."""
    title = str((schema or {}).get("title", ""))
    taken = {tool.name for tool in tools}
    return next(
        name for name in (title, ANSWER, "final_answer", "_") if _TOOL_NAME.fullmatch(name) and name not in taken
    )


def _parsed(text: str, usage: Usage | None) -> Any:
    found = _only_object(text)
    if found is None:
        why = "more than one object may be meant as the answer"
        raise ModelError("garbage", f"{why}: {_shortened(text)}", usage=usage)
    try:
        return jsontext.parse(found, "answer")
    except HiveError as error:
        why = error.diagnostics[0].message
        raise ModelError("garbage", f"the answer is {why}: {_shortened(text)}", usage=usage) from None


def _only_object(text: str) -> str | None:
    """Return the one object's part of a text, or all that could have been one; None where there may be a second."""
    start = text.find("{")
    if start < 0:
        return text
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return text[start:]
    around = text[:start] + text[end:]
    in_a_list = text[:start].rstrip().endswith("[")
    return None if "{" in around or "}" in around or in_a_list else text[start:end]


def _faults(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    broken = defects(schema)
    if broken:
        fix = "mend the schema that answers are asked for in"
        raise HiveError.of("HIVE-105", f"the schema cannot be used: {'; '.join(broken)}", path="schema", fix=fix)
    return faults(value, schema)


def _spelled(value: Any, schema: Any) -> Any:
    """Return the value with the members of its enumerations in the schema's own letters: a model may shout.

    >>> _spelled({"verdict": "ACCEPT"}, {"properties": {"verdict": {"enum": ["accept", "retry"]}}})
    {'verdict': 'accept'}
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, Mapping):
        inner = schema.get("properties")
        inner = inner if isinstance(inner, Mapping) else {}
        return {key: _spelled(one, inner.get(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [_spelled(one, schema.get("items")) for one in value]
    members = schema.get("enum")
    if not isinstance(value, str) or not isinstance(members, list) or value in members:
        return value
    meant = [one for one in members if isinstance(one, str) and one.casefold() == value.strip().casefold()]
    return meant[0] if len(meant) == 1 else value


def _model_faults(value: Mapping[str, Any], model: type[BaseModel]) -> list[str]:
    try:
        model.model_validate_json(json.dumps(value))  # the JSON rules: a strict model takes "accept" for an enum
    except ValidationError as error:
        return [f"{jsontext.show_path(fault['loc'])}: {fault['msg']}" for fault in error.errors()]
    return []


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
