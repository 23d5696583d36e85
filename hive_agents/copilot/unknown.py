"""Parts of a question that no document has: mistyped words, unknown words, and an unknown version."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from weakref import WeakKeyDictionary

from hive_agents.copilot.asking import asked_terms
from hive_agents.copilot.forms import unaccented, version_parts
from hive_agents.copilot.language import at, word_list, words
from hive_agents.copilot.roles import role_of
from hive_agents.copilot.router import without_politeness
from hive_agents.copilot.sentence import ABOUT, ARTICLES, EMPTY, QUESTION, Sentence, SentenceKind
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents import (
    LANGUAGES,
    content_terms,
    function_words,
    language_of,
    spoken_language,
    terms,
)
from hive_agents.index import BM25Params, ScopedIndex
from hive_agents.models.embedding import WordPieces

SHORTEST, LONGEST = 5, 24
"""Letters of a word that is corrected."""
LONG = 8
"""Letters from which a word rarely becomes another word by the change of one letter."""
MOST_MENDED = 50
"""Words that corrections are looked for, the first of a text: each costs some hundred look-ups."""
MOST_READ = 20
"""Passages that a correction is looked for in, letter for letter."""
_VOCABULARY = WordPieces()
"""Splits words that aren't frequent ones of English into pieces."""
_SPELLINGS = (("our", "or"), ("([iy])s(?=e|ing|ation)", r"\1z"), ("tre$", "ter"), ("nc(?=e)", "ns"), ("ll", "l"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_VERSION_SIGN = re.compile(r"^[vV](?=\d)")

MOST_TOLD = 5
LEAST_SHARE = 4
"""One in so many words of a question has to be unknown: a long story has details that are in no document."""
SHORTEST_PART = 4
"""Letters of a part of a compound."""
LONGEST_COMPOUND = 80
"""Letters of a compound: each place of a longer word would be tried, at the cost of its length."""
_ENDINGS = ("", "s", "es", "e", "n", "en", "er", "em", "ern")
"""Endings that a stemmer of another language leaves on a word."""
_JOINTS = ("", "s", "es", "n", "en", "-")
"""Linking elements between the parts of German compounds."""

_Version = tuple[int, ...]

_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
_WRITTEN = re.compile(r"(?<![^\W_])(?:v\d{1,9}(?:\.\d{1,9})*|\d{1,9}(?:\.\d{1,9})+)(?![^\W_])", re.I)
"""A version in a title or a path, with a dot or a v: a plain number may be anything there."""
_MOST_PARTS = 3
"""Numbers of a version without a v or "version" before it: four of them are an address."""

_named: WeakKeyDictionary[ScopedIndex, tuple[frozenset[_Version], frozenset[_Version]]] = WeakKeyDictionary()


def corrections(index: ScopedIndex, text: str) -> dict[str, str]:
    """Return the words of a text that no document has, each with the document's word that was probably meant.

    One letter is missing, superfluous, replaced or swapped with its neighbour, but not the first, nor the last unless
    swapped: such a change more often makes another word. Of several words the most frequent is taken. Names, figures,
    quotations and frequent English words are not corrected, except for variant spellings: licence, license. Without a
    list of words of other languages, their short words are corrected only where two letters are swapped. Of a long text
    the first `MOST_MENDED` words that no document has are looked at.
    """
    content = set(content_terms(text, index.language))
    is_foreign = spoken_language(text, index.language) != "en"
    corrected: dict[str, str] = {}
    tried: set[str] = set()
    for word in words(text):
        stems = terms(word.text, index.language)
        written = SHORTEST <= len(word.text) <= LONGEST and word.text.isalpha() and word.text[1:].islower()
        if word.quoted or not written or not content.issuperset(stems) or _known(index, stems):
            continue
        if word.text in tried or len(tried) == MOST_MENDED:
            continue
        tried.add(word.text)
        variants = list(dict.fromkeys(_one_letter_away(word.lower)))
        if is_foreign and len(word.text) < LONG:
            variants = [variant for variant in variants if sorted(variant) == sorted(word.lower)]
        if _VOCABULARY.count_tokens(word.lower) == 1:
            variants = [variant for variant in variants if _spelled_alike(variant) == _spelled_alike(word.lower)]
        if not variants:
            continue
        counts = _frequencies(index, variants)
        likely = sorted(filter(counts.__getitem__, range(len(variants))), key=counts.__getitem__, reverse=True)
        meant = next(filter(None, (_written(index, variants[n]) for n in likely)), None)
        if meant is not None:
            corrected[word.text] = meant
    return corrected


def _written(index: ScopedIndex, word: str) -> str | None:
    """Return a word as documents write it, with its accents, or as it is where it is a frequent one of English.

    None where documents have only other words of its stem: then it may be no word at all.
    """
    best = index.keyword(word, MOST_READ, BM25Params(), None).chunks
    for row in index.rows([int(chunk) for chunk in best]):
        for one in words(f"{row.title} {row.heading} {row.text}"):
            if unaccented(one.lower) == unaccented(word):
                return one.lower
    return word if _VOCABULARY.count_tokens(word) == 1 else None


def still_known(index: ScopedIndex, corrected: Mapping[str, str]) -> bool:
    """Return whether every corrected word is in a document that the reader may view now."""
    return all(_known(index, terms(word, index.language)) for word in corrected.values())


def mended(text: str, corrected: Mapping[str, str]) -> str:
    """Return the text with the words in `corrected` replaced.

    >>> mended("Rotate a tokne, please", {"tokne": "token"})
    'Rotate a token, please'
    """
    for wrong, right in corrected.items():
        text = re.sub(rf"\b{re.escape(wrong)}\b", right, text)
    return text


def _spelled_alike(word: str) -> str:
    """Return a common form of the British and the American spelling of a word.

    >>> [_spelled_alike(word) for word in ("licence", "license", "colours", "colors", "organise", "centre")]
    ['license', 'license', 'colors', 'colors', 'organize', 'center']
    """
    for british, american in _SPELLINGS:
        word = re.sub(british, american, word)
    return word


def _known(index: ScopedIndex, stems: list[str]) -> bool:
    return all(index.frequencies(stems))


def _one_letter_away(word: str) -> Iterator[str]:
    """Yield the words at one edit inside this one; those with two letters swapped first."""
    inside = range(1, len(word) - 1)
    yield from (word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in inside)
    yield from (word[:n] + word[n + 1 :] for n in inside)
    yield from (word[:n] + letter + word[n:] for n in range(1, len(word)) for letter in _LETTERS)
    yield from (word[:n] + letter + word[n + 1 :] for n in inside for letter in _LETTERS if letter != word[n])


def unknown_words(known: ScopedIndex, vocabulary: Vocabulary, question: str, shown: Iterable[str]) -> list[str]:
    """Return the question's words that no document has, as the reader wrote them, at most `MOST_TOLD`.

    `known` holds what the reader may certainly view, so that words of hidden documents are unknown; `shown` are texts
    that passed the gate. Other forms of known words, compounds of them, parts of a shown word, values of filters and
    words without content don't count; nor do few words of a long question, unless they are abbreviations.
    """
    plain = without_politeness(question)
    asked = set(asked_terms(plain, known.language))
    content = [word for word in words(plain) if asked.intersection(terms(word.text, known.language))]
    # 4.1 counts for v4.1.
    forms = ((word, {word.text, _VERSION_SIGN.sub("", word.text)}) for word in content)
    missing = [word for word, texts in forms if not any(_stands(known, text) for text in texts)]
    if not missing:
        return []
    texts = " ".join(shown).lower()
    unknown = [
        word.text
        for word in missing
        if not _is_empty(word.lower)
        and not (len(word.lower) >= SHORTEST_PART and word.lower in texts)
        and not vocabulary.meanings([word.lower])
        and not _is_made_of_known(word.lower, known)
    ]
    if len(unknown) * LEAST_SHARE < len(content):
        unknown = [word for word in unknown if word.isupper() and len(word) > 1]
    return list(dict.fromkeys(unknown))[:MOST_TOLD]


def _stands(known: ScopedIndex, text: str) -> bool:
    """Return whether documents have a word as it is written, or in all its other writings: café as cafe."""
    written = terms(text, language_of(known.language))
    others = terms(text, known.language)[len(written) :]
    return all(known.frequencies(written)) or (bool(others) and all(known.frequencies(others)))


def _is_empty(word: str) -> bool:
    """Return whether a word has no content in any language."""
    return word in EMPTY or word in _empty_words() or any(word in function_words(code) for code in LANGUAGES.values())


@cache
def _empty_words() -> frozenset[str]:
    return frozenset().union(*(word_list("asked", "empty", code) for code in LANGUAGES.values()))


def _is_made_of_known(word: str, known: ScopedIndex) -> bool:
    """Return whether documents have the word with another ending, or both of its parts."""
    if len(word) > LONGEST_COMPOUND:
        return False
    forms = list(_forms(word))
    if any(_frequencies(known, forms)):
        return True
    places = range(SHORTEST_PART, len(word) - SHORTEST_PART + 1)
    parts = [(word[:n].removesuffix(joint), word[n:]) for n in places for joint in _JOINTS if word[:n].endswith(joint)]
    parts = [(left, right) for left, right in parts if len(left) >= SHORTEST_PART]
    counts = _frequencies(known, [left for left, _ in parts])
    rights = [right for (_, right), count in zip(parts, counts, strict=True) if count]
    return any(_frequencies(known, [form for right in rights for form in _forms(right)]))


def _forms(word: str) -> Iterator[str]:
    """Yield a word with each ending, for each way to split off its own."""
    for own in _ENDINGS:
        stem = word.removesuffix(own)
        if word.endswith(own) and len(stem) >= SHORTEST_PART:
            yield from (stem + ending for ending in _ENDINGS)


def _frequencies(known: ScopedIndex, forms: Sequence[str]) -> list[int]:
    """Return how many chunks have each word; 0 for those that aren't one term."""
    stemmed = [terms(word, known.language) for word in forms]
    return known.frequencies([stems[0] if len(stems) == 1 else "" for stems in stemmed])


def unknown_version(
    known: ScopedIndex, vocabulary: Vocabulary, question: str, shown: Iterable[str], *, today: datetime.date
) -> str | None:
    """Return the version that a question asks about and that no document is of, as the reader wrote it.

    `known` holds what the reader may certainly view; `shown` are texts that passed the gate: one with the version may
    answer. None where no document has a version in a field, its title or its path, and where the question names
    several. Documents of v3 also cover 3.7, and those of 3.7 cover 3.7.2; but where fields have versions, one titled
    "from v2 to v3" doesn't cover 2.11.
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
    """Return whether a word is a version; `is_named` tells whether "version" or the like is before it.

    >>> [_is_version(word, is_named=False) for word in ("v9.9", "v9", "9.9", "9", "10.0.0.1", "vat")]
    [True, True, True, False, False, False]
    """
    number = word.removeprefix("v")
    parts = number.split(".")
    plain = word == number and not is_named
    return bool(_NUMBER.fullmatch(number)) and not (plain and not 1 < len(parts) <= _MOST_PARTS)


def _is_there(asked: _Version, fields: frozenset[_Version], names: frozenset[_Version]) -> bool:
    """Return whether documents cover a version, or none has any version.

    >>> _is_there((2, 11), frozenset({(2,)}), frozenset()), _is_there((2, 11), frozenset({(3,)}), frozenset({(2,)}))
    (True, False)
    """
    covering = fields or names
    covered = any(asked[: len(version)] == version for version in covering)
    return covered or not covering or any(version[: len(asked)] == asked for version in fields | names)


def _versions_of(known: ScopedIndex, vocabulary: Vocabulary) -> tuple[frozenset[_Version], frozenset[_Version]]:
    """Return the versions in fields of documents, and those in titles and paths; cached for each scope."""
    versions = _named.get(known)
    if versions is None:
        fields = [name for name in vocabulary.fields if role_of(name) == "version"]
        values = " ".join(str(value) for name in fields for value, _ in known.values(name))
        titles = "\n".join(f"{doc_id}\n{title}" for doc_id, title, _ in known.documents())
        numbers = _NUMBER.findall(values), _WRITTEN.findall(titles)
        versions = _named[known] = frozenset(map(version_parts, numbers[0])), frozenset(map(version_parts, numbers[1]))
    return versions
