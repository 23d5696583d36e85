"""The OpenAPI document, generated from the operations and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from hive_agents.base.files import LONGEST_REFERENCE
from hive_agents.server import examples
from hive_agents.server.api import KEY, LAST_ID, Operation, needed
from hive_agents.server.forms import MULTIPART
from hive_agents.server.shapes import OPENAI, OpenAiProblem, Problem

VERSIONED = "Each path below `/api/` answers below `/api/v1/`, too."
REFUSALS = {
    400: "The request can't be read, or doesn't fit this operation.",
    401: "No token or session was sent, or it is refused.",
    403: "The caller has none of the roles.",
    404: "Nothing of that name exists, or the caller may not see it.",
    409: "It was changed or decided meanwhile, or the key belongs to another request.",
    422: "The request can be read, but not carried out.",
    429: "Too many requests, or too many runs under way; Retry-After says when.",
    503: "The database, the disk or a model is unavailable; Retry-After says when.",
}
WITH_BODY = {408: "The body comes too slowly.", 413: "The body is too large.", 415: "The body has another media type."}
_REFERENCE = {"type": "string", "maxLength": LONGEST_REFERENCE}
_REF = "#/components/schemas/{model}"


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the operations."""
    models: list[tuple[type[BaseModel], Any]] = [(one, "serialization") for one in (Problem, OpenAiProblem)]
    for operation in operations:
        body = operation.body or operation.form or operation.takes
        models += [(body, "validation")] if body else []
        models += [(operation.answer, "serialization")] if operation.answer else []
    unique = list(dict.fromkeys(models))
    references, schemas = models_json_schema(unique, ref_template=_REF, schema_generator=GenerateJsonSchema)
    paths: dict[str, Any] = {}
    for operation in operations:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hive Agents", "version": version, "description": VERSIONED},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(one: Operation, references: Any) -> dict[str, Any]:
    summary, _, more = (one.run.__doc__ or "").strip().partition("\n")
    roles = ", ".join(sorted(one.roles))
    described: dict[str, Any] = {
        "operationId": one.run.__name__,
        "tags": [one.tag],
        "summary": summary,
        "description": " ".join(f"{more} Roles: {roles}.".split()),
        "parameters": [*_path_parameters(one), *_query_parameters(one), *_headers(one)],
        "responses": _responses(one, references),
    }
    if (body := one.body or one.form or one.takes) is not None:
        shown = {"schema": references[body, "validation"], "example": examples.BODIES[body.__name__]}
        content = {MULTIPART if one.form else "application/json": shown}
        described["requestBody"] = {"required": one.body is None or needed(one.body), "content": content}
    return described


def _path_parameters(one: Operation) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)(?::\w+)?\}", one.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": _REFERENCE, "example": examples.PARAMETERS[name]}
        for name in names
    ]


def _query_parameters(one: Operation) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    schema = one.query.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": value}
        for name, value in schema.get("properties", {}).items()
    ]


def _headers(one: Operation) -> list[dict[str, Any]]:
    names = [KEY] if one.keyed else []
    names += [LAST_ID] if one.media == "text/event-stream" else []
    return [{"name": name, "in": "header", "required": False, "schema": _REFERENCE} for name in names]


def _responses(one: Operation, references: Any) -> dict[str, Any]:
    schema = references[one.answer, "serialization"] if one.answer is not None else _text(one.media)
    responses: dict[str, Any] = {
        str(one.status): {"description": HTTPStatus(one.status).phrase, "content": {one.media: {"schema": schema}}}
    }
    if one.tagged:
        responses["304"] = {"description": "Unchanged: the ETag still matches."}
    if one.media == "text/event-stream":
        responses["204"] = {"description": "The run is over, and the client has all its events."}
    refusals = REFUSALS | (WITH_BODY if one.body or one.form or one.takes else {})
    kind = OpenAiProblem if one.path.startswith(OPENAI) else Problem
    problem = {"application/problem+json": {"schema": _named(kind)}}
    return responses | {
        str(status): {"description": refusals[status], "content": problem} for status in sorted(refusals)
    }


def _text(media: str) -> dict[str, Any]:
    """Return the schema of a text, or of an event of a stream."""
    if media != "text/event-stream":
        return {"type": "string"}
    fields: dict[str, Any] = {name: {"type": "string"} for name in ("id", "event", "data")}
    return {"type": "object", "properties": fields | {"retry": {"type": "integer"}}, "required": ["data"]}


def _named(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
