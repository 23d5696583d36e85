"""What documents are called: by their folder, by the numbers of their files, and by values that name kinds of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

from hive_agents.copilot.forms import is_plural, word_key
from hive_agents.copilot.language import language, word_list
from hive_agents.copilot.phrases import Phrases
from hive_agents.copilot.roles import FOLDERS, FieldRole, parts
from hive_agents.documents import LANGUAGES, terms, words as spell
from hive_agents.models.embedding import WordPieces

_NUMBERED, _MOST = re.compile(r"([^\W\d_]*)[-_ ]?(\d{1,9})(?!\d)"), 0.9
"""The beginning of the name of a file with a number, `rule-12.md` or `0012-lamps.md`, and the share of such files."""
_FOREIGN_PLURALS = ("e", "en", "er", "n", "x")
"""Endings of "fahrzeuge" and "bureaux"."""


def names_of_documents(
    doc_ids: Sequence[str], fields: Iterable[str], values: Callable[[str], list[tuple[str, int]]]
) -> tuple[str, frozenset[str]]:
    """Return the stem of what every document is called, empty where nothing tells, and all stems that stand for them.

    It is the name of the one folder in the plural, else of the files with numbers, else of the field with these;
    folders with such names are kinds of documents, and then files with numbers are called nothing else.
    """
    folders = {doc_id.rpartition("/")[0].rpartition("/")[2] for doc_id in doc_ids}
    plurals = [
        spell(one)
        for one in folders
        if is_plural(one) or (one.lower().endswith(_FOREIGN_PLURALS) and not is_everyday(one.lower()))
    ]
    noun = word_key(plurals[0]) if plurals and len(folders) == 1 else ""
    called = frozenset(map(word_key, plurals))
    if noun:
        own = {word_key([part]) for name in fields for part in parts(name)}
        called |= {word_key(plurals[0][-1:])}.union(*(each for each in _things() if each & called)) - own
        called |= _stems("people") - own if _stems("of_people") & own else set()
    numbered = "" if plurals else _numbered_as(doc_ids, fields, values)
    return noun or numbered, called | ({numbered} if numbered else set())


def _numbered_as(doc_ids: Sequence[str], fields: Iterable[str], values: Callable[[str], list[tuple[str, int]]]) -> str:
    """Return the stem of what numbered documents are called: `rule-12.md`, or 12.md with a field `rule: 12`."""
    found = [match for doc_id in doc_ids if (match := _NUMBERED.match(doc_id.rpartition("/")[2].lower()))]
    if len(found) < max(2, _MOST * len(doc_ids)):
        return ""
    prefixes, numbers = {match[1] for match in found}, {int(match[2]) for match in found}
    names = [name for name in fields if len(parts(name)) == 1 and name.lower() not in word_list("columns", "ids")]
    for name in names if prefixes == {""} else ():
        told = [str(value) for value, _ in values(name)]
        if all(map(str.isdecimal, told)) and len(numbers.intersection(map(int, told))) >= _MOST * len(doc_ids):
            return word_key([name.lower()])
    return word_key([next(iter(prefixes))]) if len(prefixes) == 1 else ""


@cache
def _things() -> list[frozenset[str]]:
    """Return the stems of words for the same things, by group."""
    return [frozenset(word_key([word]) for word in group.split()) for group in language("en")["fields"]["things"]]


@cache
def _stems(name: str) -> frozenset[str]:
    return frozenset(word_key([word]) for word in word_list("fields", name))


@cache
def _kinds() -> Phrases[str]:
    return Phrases(([noun], noun) for noun in word_list("fields", "kinds"))


def names_documents(value: str, name: str, role: FieldRole) -> bool:
    """Return whether a value names documents: "tutorials" of any field, "postmortem" of `doc_type`; of a category,
    which may be a folder named like a product, only a plural.

    >>> values = ("postmortem", "type"), ("sops", "category"), ("redis", "category")
    >>> [names_documents(*value, "kind") for value in values]
    [True, True, False]
    """
    named = bool(_kinds().find(spell(value)[-1:]))
    return named or (role == "kind" and (is_plural(value) or FOLDERS.isdisjoint(parts(name))))


@cache
def is_everyday(word: str) -> bool:
    """Return whether a word is a frequent one of English that names no kind of document.

    >>> [is_everyday(word) for word in ("data", "logs", "tutorials", "postmortem", "files")]
    [True, True, False, False, False]
    """
    if _kinds().find([word]) or word in word_list("words", "document"):
        return False
    return 1 in (_pieces().count_tokens(form) for form in (word, word.removesuffix("s")))


@cache
def _pieces() -> WordPieces:
    return WordPieces()


@lru_cache(maxsize=4096)
def word_stems(word: str) -> frozenset[str]:
    """Return the stems by which a word may be one of a field's name; of a rare word, those in other languages, too.

    >>> sorted(word_stems("prices")), sorted(word_stems("sitzen"))
    (['price'], ['sitz', 'sitzen'])
    """
    if word.isascii() and is_everyday(word):
        return frozenset({word_key((word,))})
    return frozenset({word_key((word,)), *(stem for language in LANGUAGES for stem in terms(word, language))})
