"""Predicates over a result, each a test and its equivalent rule condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{2,39}\(?")
_MOST_TOKENS = 400
_MOST_TEXT = 4000
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_CATEGORY_LENGTH = 40


@dataclass(frozen=True)
class Predicate:
    """`condition` is the test in the language of rules; `test` takes a result."""

    kind: str
    text: str
    condition: str
    test: Callable[[Any], bool] = field(compare=False)


def candidates(results: Sequence[Any], least: int) -> list[Predicate]:
    """Return every typed predicate that at least `least` of the results fulfil: tokens, field values, numeric cuts."""
    predicates: list[Predicate] = []
    for key in sorted({key for result in results if isinstance(result, dict) for key in result}):
        values = [result[key] for result in results if isinstance(result, dict) and key in result]
        if not isinstance(key, str):
            continue
        numbers = [float(value) for value in values if _is_number(value)]
        texts = [value for value in values if isinstance(value, str)]
        if len(numbers) == len(values):
            predicates += _cuts(key, numbers)
        else:
            short = [text for text in texts if len(text) <= _CATEGORY_LENGTH]
            predicates += [_equals(key, value) for value in sorted(set(short)) if short.count(value) >= least]
            predicates += [_contains(key, token) for token in _tokens(texts, least)]
        predicates += [_equals(key, value) for value in (True, False) if sum(v is value for v in values) >= least]
    plain = [result for result in results if isinstance(result, str)]
    predicates += [_contains(None, token) for token in _tokens(plain, least)]
    return [predicate for predicate in predicates if sum(map(predicate.test, results)) >= least]


def _tokens(texts: Iterable[str], least: int) -> list[str]:
    counts: dict[str, int] = {}
    for text in texts:
        for token in {match.group() for match in _TOKEN.finditer(text[:_MOST_TEXT])}:
            counts[token] = counts.get(token, 0) + 1
    frequent = sorted((-count, token) for token, count in counts.items() if count >= least)
    return [token for _, token in frequent[:_MOST_TOKENS]]


def _contains(key: str | None, token: str) -> Predicate:
    place = "str(result)" if key is None else f"str(result.get({key!r}, ''))"

    def test(result: Any) -> bool:
        if key is None:
            return token in str(result)
        return isinstance(result, dict) and token in str(result.get(key, ""))

    return Predicate("token", f"{key or 'the result'} contains {token!r}", f"{token!r} in {place}", test)


def _equals(key: str, value: str | bool) -> Predicate:
    def test(result: Any) -> bool:
        if not isinstance(result, dict) or key not in result:
            return False
        return result[key] is value if isinstance(value, bool) else bool(result[key] == value)

    sign = "is" if isinstance(value, bool) else "=="
    return Predicate("value", f"{key} is {value!r}", f"result.get({key!r}) {sign} {value!r}", test)


def _cuts(key: str, numbers: Sequence[float]) -> list[Predicate]:
    predicates = []
    for cut in sorted({float(np.round(np.quantile(numbers, q), 6)) for q in _QUANTILES}):
        for sign, missing in ((">=", _beyond(cut, -1.0)), ("<", _beyond(cut, 1.0))):
            # A missing field must not match, and must not raise either.
            condition = f"result.get({key!r}, {missing!r}) {sign} {cut!r}"
            predicates.append(Predicate("number", f"{key} {sign} {cut:g}", condition, _number_test(key, sign, cut)))
    return predicates


def _beyond(cut: float, step: float) -> float:
    """Return a number on one side of a cut, with as few digits as the cut.

    >>> _beyond(0.95, -1.0), _beyond(0.95, 1.0), _beyond(1e17, -1.0)
    (-0.05, 1.95, 0.0)
    """
    beyond = round(cut + step, 6)
    return beyond if beyond != cut else cut + step * abs(cut)


def _number_test(key: str, sign: str, cut: float) -> Callable[[Any], bool]:
    def test(result: Any) -> bool:
        value = result.get(key) if isinstance(result, dict) else None
        if value is None or not _is_number(value):
            return False
        return bool(value >= cut) if sign == ">=" else bool(value < cut)

    return test


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
