"""Filters: conditions on the fields of documents."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from hive_agents.base import HiveError

Scalar = str | int | float | bool
_BOUNDS = ("gte", "gt", "lte", "lt")


@dataclass(frozen=True)
class Condition:
    """A condition on one field: any of `include` (None: any value), none of `exclude`, inside `bounds`.

    A document without the field meets only exclusions.
    """

    include: tuple[Scalar, ...] | None = None
    exclude: tuple[Scalar, ...] = ()
    bounds: tuple[tuple[str, str | int | float], ...] = ()


def condition(value: Any) -> Condition:
    """Return a filter's JSON value as a condition.

    >>> condition("faq").include, condition({"not": ["faq"]}).exclude, condition({"gte": 3}).bounds
    (('faq',), ('faq',), (('gte', 3),))
    """
    if isinstance(value, dict):
        if set(value) == {"not"}:
            return Condition(exclude=_values(value["not"]))
        unknown = sorted(set(value) - set(_BOUNDS))
        if unknown or not value:
            key = unknown[0] if unknown else ""
            raise PydanticCustomError(
                "filter_key",
                'unknown operator "{key}": use a value, a list of values, "not" alone, or gte, gt, lte, lt',
                {"key": key},
            )
        for bound in value.values():
            if isinstance(bound, bool) or not isinstance(bound, (str, int, float)):
                raise PydanticCustomError("filter_type", "a bound must be a date or a number")
        return Condition(bounds=tuple((name, value[name]) for name in _BOUNDS if name in value))
    return Condition(include=_values(value))


def _values(value: Any) -> tuple[Scalar, ...]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise PydanticCustomError("filter_value_error", "an empty list matches nothing")
    if not all(isinstance(item, (str, int, float)) for item in values):
        raise PydanticCustomError("filter_type", "values must be text, numbers, true or false")
    return tuple(values)


def _checked(value: Any) -> Any:
    condition(value)
    return value


_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_SOME: dict[str, Any] = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]}
_SCHEMA: dict[str, Any] = {
    "anyOf": [
        *_SOME["anyOf"],
        {"type": "object", "properties": {"not": _SOME}, "required": ["not"], "additionalProperties": False},
        {
            "type": "object",
            "properties": {bound: {"type": ["string", "number"]} for bound in _BOUNDS},
            "minProperties": 1,
            "additionalProperties": False,
        },
    ]
}

ConditionValue = Annotated[Any, AfterValidator(_checked), WithJsonSchema(_SCHEMA)]


_EXPRESSION = re.compile(r"^(?P<field>[^=<>!]*[^=<>!\s])\s*(?P<operator>!=|>=|<=|=|>|<)\s*(?P<value>.*)$")
_OPERATORS = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}


def parse_filters(expressions: Sequence[str], types: Mapping[str, str]) -> dict[str, Any]:
    """Return filters of the command line as a config's `filters`; `types` is field → type.

    A value in double quotes may have commas. A field with two `=` or two `!=` gets the values of both; bounds are
    and-ed.

    Raises: HIVE-409 for an expression that can't be parsed or combined with another.

    >>> parse_filters(["category=faq,guide", "owner!=dana", "year>=2024"], {"year": "number"})
    {'category': ['faq', 'guide'], 'owner': {'not': ['dana']}, 'year': {'gte': 2024}}
    >>> parse_filters(['author="Reed, Mei",Ann "A" Lee'], {})
    {'author': ['Reed, Mei', 'Ann "A" Lee']}
    """
    filters: dict[str, Any] = {}
    for expression in expressions:
        match = _EXPRESSION.match(expression.strip())
        parts = [] if match is None else _parted(match["value"], expression)
        if match is None or not parts:
            raise HiveError.of(
                "HIVE-409", f'"{expression}" is not a filter', fix="use field=value, field!=value, field>=value"
            )
        field, operator = match["field"], match["operator"]
        values = [_scalar(part, types.get(field, "keyword")) for part in parts]
        if operator in _OPERATORS:
            bounds = filters.setdefault(field, {})
            if not isinstance(bounds, dict) or "not" in bounds or len(values) != 1:
                raise _conflict(expression)
            bounds[_OPERATORS[operator]] = values[0]
            continue
        value: Any = {"not": values} if operator == "!=" else values[0] if len(values) == 1 else values
        filters[field] = _joined(filters[field], value, expression) if field in filters else value
    return filters


def _parted(text: str, expression: str) -> list[str]:
    try:
        parts = next(csv.reader([text.strip()], skipinitialspace=True, strict=True), [])
    except csv.Error:
        fix = """close the quotes: 'author="Reed, Mei",Lee'"""
        raise HiveError.of("HIVE-409", f"{expression} has a value whose quotes don't close", fix=fix) from None
    return [part.strip() for part in parts if part.strip()]


def _joined(old: Any, new: Any, expression: str) -> Any:
    """Return two filters of the same kind on one field as one filter."""
    if isinstance(old, dict) and isinstance(new, dict) and "not" in old:
        return {"not": [*old["not"], *new["not"]]}
    if not isinstance(old, dict) and not isinstance(new, dict):
        return [*(old if isinstance(old, list) else [old]), *(new if isinstance(new, list) else [new])]
    raise _conflict(expression)


def _conflict(expression: str) -> HiveError:
    why = f'"{expression}" can\'t be combined with the other filter on its field'
    return HiveError.of("HIVE-409", why, fix="give a field one filter, several values, or bounds")


def _scalar(text: str, kind: str) -> Scalar:
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "number":
        try:
            number = float(text)
            if math.isfinite(number):
                return int(text) if text.lstrip("+-").isdigit() else number
        except ValueError:
            pass
        raise HiveError.of("HIVE-409", f'"{text}" is not a number', fix="the field has numbers: write one")
    return text
