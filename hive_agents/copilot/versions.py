"""The version that a question asks about, where no document of the reader's is of it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from hive_agents.copilot.language import at, word_list, words
from hive_agents.copilot.router import without_politeness
from hive_agents.copilot.sentence import ABOUT, ARTICLES, Sentence, SentenceKind
from hive_agents.copilot.vocabulary import Vocabulary, role_of
from hive_agents.retrieval import ScopedIndex

_Version = tuple[int, ...]

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
_WRITTEN = re.compile(r"(?<![^\W_])(?:v\d{1,9}(?:\.\d{1,9})*|\d{1,9}(?:\.\d{1,9})+)(?![^\W_])", re.I)
"""A version in a title or a path: a number without a dot or a v may be anything there."""
_MOST_PARTS = 3
"""Numbers of a version that is named nowhere as one: four of them are an address."""

_named: WeakKeyDictionary[ScopedIndex, tuple[frozenset[_Version], frozenset[_Version]]] = WeakKeyDictionary()


def unknown_version(
    known: ScopedIndex, vocabulary: Vocabulary, question: str, shown: Iterable[str], *, today: datetime.date
) -> str | None:
    """Return the version that a question asks about and no document is of, as the reader wrote it.

    `known` holds what the reader may view for certain; `shown` are texts that passed the gate: one that has the version
    may answer. None where no document names a version, as its field, in its title or its path, and where the question
    names several. Documents of v3 may be of 3.7, too, and those of 3.7 of 3.7.2; but where documents have a field for
    it, one called "from v2 to v3" isn't of 2.11.
    """
    plain, named = without_politeness(question), word_list("fields.versions", "named")
    spoken = words(plain)
    places = [n for n, word in enumerate(spoken) if _is_version(word.lower, is_named=at(spoken, n - 1) in named)]
    if len(places) != 1:
        return None
    s = Sentence(plain, vocabulary, today)
    place, word = places[0], s.words[places[0]]
    written = word.lower.startswith("v") or s.at(place - 1) in named or place - 1 in s.inside
    if not written or word.quoted or s.kind is SentenceKind.DEFINITION or s.version_lead(place, place) is None:
        return None
    if s.at(s.back(place, ARTICLES, named)) in ABOUT - {"on"}:
        return None
    if _is_there(_parts(word.lower), *_versions_of(known, vocabulary)):
        return None
    mentioned = re.compile(rf"(?<![\w.])v?{re.escape(word.lower.removeprefix('v'))}(?!\w|\.\d)", re.I)
    return None if any(map(mentioned.search, shown)) else word.text


def _is_version(word: str, *, is_named: bool) -> bool:
    """
    >>> [_is_version(word, is_named=False) for word in ("v9.9", "v9", "9.9", "9", "10.0.0.1", "vat")]
    [True, True, True, False, False, False]
    """
    number = word.removeprefix("v")
    parts = number.split(".")
    plain = word == number and not is_named
    return bool(_NUMBER.fullmatch(number)) and not (plain and not 1 < len(parts) <= _MOST_PARTS)


def _is_there(asked: _Version, fields: frozenset[_Version], names: frozenset[_Version]) -> bool:
    """Whether documents are of a version, or none is of any.

    >>> _is_there((2, 11), frozenset({(2,)}), frozenset()), _is_there((2, 11), frozenset({(3,)}), frozenset({(2,)}))
    (True, False)
    """
    covering = fields or names
    found = any(asked[: len(one)] == one for one in covering)
    return found or not covering or any(one[: len(asked)] == asked for one in fields | names)


def _versions_of(known: ScopedIndex, vocabulary: Vocabulary) -> tuple[frozenset[_Version], frozenset[_Version]]:
    """Return the versions in fields of documents, and those in titles and paths; kept as long as the scope."""
    found = _named.get(known)
    if found is None:
        fields = [name for name in vocabulary.fields if role_of(name) == "version"]
        values = " ".join(str(value) for name in fields for value, _ in known.values(name))
        titles = "\n".join(f"{doc_id}\n{title}" for doc_id, title, _ in known.documents())
        numbers = _NUMBER.findall(values), _WRITTEN.findall(titles)
        found = _named[known] = frozenset(map(_parts, numbers[0])), frozenset(map(_parts, numbers[1]))
    return found


def _parts(version: str) -> _Version:
    """
    >>> _parts("v2.11"), _parts("2.0")
    ((2, 11), (2, 0))
    """
    return tuple(int(part) for part in version.lower().removeprefix("v").split("."))
