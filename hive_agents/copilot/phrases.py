"""Phrases in either number, groups of words for one thing, and what else is said for a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Generic, TypeVar

from hive_agents.copilot.forms import inflected, word_key
from hive_agents.copilot.language import language, word_list
from hive_agents.copilot.roles import parts
from hive_agents.documents import words as spell

_Entry = TypeVar("_Entry")


class Phrases(Generic[_Entry]):
    """Entries by phrase; a phrase in the singular finds one in the plural, and the other way round."""

    def __init__(self, entries: Iterable[tuple[Sequence[str], _Entry]]) -> None:
        self._index: dict[str, list[tuple[str, _Entry]]] = {}
        for words, entry in entries:
            self._index.setdefault(word_key(words), []).append(("".join(words), entry))

    def find(self, words: Sequence[str]) -> list[_Entry]:
        joined = "".join(words)
        alike = (entry for phrase, entry in self._index.get(word_key(words), ()) if inflected(joined, phrase))
        return list(dict.fromkeys(alike)) if joined else []

    def exact(self, word: str) -> list[_Entry]:
        """Return the entries of one phrase as it is written."""
        return [entry for phrase, entry in self._index.get(word_key((word,)), ()) if phrase == word]


@cache
def groups(name: str) -> Phrases[tuple[str, ...]]:
    groups = [tuple(group) for group in language("en")["fields"][name]]
    return Phrases((spell(phrase), group) for group in groups for phrase in group)


def named_by(value: str) -> list[str]:
    """Return the name that an address is made of, or that stands before one or a handle.

    >>> named_by("mei.lin@acme.example"), named_by("Mei Lin (@mei)"), named_by("desk@acme.example")
    (['mei lin'], ['Mei Lin'], [])
    """
    found = re.fullmatch(r"([a-z]+)[._]([a-z]+)@\S+", value.lower())
    return [f"{found[1]} {found[2]}"] if found else [name for name in [without_address(value)] if name != value]


def without_address(value: str) -> str:
    """Return a person's name without what is in brackets or behind a dash: an address, a handle, a company."""
    ends = [place for sign in (" (", " <", " - ", " – ") if (place := value.find(sign)) > 0]
    return value[: min(ends)] if ends else value


def unfinished(values: Sequence[str]) -> list[str]:
    """Return the states that "open" stands for: all but those at an end; none where a value says it itself.

    >>> unfinished(["new", "in progress", "closed"]), unfinished(["open", "new", "closed"]), unfinished(["new"])
    (['new', 'in progress'], [], [])
    """
    ended = [value for value in values if value.lower() in word_list("fields", "ended")]
    own = groups("synonyms").find(["open"])
    said = any(value.lower() in group for value in values for group in own)
    return [] if said or not ended else [value for value in values if value not in ended]


def told_apart_by(name: str, value: str) -> str:
    """Return the words of a value that its field's name hasn't.

    >>> told_apart_by("license", "The MIT License (MIT)"), told_apart_by("license", "The Unlicense")
    ('mit', 'the unlicense')
    """
    said, own = spell(value), parts(name)
    rest = dict.fromkeys(word for word in said if word not in own)
    telling = [word for word in rest if len(rest) == len(said) or word != "the"]
    return " ".join(telling or said)
