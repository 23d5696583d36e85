"""The part of JSON Schema that describes a tool's arguments: what it doesn't know, it refuses up front."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ANNOTATIONS = frozenset("title description default examples $schema $defs definitions $id deprecated format".split())
_SCHEMAS = ("anyOf", "allOf", "oneOf")
_KEYWORDS = frozenset(
    "type enum const properties required additionalProperties items minItems maxItems uniqueItems minLength maxLength"
    " pattern minimum maximum exclusiveMinimum exclusiveMaximum $ref".split()
) | {*_SCHEMAS}
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
}
_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "at least"),
    "maximum": (lambda value, bound: value <= bound, "at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "less than"),
}
_SIZES = {"minLength": str, "maxLength": str, "minItems": list, "maxItems": list}
DEPTH = 40


def check_schema(schema: Any, depth: int = 0) -> None:
    """Raises: ValueError naming the keyword that couldn't be enforced."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > DEPTH:
        raise ValueError("args_schema must be a JSON schema, an object")
    unknown = schema.keys() - _KEYWORDS - _ANNOTATIONS
    if unknown:
        raise ValueError(f"args_schema uses {', '.join(sorted(unknown))}, which can't be checked here")
    reference = schema.get("$ref")
    if reference is not None and not re.fullmatch(r"#/(\$defs|definitions)/[^/]+", str(reference)):
        raise ValueError(f"args_schema refers to {reference}; only its own $defs can be followed")
    types = schema.get("type", [])
    if any(name not in _TYPES for name in ([types] if isinstance(types, str) else types)):
        raise ValueError(f"args_schema has an unknown type {types}")
    if "pattern" in schema:
        re.compile(schema["pattern"])
    for name in ("$defs", "definitions", "properties"):
        for inner in schema.get(name, {}).values():
            check_schema(inner, depth + 1)
    for name in _SCHEMAS:
        for inner in schema.get(name, ()):
            check_schema(inner, depth + 1)
    for name in ("items", "additionalProperties"):
        if name in schema:
            check_schema(schema[name], depth + 1)


def faults(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """What of `value` the schema forbids, each with its path; empty where it is valid.

    >>> faults({"n": "3"}, {"type": "object", "properties": {"n": {"type": "integer"}}})
    ['$.n is no integer']
    """
    return list(_faults(value, schema, schema, "$", 0))


def _faults(value: Any, schema: Any, root: Mapping[str, Any], path: str, depth: int) -> Iterator[str]:
    if schema is True:
        return
    if schema is False or depth > DEPTH:
        yield f"{path} is not allowed"
        return
    if "$ref" in schema:
        group, name = schema["$ref"][2:].split("/")
        yield from _faults(value, root.get(group, {}).get(name, False), root, path, depth + 1)
    types = schema.get("type")
    if types is not None:
        names = [types] if isinstance(types, str) else types
        if not any(_TYPES[name](value) for name in names):
            yield f"{path} is no {' or '.join(names)}"
            return
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{path} is none of {schema['enum']}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{path} must be {schema['const']!r}"
    yield from _bounds(value, schema, path)
    for name in _SCHEMAS:
        if name in schema:
            fits = sum(not list(_faults(value, inner, root, path, depth + 1)) for inner in schema[name])
            wanted = {"allOf": fits == len(schema[name]), "anyOf": fits > 0, "oneOf": fits == 1}[name]
            if not wanted:
                yield f"{path} fits {fits} of {len(schema[name])} alternatives ({name})"
    if isinstance(value, dict):
        yield from _members(value, schema, root, path, depth)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _faults(item, schema["items"], root, f"{path}[{number}]", depth + 1)


def _members(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], path: str, depth: int
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name} is missing"
    for name, member in value.items():
        # Arguments that the schema doesn't name would reach the tool unseen, so they need its explicit consent.
        inner = known.get(name, schema.get("additionalProperties", not known))
        if inner is False:
            yield f"{path}.{name} is not allowed"
        else:
            yield from _faults(member, inner, root, f"{path}.{name}", depth + 1)


def _bounds(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, (holds, words) in _BOUNDS.items():
        if name in schema and _TYPES["number"](value) and not holds(value, schema[name]):
            yield f"{path} must be {words} {schema[name]}"
    for name, kind in _SIZES.items():
        if name in schema and isinstance(value, kind):
            size = len(value)
            if size < schema[name] if name.startswith("min") else size > schema[name]:
                yield f"{path} has {size} of {name} {schema[name]}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path} doesn't match {schema['pattern']}"
    unique = schema.get("uniqueItems") and isinstance(value, list)
    if unique and any(_same(one, other) for number, one in enumerate(value) for other in value[:number]):
        yield f"{path} repeats an item"


def _same(a: Any, b: Any) -> bool:
    # In JSON true is not 1, in Python it is.
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
