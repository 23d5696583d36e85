"""Forms of words and versions: what they are compared by."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

from hive_agents.documents import terms, words as spell

_INFLECTIONS = frozenset({"", "s", "es", "ies", "y"})
_VOWELS = frozenset("aeiouy")
VERSION = re.compile(r"(?<![^\W_])[vV]?\d+(?:\.\d+)*(?![^\W_])")


def unaccented(word: str) -> str:
    """Return a word without accents, which people leave out: "linea" is "línea".

    >>> unaccented("línea"), unaccented("größer")
    ('linea', 'großer')
    """
    if word.isascii():
        return word
    return "".join(sign for sign in unicodedata.normalize("NFKD", word) if not unicodedata.combining(sign))


def word_key(words: Sequence[str]) -> str:
    """Return what words are compared by: their stem, written together."""
    # Joined, so that "change log", "change-log" and "changelog" are one phrase.
    joined = unaccented("".join(words))
    # Snowball doesn't stem "rfcs" and "slas"; in words of three letters the "s" may belong to the stem: "bus".
    if joined.endswith("s") and not _VOWELS.intersection(joined[:-2] if len(joined) > 3 else joined):
        joined = joined[:-1]
    return "".join(terms(joined))


def other_form(version: str) -> list[str]:
    """Return the other spelling of a version, with or without a v; nothing for other words.

    >>> other_form("v2.11"), other_form("3.0"), other_form("stable")
    (['2.11'], ['v3.0'], [])
    """
    plain = version.lower().removeprefix("v")
    if not VERSION.fullmatch(plain):
        return []
    return [plain] if plain != version.lower() else [f"v{plain}"]


def is_version(word: str) -> bool:
    """Return whether a word can only be a version: a number with a dot or a v.

    >>> [is_version(word) for word in ("v3", "3.7", "3", "lamp")]
    [True, True, False, False]
    """
    return bool(VERSION.fullmatch(word)) and not word.isdecimal()


def version_parts(version: str) -> tuple[int, ...]:
    """Return the numbers of a version.

    >>> version_parts("v2.11"), version_parts("2.0")
    ((2, 11), (2, 0))
    """
    return tuple(int(part) for part in version.lower().removeprefix("v").split("."))


def spelt(phrase: str) -> list[str]:
    """Return the words of a phrase, split as in a sentence: a number with dots is one word."""
    numbers = [found[0].lower() for found in VERSION.finditer(phrase)]
    between = [spell(part) for part in VERSION.split(phrase)]
    pairs = zip_longest(between, numbers)
    return [word for words, number in pairs for word in (*words, *([number] if number else []))]


def inflected(word: str, value: str) -> bool:
    """Return whether two words of one stem differ only in number, unlike "retire" and "retired"."""
    differing = (n for n, (left, right) in enumerate(zip(word, value, strict=False)) if left != right)
    same = next(differing, min(len(word), len(value)))
    return {word[same:], value[same:]} <= _INFLECTIONS


def one_edit(word: str, value: str) -> bool:
    """Return whether two words differ by one letter inserted, removed or replaced, or by two letters swapped.

    >>> [one_edit("tutorails", "tutorials"), one_edit("efective", "effective"), one_edit("abc", "cba")]
    [True, True, False]
    """
    if abs(len(word) - len(value)) > 1:
        return False
    n = next((n for n, pair in enumerate(zip(word, value, strict=False)) if pair[0] != pair[1]), None)
    if n is None:
        return len(word) != len(value)
    swapped = word[n : n + 2] == value[n : n + 2][::-1] and word[n + 2 :] == value[n + 2 :]
    return swapped or value[n + 1 :] in (word[n:], word[n + 1 :]) or value[n:] == word[n + 1 :]


def is_plural(name: str) -> bool:
    return name.lower().endswith("s") and not name.lower().endswith(("ss", "us", "is"))


def spaced(text: str) -> str:
    return f" {' '.join(spell(text))} "
