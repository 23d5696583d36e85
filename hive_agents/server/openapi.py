"""The OpenAPI document, made of the types that the operations are written with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from hive_agents.server.api import Operation, needed
from hive_agents.server.shapes import OPENAI, OpenAiProblem, Problem

REFUSALS = {
    400: "It can't be read, or is no use of this operation.",
    401: "Nobody says who asks, or the token is refused.",
    403: "The caller has none of the roles.",
    404: "There is nothing of that name that the caller reaches.",
    409: "Somebody was quicker, or the key or the content is another one.",
    422: "It can be read, and can't be done.",
    429: "Too many requests, or too many runs under way; Retry-After says when.",
    503: "The database, the disk or a model can't be had; Retry-After says when.",
}
WITH_BODY = {408: "The body comes too slowly.", 413: "The body is too large.", 415: "The body is no JSON."}
_REF = "#/components/schemas/{model}"


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """Return the document of all operations, OpenAPI 3.1."""
    models: list[tuple[type[BaseModel], Any]] = [(one, "serialization") for one in (Problem, OpenAiProblem)]
    for one in operations:
        models += [(body, "validation")] if (body := one.body or one.takes) else []
        models += [(one.answer, "serialization")] if one.answer else []
    unique = list(dict.fromkeys(models))
    named, schemas = models_json_schema(unique, ref_template=_REF, schema_generator=GenerateJsonSchema)
    paths: dict[str, Any] = {}
    for one in operations:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hive Agents", "version": version},
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(one: Operation, named: Any) -> dict[str, Any]:
    summary, _, more = (one.run.__doc__ or "").strip().partition("\n")
    roles = ", ".join(sorted(one.roles))
    found: dict[str, Any] = {
        "operationId": one.run.__name__,
        "tags": [one.tag],
        "summary": summary,
        "description": " ".join(f"{more} Roles: {roles}.".split()),
        "parameters": [*_path_parameters(one), *_query_parameters(one), *_headers(one)],
        "responses": _responses(one, named),
    }
    if (body := one.body or one.takes) is not None:
        content = {"application/json": {"schema": named[body, "validation"]}}
        found["requestBody"] = {"required": one.body is None or needed(one.body), "content": content}
    return found


def _path_parameters(one: Operation) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)(?::\w+)?\}", one.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


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
    names = ["Idempotency-Key"] if one.keyed else []
    names += ["Last-Event-ID"] if one.media == "text/event-stream" else []
    return [{"name": name, "in": "header", "required": False, "schema": {"type": "string"}} for name in names]


def _responses(one: Operation, named: Any) -> dict[str, Any]:
    schema = named[one.answer, "serialization"] if one.answer is not None else _text(one.media)
    found: dict[str, Any] = {
        str(one.status): {"description": HTTPStatus(one.status).phrase, "content": {one.media: {"schema": schema}}}
    }
    if one.tagged:
        found["304"] = {"description": "It is as the ETag says."}
    if one.media == "text/event-stream":
        found["204"] = {"description": "The run is over, and the client has all of it."}
    told = REFUSALS | (WITH_BODY if one.body or one.takes else {})
    kind = OpenAiProblem if one.path.startswith(OPENAI) else Problem
    problem = {"application/problem+json": {"schema": _named(kind)}}
    return found | {str(status): {"description": told[status], "content": problem} for status in sorted(told)}


def _text(media: str) -> dict[str, Any]:
    """Return what is no JSON: a text, or the events of a stream, each with its fields."""
    if media != "text/event-stream":
        return {"type": "string"}
    fields: dict[str, Any] = {name: {"type": "string"} for name in ("id", "event", "data")}
    return {"type": "object", "properties": fields | {"retry": {"type": "integer"}}, "required": ["data"]}


def _named(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
