"""The functions and methods that a condition may call; each charges the allowance before it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hive_agents.goals.expressions.operations import (
    MAX_ITEMS,
    SCAN,
    Allowance,
    ExpressionError,
    fits,
    number,
    search,
    sign,
    size,
)


def _text(allowance: Allowance, value: Any) -> str:
    if isinstance(value, str):
        return value
    length, pending = 0, [value]  # an upper bound of the length
    size(allowance, value)
    while pending:
        part = pending.pop()
        if isinstance(part, list | tuple | dict):
            length += 6 + 4 * len(part)
            pending.extend(part)
            if isinstance(part, dict):
                pending.extend(part.values())
        elif isinstance(part, str):
            length += 2 + len(part) * (2 if part.isprintable() else 10)
        else:
            length += 330 if isinstance(part, int) and part.bit_length() > 64 else 25
    allowance.make(text=length)
    return str(value)


def _convert(kind: Callable[[Any], Any]) -> Callable[[Allowance, Any], Any]:
    def convert(_: Allowance, value: Any) -> Any:
        if isinstance(value, str) and len(value) > 400:
            raise ExpressionError(f"a number of {len(value)} characters")
        return fits(kind(value))

    return convert


def _sequence(allowance: Allowance, value: Any, factor: int = 1) -> Any:
    if not isinstance(value, list | tuple | dict | str):
        raise ExpressionError(f"{type(value).__name__} where a sequence is needed")
    if len(value) > MAX_ITEMS:
        raise ExpressionError(f"a sequence of {len(value)} items; at most {MAX_ITEMS}")
    work = size(allowance, value)
    allowance.work(len(value) + (factor - 1) * work)
    return value


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(allowance: Allowance, first: Any, *rest: Any) -> Any:
        return choose(_sequence(allowance, [first, *rest] if rest else first))

    return extreme


def _sum(allowance: Allowance, values: Any) -> Any:
    return fits(sum(number(value) for value in _sequence(allowance, values)))


def _sorted(allowance: Allowance, values: Any) -> list[Any]:
    allowance.make(items=min(len(values), MAX_ITEMS + 1))
    return sorted(_sequence(allowance, values, factor=1 + len(values).bit_length()))


def _round(_: Allowance, value: Any, digits: Any = None) -> Any:
    if digits is not None and (not isinstance(digits, int) or abs(digits) > 30):
        raise ExpressionError("round to at most 30 digits")
    return fits(round(number(value), digits))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str": _text,
    "len": lambda allowance, value: len(value),
    "int": _convert(int),
    "float": _convert(float),
    "bool": lambda allowance, value: bool(value),
    "abs": sign(abs),
    "min": _extreme(min),
    "max": _extreme(max),
    "sum": _sum,
    "any": lambda allowance, values: any(_sequence(allowance, values)),
    "all": lambda allowance, values: all(_sequence(allowance, values)),
    "sorted": _sorted,
    "round": _round,
}


def _get(allowance: Allowance, value: dict[Any, Any], key: Any, default: Any = None) -> Any:
    size(allowance, key)
    return value.get(key, default)


def _listed(view: Callable[[dict[Any, Any]], Any]) -> Callable[[Allowance, dict[Any, Any]], list[Any]]:
    def listed(allowance: Allowance, value: dict[Any, Any]) -> list[Any]:
        allowance.make(items=len(value))
        return list(view(value))

    return listed


def _cased(change: Callable[[str], str]) -> Callable[[Allowance, str], str]:
    def cased(allowance: Allowance, value: str) -> str:
        allowance.make(text=len(value))
        changed = change(value)  # at most three times as long
        if len(changed) > len(value):
            allowance.make(text=len(changed))
        return changed

    return cased


def _strip(allowance: Allowance, value: str, characters: Any = None) -> str:
    if characters is not None:
        search(allowance, value, characters)
        allowance.work(len(value) * len(characters) // SCAN)
    allowance.make(text=len(value))
    return value.strip(characters)


def _edge(test: Callable[[str, str], bool]) -> Callable[[Allowance, str, Any], bool]:
    def edge(allowance: Allowance, value: str, part: Any) -> bool:
        parts = part if isinstance(part, tuple) else (part,)
        for each in parts:
            if not isinstance(each, str):
                raise ExpressionError(f"{type(each).__name__} where a text is needed")
            allowance.work(1 + len(each) // SCAN)
        return test(value, part)

    return edge


def _count(allowance: Allowance, value: Any, part: Any) -> int:
    if isinstance(value, str):
        search(allowance, value, part)
        return value.count(part)
    size(allowance, part)
    return int(_sequence(allowance, value).count(part))


def _split(allowance: Allowance, value: str, separator: Any = None, limit: Any = -1) -> list[str]:
    if separator is not None:
        search(allowance, value, separator)
    if not isinstance(limit, int):
        raise ExpressionError("split at most a number of times")
    allowance.make(text=len(value))
    parts = value.split(separator, MAX_ITEMS if limit < 0 else min(limit, MAX_ITEMS))
    allowance.make(items=len(parts))
    return parts


METHODS: dict[str, dict[type, Callable[..., Any]]] = {
    "get": {dict: _get},
    "keys": {dict: _listed(dict.keys)},
    "values": {dict: _listed(dict.values)},
    "items": {dict: _listed(dict.items)},
    "lower": {str: _cased(str.lower)},
    "upper": {str: _cased(str.upper)},
    "strip": {str: _strip},
    "startswith": {str: _edge(str.startswith)},
    "endswith": {str: _edge(str.endswith)},
    "count": {str: _count, list: _count, tuple: _count},
    "split": {str: _split},
}


def call(allowance: Allowance, method: str, value: Any, arguments: list[Any]) -> Any:
    """Return the result of a method of `METHODS`. Raises: ExpressionError for a value without it."""
    function = METHODS[method].get(type(value))
    if function is None:
        raise ExpressionError(f"{type(value).__name__} has no .{method}()")
    return function(allowance, value, *arguments)
