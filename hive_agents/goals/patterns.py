"""Regular expressions in linear time: a pattern is read by Python's own parser, and runs as a set of states.

Python's engine tries one way after another, and `(a+)+$` has exponentially many; here each character is looked at
once, however the pattern is written, so that no clock has to stop it. What remembers a match, backreferences and
looking around, doesn't exist. RE2 does the same, but its words are of ASCII alone: `äpfel` is none.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from re import _constants as sre, _parser as parser  # type: ignore[attr-defined]

MAX_STATES = 5_000
MAX_WORK = 5_000_000
"""States looked at before it is given up, some seconds: `a{4000}b` has thousands of them at each letter of a text."""
_KNOWN_SETS = 2_000

Test = Callable[[str], bool]
_State = tuple[str, Any, tuple[int, ...]]


class Pattern:
    """A compiled pattern.

    >>> Pattern(r"^v\\d+$").found_in("v12"), Pattern(r"(a+)+$").found_in("a" * 10_000 + "b")
    (True, False)

    Raises: ValueError for a pattern that can't be read, or is too large, or has backreferences or looks around.
    """

    def __init__(self, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                parsed = parser.parse(text)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(str(error)) from None
        self._states: list[_State] = []
        end = self._add("end", None)
        try:
            self._start = self._sequence(parsed, end, parsed.state.flags)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int] | None] = {}

    def found_in(self, *texts: str) -> bool | None:
        """Return whether the pattern matches anywhere in one of the texts; None where that takes over `MAX_WORK`."""
        left = MAX_WORK
        for text in texts:
            current: frozenset[int] = frozenset()
            before = ""
            for place in range(len(text) + 1):
                here = text[place] if place < len(text) else ""
                last = here == "\n" and place == len(text) - 1
                key = (current, before, "\n$" if last else here)
                if key in self._known:
                    following = self._known[key]
                else:
                    following, looked_at = self._step(current, before, here, last)
                    if (left := left - looked_at) < 0:
                        return None
                    if len(self._known) < _KNOWN_SETS:
                        self._known[key] = following
                if following is None:
                    return True
                current, before = following, here
        return False

    def _step(self, current: frozenset[int], before: str, here: str, last: bool) -> tuple[frozenset[int] | None, int]:
        """Return the states after `here`, where a match may begin, too, None where one has ended; and how many states
        were looked at."""
        reached: set[int] = set()
        waiting = [*current, self._start]
        following = set()
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            kind, what, to = self._states[state]
            if kind == "end":
                return None, len(reached)
            if kind == "char":
                if here and what(here):
                    following.add(to[0])
            elif kind == "split" or _holds(what, before, here, last):
                waiting += to
        return frozenset(following), len(reached)

    def _add(self, kind: str, what: Any, *to: int) -> int:
        if len(self._states) >= MAX_STATES:
            raise ValueError(f"it has over {MAX_STATES:,} states")
        self._states.append((kind, what, to))
        return len(self._states) - 1

    def _sequence(self, parts: Any, to: int, flags: int) -> int:
        for op, value in reversed(list(parts)):
            to = self._part(op, value, to, flags)
        return to

    def _part(self, op: Any, value: Any, to: int, flags: int) -> int:
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            return self._add("char", _test(op, value, flags), to)
        if op is sre.AT:
            return self._add("at", _place(value, flags), to)
        if op is sre.SUBPATTERN:
            _, added, removed, inner = value
            return self._sequence(inner, to, (flags | added) & ~removed)
        if op is sre.BRANCH:
            return self._add("split", None, *(self._sequence(branch, to, flags) for branch in value[1]))
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            if most is sre.MAXREPEAT:
                loop = self._add("split", None)
                self._states[loop] = ("split", None, (self._sequence(inner, loop, flags), to))
                to = loop
            else:
                after = to
                for _ in range(most - least):
                    to = self._add("split", None, self._sequence(inner, to, flags), after)
            for _ in range(least):
                to = self._sequence(inner, to, flags)
            return to
        raise ValueError(f"it has {str(op).lower().replace('_', ' ')}, which takes more than linear time")


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """Return the pattern of a text. Raises: as `Pattern`."""
    return Pattern(text)


def _test(op: Any, value: Any, flags: int) -> Test:
    """Return whether a character is one that the part stands for; Python's own engine says so of a single one."""
    if op is sre.ANY:
        return (lambda sign: True) if flags & re.DOTALL else (lambda sign: sign != "\n")
    kept = flags & (re.IGNORECASE | re.ASCII)
    if op is sre.LITERAL and not kept & re.IGNORECASE:
        wanted = chr(value)
        return lambda sign: sign == wanted
    source = f"[{''.join(map(_written, value))}]" if op is sre.IN else f"[{_escaped(value)}]"
    if op is sre.NOT_LITERAL:
        source = f"[^{_escaped(value)}]"
    one = re.compile(source, kept | re.DOTALL)
    return lambda sign: one.fullmatch(sign) is not None


def _written(item: tuple[Any, Any]) -> str:
    op, value = item
    if op is sre.NEGATE:
        return "^"
    if op is sre.RANGE:
        return f"{_escaped(value[0])}-{_escaped(value[1])}"
    if op is sre.CATEGORY:
        return _CATEGORIES[value]
    return _escaped(value)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def _place(at: Any, flags: int) -> str:
    if flags & re.MULTILINE and at in (sre.AT_BEGINNING, sre.AT_END):
        return "line_begin" if at is sre.AT_BEGINNING else "line_end"
    ascii_only = "ascii_" if flags & re.ASCII else ""
    return {
        sre.AT_BEGINNING: "begin",
        sre.AT_BEGINNING_STRING: "begin",
        sre.AT_END: "end_or_newline",
        sre.AT_END_STRING: "end",
        sre.AT_BOUNDARY: f"{ascii_only}boundary",
        sre.AT_NON_BOUNDARY: f"{ascii_only}inside",
    }[at]


_WORD, _ASCII_WORD = re.compile(r"\w"), re.compile(r"\w", re.ASCII)


def _holds(place: str, before: str, here: str, last: bool) -> bool:
    """Return whether a place lies between two characters, "" being the text's begin or end."""
    word = _ASCII_WORD if place.startswith("ascii_") else _WORD
    match place.removeprefix("ascii_"):
        case "begin":
            return not before
        case "end":
            return not here
        case "end_or_newline":
            return not here or last
        case "line_begin":
            return before in ("", "\n")
        case "line_end":
            return here in ("", "\n")
        case "boundary":
            return bool(word.match(before)) != bool(word.match(here))
    return bool(word.match(before)) == bool(word.match(here)) and bool(before or here)
