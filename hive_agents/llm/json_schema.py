"""The part of JSON Schema that describes a model's answer: types, bounds, choices, local references."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}
_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "less than"),
    "maximum": (lambda value, bound: value <= bound, "more than"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "not more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "not less than"),
}


def faults(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Everything in `value` that `schema` doesn't allow; keywords that aren't known allow everything.

    >>> faults({"n": 0}, {"properties": {"n": {"minimum": 1}}, "required": ["n", "why"]})
    ['why is missing', 'n is 0, less than 1']
    """
    return _faults(value, schema, schema, "")


def _faults(value: Any, schema: Any, root: Mapping[str, Any], path: str) -> list[str]:
    if schema is True or not isinstance(schema, Mapping):
        return [f"{path or '$'} is not allowed"] if schema is False else []
    if "$ref" in schema:
        return _faults(value, _target(schema["$ref"], root), root, path)
    here = path or "$"
    found: list[str] = []
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if types and not any(_TYPES.get(name, lambda _: True)(value) for name in types):
        return [f"{here} is {value!r:.80}, not {' or '.join(types)}"]
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if choices is not None and not any(value == choice and type(value) is type(choice) for choice in choices):
        return [f"{here} is {value!r:.80}, none of {choices}"]
    if isinstance(value, Mapping):
        found += _object_faults(value, schema, root, path)
    elif isinstance(value, list):
        found += _length_faults(value, schema, here, "minItems", "maxItems", "items")
        for position, item in enumerate(value):
            found += _faults(item, schema.get("items", True), root, f"{path}[{position}]")
    elif isinstance(value, str):
        found += _length_faults(value, schema, here, "minLength", "maxLength", "characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{here} is {value!r:.80}, which doesn't match {schema['pattern']}")
    elif _TYPES["number"](value):
        for key, (holds, words) in _BOUNDS.items():
            if key in schema and not holds(value, schema[key]):
                found.append(f"{here} is {value}, {words} {schema[key]}")
    return found + _combined_faults(value, schema, root, path)


def _object_faults(value: Mapping[str, Any], schema: Mapping[str, Any], root: Any, path: str) -> list[str]:
    prefix = f"{path}." if path else ""
    known = schema.get("properties", {})
    found = [f"{prefix}{key} is missing" for key in schema.get("required", []) if key not in value]
    other = schema.get("additionalProperties", True)
    for key, inner in value.items():
        found += _faults(inner, known.get(key, other), root, f"{prefix}{key}")
    return found


def _length_faults(value: Any, schema: Mapping[str, Any], here: str, least: str, most: str, unit: str) -> list[str]:
    if least in schema and len(value) < schema[least]:
        return [f"{here} has {len(value)} {unit}, fewer than {schema[least]}"]
    if most in schema and len(value) > schema[most]:
        return [f"{here} has {len(value)} {unit}, more than {schema[most]}"]
    return []


def _combined_faults(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], path: str) -> list[str]:
    found = [fault for part in schema.get("allOf", []) for fault in _faults(value, part, root, path)]
    for key in ("anyOf", "oneOf"):
        tried: list[list[str]] = [_faults(value, part, root, path) for part in schema.get(key, [])]
        if tried and all(tried):
            found += sorted(tried, key=len)[0]
    return found


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """A reference to another document, or to nothing, allows everything."""
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node.get(part, True) if isinstance(node, Mapping) else True
    return node
