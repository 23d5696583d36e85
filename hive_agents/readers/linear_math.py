"""Formulas of Office (OMML) and of web pages (MathML) on one line: `(a+b)/2`, `x^2`, `√(n+1)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_ONE = re.compile(r"[^\W_]+(?:[.,]\d+)?|\S?|\([^()]*\)")


def grouped(text: str) -> str:
    """Return a part of a formula in parentheses where it is more than one name or number.

    >>> grouped("12"), grouped("n+1"), grouped("(a+b)")
    ('12', '(n+1)', '(a+b)')
    """
    return text if _ONE.fullmatch(text) else f"({text})"


def _at(parts: Sequence[str], number: int) -> str:
    return parts[number] if number < len(parts) else ""


def _script(mark: str) -> Callable[[Sequence[str]], str]:
    return lambda parts: f"{_at(parts, 0)}{mark}{grouped(_at(parts, 1))}"


def _both(parts: Sequence[str]) -> str:
    return f"{_at(parts, 0)}_{grouped(_at(parts, 1))}^{grouped(_at(parts, 2))}"


_FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "fraction": lambda parts: f"{grouped(_at(parts, 0))}/{grouped(_at(parts, 1))}",
    "above": _script("^"),
    "below": _script("_"),
    "both": _both,
    "root": lambda parts: f"√{grouped(_at(parts, 0))}",
    "nth root": lambda parts: f"{_at(parts, 1)}√{grouped(_at(parts, 0))}",
}


def linear(form: str, parts: Sequence[str]) -> str:
    """Return a form of its parts on one line.

    >>> linear("fraction", ["1", "n+1"]), linear("both", ["x", "i", "2"]), linear("root", ["n"])
    ('1/(n+1)', 'x_i^2', '√n')
    """
    return _FORMS[form](parts)
