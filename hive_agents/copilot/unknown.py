"""The words of a question that no document of the reader's has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from hive_agents.copilot.asking import asked_terms
from hive_agents.copilot.language import LANGUAGES, Word, function_words, word_list, words
from hive_agents.copilot.router import without_politeness
from hive_agents.copilot.sentence import EMPTY
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.retrieval import ScopedIndex, terms

MOST_TOLD = 5
LEAST_SHARE = 4
"""One in so many words of a question has to be unknown: what somebody did before lunch may well stand nowhere."""
SHORTEST_PART = 4
"""Letters of a part of a compound."""
_ENDINGS = ("", "s", "es", "e", "n", "en", "er", "em", "ern")
"""What a stemmer of another language leaves on a word."""
_JOINTS = ("", "s", "es", "n", "en", "-")
"""What German puts between the parts of a compound."""


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
    return not all(known.frequencies(terms(word.text, known.language)))


def _is_empty(word: str) -> bool:
    """Whether a word says nothing about what is looked for, in any language."""
    return word in EMPTY or word in _empty_words() or any(word in function_words(code) for code in LANGUAGES.values())


@cache
def _empty_words() -> frozenset[str]:
    return frozenset().union(*(word_list("answers", "empty", code) for code in LANGUAGES.values()))


def _is_made_of_known(word: str, known: ScopedIndex) -> bool:
    """Whether documents have the word with another ending, or both parts of a compound."""
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
