"""The operators of conditions on plain data; each charges an allowance before it works."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

SCALARS = frozenset({str, int, float, bool, type(None)})
MAX_ITEMS = 10_000  # of one sequence, and of a repeated text
MAX_TEXT = 1_000_000
MAX_POWER = 1e6
MAX_BITS = 1_024  # of a number; about the range of a float
MAX_DEPTH = 100
MAX_WORK = 500_000  # units of a few 100 ns
MAX_MADE = 8_000_000  # characters; an item counts as 16
SCAN = 256  # characters scanned for one unit of work


class ExpressionError(ValueError):
    """A condition is invalid, or failed on this data; `fix` says what to write instead."""

    fix = (
        "write it with comparisons, in, and, or, not, arithmetic, if-else, subscripts, functions such as len() and"
        " str(), and methods such as .get() and .lower()"
    )

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        if fix is not None:
            self.fix = fix


class LimitError(ExpressionError):
    """A condition exceeds a limit of work or size."""

    fix = f"make it smaller: a power may reach {MAX_POWER:.0f}, a sequence {MAX_ITEMS} items"


class Allowance:
    """The remaining work and memory of one evaluation. Raises: LimitError when it is exceeded."""

    def __init__(self) -> None:
        self._work, self._made = MAX_WORK, MAX_MADE

    def work(self, units: int) -> None:
        self._work -= units
        if self._work < 0:
            raise LimitError("too much work")

    def make(self, items: int = 0, text: int = 0) -> None:
        """Charge for one new sequence of `items`, or one text of `text` characters."""
        if items > MAX_ITEMS:
            raise LimitError(f"a sequence of {items} items; at most {MAX_ITEMS}")
        if text > MAX_TEXT:
            raise LimitError(f"a text of {text} characters; at most {MAX_TEXT}")
        self._made -= 16 * items + text
        if self._made < 0:
            raise LimitError("too much memory")
        self.work(items + text // SCAN)


def plain_data(value: Any, where: str, allowance: Allowance, depth: int = 0) -> Any:
    """Return a copy of a value that consists only of dict, list, tuple, str, numbers, bool and None.

    Raises: `ExpressionError` with the place of any other object, which could run code, or of what is too large.
    """
    allowance.work(1)
    kind = type(value)
    if kind in SCALARS:
        if kind is str and len(value) > MAX_TEXT:
            raise ExpressionError(f"{where} has {len(value)} characters; at most {MAX_TEXT}")
        if kind is float and not math.isfinite(value):  # a comparison with NaN is false, whichever way
            raise ExpressionError(f"{where} is {value}, no finite number")
        return fits(value) if kind is int else value
    if kind not in (dict, list, tuple):
        raise ExpressionError(f"{where} is a {kind.__name__}; conditions see plain data only")
    if depth >= MAX_DEPTH:
        raise ExpressionError(f"{where[:60]}… is nested more than {MAX_DEPTH} deep")
    if len(value) > MAX_ITEMS:
        raise ExpressionError(f"{where} has {len(value)} items; at most {MAX_ITEMS}")
    if kind is dict:
        copied = {}
        for key, inner in list(value.items()):
            if type(key) not in SCALARS:
                raise ExpressionError(f"{where} has a key of type {type(key).__name__}; conditions see plain data only")
            plain_data(key, where, allowance, depth + 1)
            copied[key] = plain_data(inner, f"{where}.{str(key)[:20]}" if depth < 5 else where, allowance, depth + 1)
        return copied
    return kind(plain_data(inner, f"{where}[]" if depth < 5 else where, allowance, depth + 1) for inner in list(value))


def size(allowance: Allowance, value: Any) -> int:
    """Return the work of visiting all of `value` once; charged while it is counted, since parts may be shared."""
    total, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            units = 1 + len(part) // SCAN
        elif isinstance(part, list | tuple | dict):
            units = 1 + len(part)
            allowance.work(units)
            pending.extend(part)
            if isinstance(part, dict):
                pending.extend(part.values())
        else:
            units = 1
        total += units
        allowance.work(units)
    return total


def number(value: Any) -> Any:
    """Return the value. Raises: ExpressionError unless it is a number."""
    if not isinstance(value, int | float):
        raise ExpressionError(f"{type(value).__name__} where a number is needed")
    return value


def fits(value: Any) -> Any:
    """Return the value. Raises: LimitError for an integer of over `MAX_BITS`, NaN or an infinity."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise LimitError("the number is too large")
    if isinstance(value, float) and not math.isfinite(value):
        raise LimitError("it is no finite number")
    return value


def _between_numbers(operation: Callable[[Any, Any], Any]) -> Callable[[Allowance, Any, Any], Any]:
    return lambda allowance, a, b: fits(operation(number(a), number(b)))


def _add(allowance: Allowance, a: Any, b: Any) -> Any:
    if type(a) is type(b) and type(a) in (str, list, tuple):
        length = len(a) + len(b)
        allowance.make(text=length) if isinstance(a, str) else allowance.make(items=length)
        return a + b
    return fits(number(a) + number(b))


def _multiply(allowance: Allowance, a: Any, b: Any) -> Any:
    if isinstance(b, str | list | tuple):
        a, b = b, a
    if isinstance(a, str | list | tuple):
        if not isinstance(b, int):
            raise ExpressionError(f"{type(a).__name__} times {type(b).__name__}")
        length = len(a) * max(b, 0)
        if length > MAX_ITEMS:
            raise LimitError(f"a sequence of {'very many' if length > 1e9 else length} items; at most {MAX_ITEMS}")
        allowance.make(items=length)
        return a * b
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b.bit_length() > MAX_BITS + 1:
        raise LimitError("the number is too large")
    return fits(number(a) * number(b))


def _power(_: Allowance, a: Any, b: Any) -> Any:
    base, exponent = number(a), number(b)
    if isinstance(exponent, float) and not exponent.is_integer() and base < 0:
        raise ExpressionError("a root of a negative number")
    if base and float(exponent) * math.log10(abs(base)) > math.log10(MAX_POWER) + 1e-9:
        raise LimitError(f"a power of more than {MAX_POWER:.0f}")
    value = base**exponent
    if abs(value) > MAX_POWER:
        raise LimitError(f"a power of more than {MAX_POWER:.0f}")
    return value


def sign(operation: Callable[[Any], Any]) -> Callable[[Allowance, Any], Any]:
    return lambda allowance, value: operation(number(value))


def _compared(operation: Callable[[Any, Any], bool]) -> Callable[[Allowance, Any, Any], bool]:
    def compare(allowance: Allowance, a: Any, b: Any) -> bool:
        if type(a) not in SCALARS and type(b) not in SCALARS:
            size(allowance, a)
            size(allowance, b)
        elif isinstance(a, str) and isinstance(b, str):
            allowance.work(min(len(a), len(b)) // SCAN)
        return operation(a, b)

    return compare


def search(allowance: Allowance, text: str, part: Any) -> None:
    """Charge for a search of `part` in `text`; Python searches short parts naively, so that cost grows with them."""
    if not isinstance(part, str):
        raise ExpressionError(f"{type(part).__name__} where a text is needed")
    allowance.work(1 + (len(text) * (1 + min(len(part), 128) // 4)) // SCAN)


def _contains(allowance: Allowance, part: Any, whole: Any) -> bool:
    if isinstance(whole, str):
        search(allowance, whole, part)
    else:
        size(allowance, part)
        if not isinstance(whole, dict):
            size(allowance, whole)
    return bool(part in whole)


OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: _add,
    ast.Sub: _between_numbers(operator.sub),
    ast.Mult: _multiply,
    ast.Div: _between_numbers(operator.truediv),
    ast.FloorDiv: _between_numbers(operator.floordiv),
    ast.Mod: _between_numbers(operator.mod),
    ast.Pow: _power,
    ast.Not: lambda allowance, value: not value,
    ast.USub: sign(operator.neg),
    ast.UAdd: sign(operator.pos),
    ast.Eq: _compared(operator.eq),
    ast.NotEq: _compared(operator.ne),
    ast.Lt: _compared(operator.lt),
    ast.LtE: _compared(operator.le),
    ast.Gt: _compared(operator.gt),
    ast.GtE: _compared(operator.ge),
    ast.In: _contains,
    ast.NotIn: lambda allowance, part, whole: not _contains(allowance, part, whole),
    ast.Is: lambda allowance, a, b: a is b,
    ast.IsNot: lambda allowance, a, b: a is not b,
}


def subscript(allowance: Allowance, value: Any, key: Any) -> Any:
    if isinstance(key, slice):
        if not isinstance(value, str | list | tuple):
            raise ExpressionError(f"a slice of {type(value).__name__}")
        length = len(range(*key.indices(len(value))))
        allowance.make(text=length) if isinstance(value, str) else allowance.make(items=length)
    else:
        size(allowance, key)
    return value[key]
