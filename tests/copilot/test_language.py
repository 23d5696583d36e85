"""Word lists and patterns: one file a language, each of them whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import pytest

from hive_agents.copilot.language import clean, every_pattern, language, pattern, words
from hive_agents.documents import LANGUAGES, function_words
from hive_agents.documents.analysis import languages


def keys(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield from keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"]


def test_each_file_is_of_a_language_that_an_index_can_have():
    folder = files("hive_agents.copilot") / "languages"
    assert {file.name for file in folder.iterdir()} == {f"{code}.toml" for code in LANGUAGES.values()}
    assert LANGUAGES.keys() <= set(languages())


@pytest.mark.parametrize("code", LANGUAGES.values())
def test_a_language_has_function_words_and_every_pattern_of_questions(code: str):
    assert function_words(code)
    assert set(keys(language(code)["asked"])) == set(keys(language("en")["asked"]))


def test_every_pattern_compiles():
    lists = {"result", "pointing_verbs", "ordinals", "last", "points"}
    for section in ("messages", "follow_up"):
        for name in language("en")[section].keys() - lists:
            assert pattern(section, name).flags & re.I
    for name in set(keys(language("en")["asked"])) - {"empty"}:
        assert every_pattern(name, "(?:{})").flags & re.I


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("w/o drafts", ["without", "drafts"]),
        ("Mei’s SOP-7, v1.5", ["mei", "'s", "sop", "7", "v1.5"]),
        ("\u202edrafts\x00now", ["drafts", "now"]),
        ("", []),
    ],
)
def test_a_text_becomes_lower_case_words(text: str, read: list[str]):
    assert [word.lower for word in words(clean(text))] == read
