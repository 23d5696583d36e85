"""The words of a sentence with their places and stems, and what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.copilot.asking import stemmed_words
from hive_agents.copilot.language import LANGUAGES, answer_pattern, function_words


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


def unnamed(question: str) -> str | None:
    """Return the pronoun of a question about something that only an earlier one could have named.

    >>> unnamed("how long is it valid?"), unnamed("Is it possible to run it twice?"), unnamed("What time is it?")
    ('it', None, None)
    """
    found = answer_pattern("asks.elliptic").search(question)
    if found is None or answer_pattern("asks.expletive").search(question):
        return None
    before = telling_words(question[: found.start()])
    ends = not question[found.end() :].strip(" ?!.")
    if len(before) > (1 if ends else 0):  # at the end it may stand behind its verb: "who approves it?"
        return None
    return found[0].strip(" ?!.")


def telling_words(text: str) -> list[str]:
    """Return the words of a text that name anything; in either language."""
    rest = answer_pattern("asks.form").sub(" ", text)
    return [word.text for word in placed_words(rest, "none") if not is_small(word.text)]
