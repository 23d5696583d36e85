"""Word lists and patterns of the languages that the copilot reads, and texts split into words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hive_agents.documents import LANGUAGES, function_words

MOST_CHARACTERS = 4_000
MOST_WORDS = 120
"""The words that are read of a text; one that is longer is a pasted page, and has no filters."""

_WORD = re.compile(r"[^\W_]+(?=['’]s\b)|['’]s\b|[vV]?\d+(?:\.\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_A_NUMBER = re.compile(r"\s*\d")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[.\u00a0\u202f ]\d{3})+(?![\w]|[.,]\d)")
_DECIMALS = re.compile(r"(?<![\w.,])(\d+),(\d{1,2})(?![\w]|[.,]\d)")
"""Numbers as German, French and Spanish write them: 50.000 and 2,5."""
_WITHOUT = re.compile(r"\bw/o\b", re.I)
_QUOTED = re.compile(r"(?<!\w)(['\"“‘«])([^'\"“”‘’«»]{1,80})(['\"”’»])(?!\w)")


@cache
def language(code: str) -> Mapping[str, Any]:
    """Return the tables of `languages/<code>.toml`."""
    import tomllib

    return tomllib.loads((files(__package__) / "languages" / f"{code}.toml").read_text("utf-8"))


@cache
def word_list(section: str, name: str, code: str = "en") -> frozenset[str]:
    """Return a list of words of one language; a dot in `section` leads to a nested one, as in `fields.roles`."""
    listed = _section(section, code)[name]
    return frozenset(listed.split() if isinstance(listed, str) else listed)


@cache
def word_table(section: str) -> Mapping[str, str]:
    """Return the English words of a section, each with the name of the first list that it is in.

    >>> word_table("fields.date_cues")["updated"]
    'changed'
    """
    lists: dict[str, str] = {}
    for name, listed in _section(section, "en").items():
        for word in listed.split() if isinstance(listed, str) else listed:
            lists.setdefault(word, name)
    return lists


def in_english(text: str) -> str:
    """Return a message in another language with its words for lists and filters in English; all else as typed.

    >>> in_english("Zeige alle Dokumente von mei"), in_english("documents by mei")
    ('show all documents by mei', 'documents by mei')
    """
    coded = set() if text.isupper() else {word.text for word in words(text) if is_code(word.text)}
    distinct = {word.lower for word in words(text) if word.text not in coded}
    known = {code: len(distinct & function_words(code)) for code in LANGUAGES.values()}
    known |= {code: count + len(distinct & _spoken(code).keys()) for code, count in known.items() if code != "en"}
    code = max(known, key=lambda each: (known[each], each == "en"))
    if code == "en":
        return text
    english = _spoken(code)

    def in_words(found: re.Match[str]) -> str:
        phrase = " ".join(re.split(r"[\W_]+", found[1].lower()))
        of_number = english.get(f"{phrase} #") if _A_NUMBER.match(text, found.end()) else None
        word = of_number or english.get(phrase)
        return found[0] if word is None or found[1] in coded else word + (" " if found[2] else "")

    text = _DECIMALS.sub(r"\1.\2", _GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), text))
    return _phrases(code).sub(in_words, text)


@cache
def _spoken(code: str) -> Mapping[str, str]:
    """Return a language's words for lists with their English; "über #" is read so before a number alone."""
    return {
        phrase: name
        for name, listed in language(code)["spoken"].items()
        for phrase in (listed.split() if isinstance(listed, str) else listed)
    }


@cache
def _phrases(code: str) -> re.Pattern[str]:
    longest = sorted({phrase.removesuffix(" #") for phrase in _spoken(code)}, key=len, reverse=True)
    alternatives = "|".join(r"[\W_]+".join(map(re.escape, phrase.split())) for phrase in longest)
    # The apostrophe of "d'Oslo" goes with the word before it.
    return re.compile(rf"(?<!\w)({alternatives})(?:(['’])(?=\w)|(?!\w))", re.I)


@cache
def pattern(section: str, name: str) -> re.Pattern[str]:
    """Return an English pattern."""
    return re.compile(_section(section, "en")[name], re.I | re.X)


@cache
def every_pattern(name: str, template: str = "{}") -> re.Pattern[str]:
    """Return a pattern of `asked` in all languages, put into the template."""
    alternatives = "|".join(_section("asked", code)[name] for code in LANGUAGES.values())
    return re.compile(template.format(alternatives), re.I | re.X)


def _section(section: str, code: str) -> Mapping[str, Any]:
    table = language(code)
    for name in section.split("."):
        table = table[name]
    return table


@dataclass(frozen=True)
class Word:
    """A word: as typed, in lower case, its span in the text, the text before it, and whether it is in quotes."""

    text: str
    lower: str
    start: int
    end: int
    gap: str
    quoted: bool

    @property
    def opens_clause(self) -> bool:
        gap = self.gap.removesuffix(" .")  # ".com" goes on
        return any(sign in gap for sign in ",;:.!?()–—\n") or gap.strip() == "-"


def clean(text: str) -> str:
    """Return the text without control characters and with single spaces, at most `MOST_CHARACTERS` long.

    >>> clean("  how\\x00 do I\\n rotate ")
    'how do I rotate'
    """
    shown = (
        " " if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text[: 4 * MOST_CHARACTERS]
    )
    plain = " ".join(unicodedata.normalize("NFKC", "".join(shown)).split())
    return _WITHOUT.sub("without", plain)[:MOST_CHARACTERS].rstrip()


def words(text: str) -> list[Word]:
    """Return the first `MOST_WORDS` words, in order; a possessive `'s` is a word of its own.

    >>> [word.lower for word in words("What's in Mei's API-docs?")]
    ['what', "'s", 'in', 'mei', "'s", 'api', 'docs']
    """
    quoted = [match.span(2) for match in _QUOTED.finditer(text)]
    result: list[Word] = []
    last = 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        inside = any(left <= start and end <= right for left, right in quoted)
        lower = match.group().lower().replace("’", "'")
        result.append(Word(match.group(), lower, start, end, text[last:start], inside))
        last = end
        if len(result) == MOST_WORDS:
            break
    return result


def at(sentence: list[Word], place: int) -> str:
    """Return the word at a place, empty outside the sentence."""
    return sentence[place].lower if 0 <= place < len(sentence) else ""


def is_code(word: str) -> bool:
    """Return whether a word is written as a code of two or three letters: the DE of a country, which is no "de"."""
    return word.isupper() and word.isalpha() and len(word) in (2, 3)


def spoken(text: str) -> str:
    """Return the words of a text in lower case, separated by one space."""
    return " ".join(word.lower for word in words(text))
