"""What of a question no document of the reader's has: mistyped words, unknown ones, and an unknown version."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from weakref import WeakKeyDictionary

from hive_agents.copilot.asking import asked_terms, content_terms, spoken_language
from hive_agents.copilot.language import LANGUAGES, Word, at, function_words, word_list, words
from hive_agents.copilot.router import without_politeness
from hive_agents.copilot.sentence import ABOUT, ARTICLES, EMPTY, QUESTION, Sentence, SentenceKind
from hive_agents.copilot.vocabulary import Vocabulary, role_of, version_parts
from hive_agents.retrieval import ScopedIndex, WordPieces, terms

SHORTEST, LONGEST = 5, 24
"""Letters of a word in which one may be wrong."""
LONG = 8
"""Letters of a word that is hardly another one with one letter changed."""
_VOCABULARY = WordPieces()
"""Splits what isn't a frequent word of English into pieces."""
_SPELLINGS = (("our", "or"), ("([iy])s(?=e|ing|ation)", r"\1z"), ("tre$", "ter"), ("nc(?=e)", "ns"), ("ll", "l"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_VERSION_SIGN = re.compile(r"^[vV](?=\d)")

MOST_TOLD = 5
LEAST_SHARE = 4
"""One in so many words of a question has to be unknown: what somebody did before lunch may well stand nowhere."""
SHORTEST_PART = 4
"""Letters of a part of a compound."""
_ENDINGS = ("", "s", "es", "e", "n", "en", "er", "em", "ern")
"""What a stemmer of another language leaves on a word."""
_JOINTS = ("", "s", "es", "n", "en", "-")
"""What German puts between the parts of a compound."""

_Version = tuple[int, ...]

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
_WRITTEN = re.compile(r"(?<![^\W_])(?:v\d{1,9}(?:\.\d{1,9})*|\d{1,9}(?:\.\d{1,9})+)(?![^\W_])", re.I)
"""A version in a title or a path: a number without a dot or a v may be anything there."""
_MOST_PARTS = 3
"""Numbers of a version that is named nowhere as one: four of them are an address."""

_named: WeakKeyDictionary[ScopedIndex, tuple[frozenset[_Version], frozenset[_Version]]] = WeakKeyDictionary()


def corrections(index: ScopedIndex, text: str) -> dict[str, str]:
    """Return the words of a text that no document has, each with the word of the documents that was surely meant.

    One letter is missing, too many, another one or swapped with its neighbour, but not the first, nor the last unless
    swapped: a change there makes another word more often than it mends one. Of several words the most frequent is
    taken. Names, figures, what stands in quotes, and words of the language are left alone: who asks for bread where
    documents speak of a broad band asks for something else; but who asks for a licence wants a license, too. Of other
    languages than English no list of words is at hand: in a short word of theirs two letters may be swapped.
    """
    content = set(content_terms(text, index.language))
    is_foreign = spoken_language(text, index.language) != "en"
    found: dict[str, str] = {}
    for word in words(text):
        stems = terms(word.text, index.language)
        if word.quoted or not _may_be_wrong(word.text) or not content.issuperset(stems) or _known(index, stems):
            continue
        variants = list(dict.fromkeys(_one_letter_away(word.lower)))
        if is_foreign and len(word.text) < LONG:
            variants = [variant for variant in variants if sorted(variant) == sorted(word.lower)]
        if _VOCABULARY.count_tokens(word.lower) == 1:
            variants = [variant for variant in variants if _spelled_alike(variant) == _spelled_alike(word.lower)]
        if not variants:
            continue
        stemmed = [terms(variant, index.language) for variant in variants]
        counts = index.frequencies([stem[0] if len(stem) == 1 else "" for stem in stemmed])
        best = max(range(len(variants)), key=lambda n: counts[n])
        if counts[best]:
            found[word.text] = variants[best]
    return found


def still_known(index: ScopedIndex, corrected: Mapping[str, str]) -> bool:
    """Return whether every word that mended another stands in a document that the reader may view now."""
    return all(_known(index, terms(word, index.language)) for word in corrected.values())


def mended(text: str, corrected: Mapping[str, str]) -> str:
    """Return the text with each of the words replaced.

    >>> mended("Rotate a tokne, please", {"tokne": "token"})
    'Rotate a token, please'
    """
    for wrong, right in corrected.items():
        text = re.sub(rf"\b{re.escape(wrong)}\b", right, text)
    return text


def _may_be_wrong(word: str) -> bool:
    return SHORTEST <= len(word) <= LONGEST and word.isalpha() and word[1:].islower()


def _spelled_alike(word: str) -> str:
    """Return what the spellings of a word on both sides of the Atlantic have in common.

    >>> [_spelled_alike(word) for word in ("licence", "license", "colours", "colors", "organise", "centre")]
    ['license', 'license', 'colors', 'colors', 'organize', 'center']
    """
    for here, there in _SPELLINGS:
        word = re.sub(here, there, word)
    return word


def _known(index: ScopedIndex, stems: list[str]) -> bool:
    return all(index.frequencies(stems))


def _one_letter_away(word: str) -> Iterator[str]:
    """Yield the words that one letter turns this one into; those with the same letters first."""
    inside = range(1, len(word) - 1)
    yield from (word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in inside)
    yield from (word[:n] + word[n + 1 :] for n in inside)
    yield from (word[:n] + letter + word[n:] for n in range(1, len(word)) for letter in _LETTERS)
    yield from (word[:n] + letter + word[n + 1 :] for n in inside for letter in _LETTERS if letter != word[n])


def unknown_words(known: ScopedIndex, vocabulary: Vocabulary, question: str, shown: Iterable[str]) -> list[str]:
    """Return the question's words that no document has, as the reader wrote them, at most `MOST_TOLD`.

    `known` holds what the reader may view for certain, so that a word of hidden documents is one of none; `shown` are
    texts that passed the gate. A word in another form, a compound of known words, a part of one that is shown, a
    filter's value and what says nothing by itself are none; nor are few words of a long story, unless they are
    abbreviations.
    """
    plain = without_politeness(question)
    asked = set(asked_terms(plain, known.language))
    telling = [word for word in words(plain) if asked.intersection(terms(word.text, known.language))]
    missing = [word for word in telling if _is_missing(word, known)]
    if not missing:
        return []
    texts = " ".join(shown).lower()
    told = [
        word.text
        for word in missing
        if not _is_empty(word.lower)
        and not (len(word.lower) >= SHORTEST_PART and word.lower in texts)
        and not vocabulary.meanings([word.lower])
        and not _is_made_of_known(word.lower, known)
    ]
    if len(told) * LEAST_SHARE < len(telling):
        told = [word for word in told if word.isupper() and len(word) > 1]
    return list(dict.fromkeys(told))[:MOST_TOLD]


def _is_missing(word: Word, known: ScopedIndex) -> bool:
    """Return whether no document has the word; one that has the version 4.1 has v4.1."""
    text = _VERSION_SIGN.sub("", word.text)
    return not all(known.frequencies(terms(word.text, known.language))) and (
        text == word.text or not all(known.frequencies(terms(text, known.language)))
    )


def _is_empty(word: str) -> bool:
    """Return whether a word says nothing about what is looked for, in any language."""
    return word in EMPTY or word in _empty_words() or any(word in function_words(code) for code in LANGUAGES.values())


@cache
def _empty_words() -> frozenset[str]:
    return frozenset().union(*(word_list("answers", "empty", code) for code in LANGUAGES.values()))


def _is_made_of_known(word: str, known: ScopedIndex) -> bool:
    """Return whether documents have the word with another ending, or both parts of a compound."""
    forms = list(_forms(word))
    if any(_frequencies(known, forms)):
        return True
    places = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
    parts = [(word[:n].removesuffix(joint), word[n:]) for n in places for joint in _JOINTS if word[:n].endswith(joint)]
    parts = [(left, right) for left, right in parts if len(left) >= SHORTEST_PART]
    left = _frequencies(known, [left for left, _ in parts])
    found = [right for (_, right), count in zip(parts, left, strict=True) if count]
    return any(_frequencies(known, [form for right in found for form in _forms(right)]))


def _forms(word: str) -> Iterator[str]:
    """Yield a word with other endings than its own."""
    for own in _ENDINGS:
        stem = word.removesuffix(own)
        if word.endswith(own) and len(stem) >= SHORTEST_PART:
            yield from (stem + ending for ending in _ENDINGS)


def _frequencies(known: ScopedIndex, found: Sequence[str]) -> list[int]:
    stemmed = [terms(word, known.language) for word in found]
    return known.frequencies([stems[0] if len(stems) == 1 else "" for stems in stemmed])


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
    before = s.back(place, ARTICLES, named)
    if s.at(before) in ABOUT - {"on"} and s.at(before - 1) not in QUESTION:  # "what about v9.9" goes on from before
        return None
    if _is_there(version_parts(word.lower), *_versions_of(known, vocabulary)):
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
    """Return whether documents are of a version, or none is of any.

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
        found = _named[known] = frozenset(map(version_parts, numbers[0])), frozenset(map(version_parts, numbers[1]))
    return found
