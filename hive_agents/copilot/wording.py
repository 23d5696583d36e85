"""The words of a sentence with their places and stems, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.copilot.asking import stemmed_words
from hive_agents.copilot.language import LANGUAGES, answer_pattern, function_words

_INFLECTIONS = frozenset(
    {
        "",
        "s",
        "es",
        "ies",
        "y",
        "d",
        "ed",
        "ied",
        "e",
        "ing",
        "ying",
        "'s",
        "’s",
        "n",
        "en",
        "er",
        "em",
        "ern",
        "t",
        "te",
        "ten",
    }
)
"""Endings by which a word stays what it is."""


@dataclass(frozen=True)
class PlacedWord:
    """A word with its place in a sentence."""

    start: int
    end: int
    text: str
    stems: frozenset[str]


@lru_cache(maxsize=4096)
def placed_words(text: str, language: str) -> tuple[PlacedWord, ...]:
    """Return the words of a text, in order."""
    found = stemmed_words(text, language)
    return tuple(PlacedWord(start, end, text[start:end], frozenset(stems)) for start, end, stems in found)


def stems_of(words: Sequence[PlacedWord]) -> frozenset[str]:
    """Return the stems of all of them."""
    return frozenset(stem for word in words for stem in word.stems)


def is_small(word: str) -> bool:
    """Whether it is a word without content in any language."""
    return any(word.lower() in function_words(code) for code in LANGUAGES.values())


def is_inflected(word: str, other: str) -> bool:
    """Whether two words are one but for number, person, tense or case; what is derived from a word is another.

    >>> is_inflected("locks", "locking"), is_inflected("copies", "copy"), is_inflected("requirements", "required")
    (True, True, False)
    """
    one, two = word.lower(), other.lower()
    same = next(
        (n for n, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), min(len(one), len(two))
    )
    return any({one[n:], two[n:]} <= _INFLECTIONS for n in (same, same - 1) if n > 0)


def is_elliptic(question: str) -> bool:
    """Whether a question is about something that only an earlier one could have named.

    >>> is_elliptic("how long is it valid?"), is_elliptic("Is it possible to run it twice?")
    (True, False)
    """
    found = answer_pattern("asks.elliptic").search(question)
    return found is not None and not content_of(question[: found.start()])


def content_of(text: str) -> bool:
    """Whether a text names anything; in either language."""
    rest = answer_pattern("asks.form").sub(" ", text)
    return any(not is_small(word.text) for word in placed_words(rest, "none"))
