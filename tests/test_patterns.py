"""Regular expressions in linear time, against Python's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from hive_agents.goals.patterns import Pattern

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
