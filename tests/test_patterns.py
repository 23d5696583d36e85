"""Regular expressions in linear time: those of goals against Python's own, and Python's own of the program."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Set
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from hive_agents.goals.patterns import Pattern
from tests.parsed import modules, nodes

PATTERNS = [
    *[r"^v\d+$", r"a|b+c", r"(?i)Hello\s+World", r"[^a-c]x", r"\bfoo\b", r"(ab){2,3}c", r"^$", r"", r"x*", r"(?m)^b$"],
    *[r"(?s)a.b", r"a.b", r"[\w-]+@[\w.]+", r"\Aab\Z", r"\Bx", r"(?:a|ab)(?:c|bcd)", r"a{0,2}b", r"(?i:A)b", r"b$"],
    *[r"[A-Z]{2}-\d{3}", r"\S", r"(a*)*b", r"(?i)ß|İ", r"(?x) a  b # c", r"(?a)\bé", r"[^\S\n]", r"a+?b", r"(?m)a$"],
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "x", " ", "\n", "é", "A", "1", "-", "foo", "v12", "ß"]), max_size=9))
def test_patterns_are_found_where_python_finds_them(parts: list[str]) -> None:
    text = "".join(parts)
    for pattern in PATTERNS:
        assert Pattern(pattern).found_in(text) == (re.search(pattern, text) is not None), pattern


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(a|aa)+$", r"^(.*a){12}$", r"^([ab]*a)*$"])
def test_what_takes_python_forever_takes_one_look_at_each_character(pattern: str) -> None:
    assert not Pattern(pattern).found_in("a" * 20_000 + "!")


REFUSED = (r"(a)\1", r"(?=a)b", r"(?<!a)b", r"(a{1000}){1000}", "(", "a{99999999999}", "(" * 5000, "(?P<a>x)(?P=a)")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_not_linear_or_not_a_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are the parser's
        Pattern(pattern)


READ_ELSEWHERE = "hive_agents.readers."
"""A process with limits of time reads their texts, but for small files of the kinds in `READ_HERE`."""
READ_HERE = {f"{READ_ELSEWHERE}{name}" for name in ("conversion", "from_markdown", "from_text", "html_in_markdown")}
BOUNDED = {
    "hive_agents.agents.recording _NODE": "a key of names of nodes, which have a limit",
    "hive_agents.agents.run_log _NODE": "a key of names of nodes, which have a limit",
    "hive_agents.memory.spill _NUMBERED": "a name of a file",
    "hive_agents.memory.spill _TOKEN": "JSON that was parsed: its texts end",
    "hive_agents.models.prices _VERSION": "the name of a model in the settings",
    "hive_agents.store.own_schema _FUNCTION": "a script of the program",
    "hive_agents.supervision.queen.mandate _QUOTED": "a person's message to the queen, which has a limit",
}
"""Patterns whose time is the square of their text's length, and why no text of theirs is long."""
_ASKED = frozenset({"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
_TEXT, _CHECKED, _LONGER = 1_000, 4_000, 8_000


class Used(NamedTuple):
    """A pattern, the place where it stands, and the methods by which it is asked."""

    place: str
    pattern: re.Pattern[Any]
    methods: Set[str]


def used() -> Iterator[Used]:
    for name, path in modules().items():
        if name.startswith(READ_ELSEWHERE) and name not in READ_HERE:
            continue
        methods: dict[str, set[str]] = {}
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in _ASKED and isinstance(node.value, ast.Name):
                methods.setdefault(node.value.id, set()).add(node.attr)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"re.{asked}" for asked in _ASKED}:
                written, flags = node.args[0], [one.value for one in node.keywords if one.arg == "flags"]
                if isinstance(written, ast.Constant) and isinstance(written.value, str | bytes):
                    given = eval(ast.unparse(flags[0])) if flags else 0
                    pattern = re.compile(written.value, given)
                    yield Used(f"{name} {written.value!r}", pattern, {ast.unparse(node.func)[3:]})
        for variable, value in vars(import_module(name)).items():
            for pattern in _patterns_in(value):
                yield Used(f"{name} {variable}", pattern, methods.get(variable) or {"search"})


def _patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        yield from (found for each in value.values() for found in _patterns_in(each, depth - 1))
    elif depth and isinstance(value, list | tuple | set | frozenset):
        yield from (found for each in value for found in _patterns_in(each, depth - 1))


def fitting(pattern: re.Pattern[Any]) -> list[str]:
    """Return short texts that the pattern's beginnings, and the parts that it repeats, match."""
    parsed: Any = import_module("re._parser")
    found: set[str] = set()

    def matched(parts: Any) -> list[str]:
        texts = [""]
        for kind, value in parts:
            texts = [before + after for before in texts for after in _one(str(kind), value)][:12]
            found.update(texts)
        return texts

    def _one(kind: str, value: Any) -> list[str]:
        if kind == "LITERAL":
            return [chr(value)]
        if kind == "NOT_LITERAL":
            return ["a" if value != ord("a") else "b"]
        if kind == "ANY":
            return ["a"]
        if kind == "IN":
            return _of_class(value)
        if kind.endswith("REPEAT"):
            least, most, parts = value
            repeated = matched(parts)[:3]
            found.update(repeated if most > 1 else ())
            return [text * max(least, 1) for text in repeated if len(text) * least < 200] + [""] * (least == 0)
        if kind in ("SUBPATTERN", "ATOMIC_GROUP"):
            return matched(value[3] if kind == "SUBPATTERN" else value)[:6]
        if kind == "BRANCH":
            return [text for branch in value[1] for text in matched(branch)[:2]][:12]
        if kind.startswith("ASSERT"):
            matched(value[1])
        return [""]

    matched(parsed.parse(pattern.pattern, pattern.flags & (re.X | re.I | re.S | re.M)))
    texts = sorted(found - {""})
    return texts[:: len(texts) // 30 + 1]


def _of_class(members: Any) -> list[str]:
    signs = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": "-"}
    listed = [
        chr(value[0] if str(kind) == "RANGE" else value) for kind, value in members if str(kind) in ("RANGE", "LITERAL")
    ]
    if str(members[0][0]) == "NEGATE":
        return [sign for sign in "a <1-" if sign not in listed][:2]
    return [*[signs.get(str(value), "a") for kind, value in members if str(kind) == "CATEGORY"], *listed][:4]


def hostile(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """Yield (start, what is repeated after it)."""
    texts = fitting(pattern)
    yield from (("", text) for text in texts)
    signs = sorted({text[-1] for text in texts} | {" "})[:6]
    yield from ((text, sign) for text in texts for sign in signs)


def seconds(pattern: re.Pattern[Any], method: str, start: str, again: str, length: int) -> float:
    text: Any = start + again * (length // len(again)) + "\0"
    empty: Any = ""
    if isinstance(pattern.pattern, bytes):
        text, empty = text.encode("latin-1", "ignore"), b""
    act = getattr(pattern, method)
    begun = time.thread_time()
    found = act(empty, text) if method in ("sub", "subn") else act(text)
    if method == "finditer":
        list(found)
    return time.thread_time() - begun


def grows_by_the_square(pattern: re.Pattern[Any], method: str, start: str, again: str) -> bool:
    """Return whether four times the text takes over eight times the time; the square would take sixteen times.

    The least of each is compared, and asked again while it looks like the square: what a busy machine adds is no
    growth, and a repetition with a bound reads like the square as far as its bound, so the texts grow too.
    """
    for times, length in ((1, _CHECKED), (3, _LONGER)):
        pairs = [[seconds(pattern, method, start, again, long) for long in (length, length * 4)] for _ in range(times)]
        shorter, longer = map(min, zip(*pairs, strict=True))
        if longer <= 8 * shorter:
            return False
    return True


def test_a_bounded_repetition_is_told_from_the_square_of_a_text() -> None:
    assert grows_by_the_square(re.compile(r"a+b"), "search", "", "a")
    assert not grows_by_the_square(re.compile(r"a{1,2000}?b"), "search", "", "a")


@pytest.mark.static
def test_no_pattern_of_the_program_takes_the_square_of_a_text_s_length() -> None:
    squares, places, seen = [], set(), set()
    for place, pattern, methods in used():
        places.add(place)
        if place in BOUNDED or (same := (pattern, frozenset(methods))) in seen:
            continue
        seen.add(same)
        for start, again in hostile(pattern):
            asked = [(pattern, method, start, again) for method in sorted(methods)]
            slow = [each for each in asked if seconds(*each, _TEXT) > 0.001 and seconds(*each, _TEXT) > 0.0005]
            if any(grows_by_the_square(*each) for each in slow):
                squares.append((place, start, again))
                break
    assert squares == []
    assert set(BOUNDED) <= places
