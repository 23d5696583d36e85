"""What a question asks for: its words, how much each of them tells, and what would answer it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.copilot.language import (
    LANGUAGES,
    answer_alternatives,
    answer_pattern,
    function_words,
    language as language_tables,
    word_list,
)
from hive_agents.retrieval import ScopedIndex, found_words, terms

FieldWeights = Mapping[str, float]
"""How much each asked word tells: more where fewer chunks of the reader's have it, 0 where none has."""

_TELLS = {
    "who": ("person",),
    "how_long": ("span", "rhythm"),
    "when": ("span", "rhythm", "date"),
    "how_many": ("boundless", "counted"),
    "how_much": ("boundless",),
    "how_to": ("instruction",),
    "open": ("nothing",),
    "which": ("name",),
    "what": ("meaning",),
}
"""What a question asks for, the first counts, and what a sentence holds that tells it; figures tell how many, and no
one sentence surely tells why, or what something does."""
_PLAIN = frozenset({"who", "how_long", "when", "how_many", "how_much"})

_OPENING = 400
"""Characters of a text that tell its language."""


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
    """Return whether it is a word without content in any language."""
    return any(word.lower() in function_words(code) for code in LANGUAGES.values())


def content_terms(text: str, language: str) -> list[str]:
    """Return stemmed words in order, each once, without function words; all of them where there are no others.

    >>> content_terms("How do I rotate the keys?", "english"), content_terms("Who is who?", "english")
    (['rotat', 'key'], ['who', 'is'])
    """
    return list(_content_terms(text, language))


@lru_cache(maxsize=1024)
def _content_terms(text: str, language: str) -> tuple[str, ...]:
    """Return the same; a turn asks for those of its question wherever it shows why something was found."""
    found = tuple(dict.fromkeys(terms(text, language)))
    function_terms = _function_terms(language, spoken_language(text, language))
    return tuple(term for term in found if term not in function_terms) or found


def asked_terms(question: str, language: str) -> list[str]:
    """Return the content terms of a question without the words that only say what kind of thing it asks for.

    >>> asked_terms("How long is a key valid?", "english"), asked_terms("how many?", "english")
    (['key', 'valid'], ['how', 'mani'])
    """
    rest = answer_pattern("asks.form").sub(" ", question)
    found = list(dict.fromkeys(terms(rest, language)))
    function_terms = _function_terms(language, spoken_language(question, language))
    return [term for term in found if term not in function_terms] or content_terms(question, language)


def weights_in(index: ScopedIndex, question: str) -> FieldWeights:
    """Return the weights of a question's words in the documents that the reader may view."""
    asked = asked_terms(question, index.language)
    counts = index.frequencies(asked)
    n = index.n_chunks
    return {
        term: math.log(1 + (n - count + 0.5) / (count + 0.5)) if count else 0.0
        for term, count in zip(asked, counts, strict=True)
    }


def equal_weights(question: str, language: str) -> FieldWeights:
    """Return the weights of a question's words where nothing is known of the documents."""
    return dict.fromkeys(asked_terms(question, language), 1.0)


@lru_cache(maxsize=4096)
def stemmed_words(text: str, language: str) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Return (start, end, stems) of each word; a turn looks at the same sentences for answer, excerpts and reasons."""
    return tuple((word.start(), word.end(), _stems(word[0], language)) for word in found_words(text))


@lru_cache(maxsize=4096)
def stems_in(text: str, language: str) -> frozenset[str]:
    """Return the stems of all words of a text."""
    found = {word[0] for word in found_words(text)}
    return frozenset(stem for word in found for stem in _stems(word, language))


@lru_cache(maxsize=16384)
def _stems(word: str, language: str) -> tuple[str, ...]:
    return tuple(terms(word, language))


@lru_cache(maxsize=32)
def _function_terms(index_language: str, spoken: str) -> frozenset[str]:
    """Return those of the language that a text is in, and of the index's, as the index has them."""
    codes = {LANGUAGES.get(index_language, "en"), spoken}
    return frozenset(term for code in codes for term in terms(language_tables(code)["function_words"], index_language))


@lru_cache(maxsize=4096)
def spoken_language(text: str, index_language: str) -> str:
    """Return the language that most of a text's function words are of; the index's unless another has more of them.

    An index of one language may hold documents and questions of another, whose small words are as empty.
    """
    own = LANGUAGES.get(index_language, "en")
    said = [word[0].lower() for word in found_words(text[:_OPENING])]
    counts = {code: sum(word in function_words(code) for word in said) for code in LANGUAGES.values()}
    return max(counts, key=lambda code: (counts[code], code == own))


def language_of_most(texts: Sequence[str], index_language: str) -> str:
    """Return the language of an index that most of these texts would be searched better by: its own where none is.

    >>> language_of_most(["Der Hund ist im Garten.", "Die Katze und der Hund sind da.", "The dog."], "english")
    'german'
    """
    spoken = Counter(spoken_language(text, index_language) for text in texts)
    names = {code: name for name, code in LANGUAGES.items()}
    code, most = max(spoken.items(), key=lambda pair: pair[1], default=("", 0))
    known = index_language not in LANGUAGES or code == LANGUAGES[index_language]
    return index_language if known or most * 2 <= len(texts) else names[code]


def tells(question: str, sentence: str) -> bool | None:
    """Return whether the sentence holds what a who, when, how long or how many asks for; None where it asks for no
    such.

    >>> tells("How long is a link valid?", "A link works for 24 hours."), tells("Who signs?", "It is signed in ink.")
    (True, False)
    """
    kind = _kind(question)
    return None if kind is None else _holds(kind, sentence)


def as_bounded(question: str, sentence: str) -> bool:
    """Return whether a sentence speaks of a bound where the question asks for one, and denies something where that
    does.

    >>> as_bounded("how many seats at most?", "It has two seats."), as_bounded("how many?", "It has two.")
    (False, True)
    >>> as_bounded("how to restart without a loss?", "A restart loses data."), as_bounded("how?", "It doesn't.")
    (False, True)
    """
    return all(
        not answer_pattern(f"asks.{kind}").search(question) or answer_pattern(f"tells.{kind}").search(sentence)
        for kind in ("bound", "denial")
    )


def answer_has_form(question: str) -> bool:
    """Return whether the form of a sentence shows that it answers: not where is asked whether, where, why or what
    happens.

    >>> [answer_has_form(question) for question in ("Who signs?", "What is a lease?", "Is it signed?", "Where is it?")]
    [True, True, False, False]
    """
    polar = answer_pattern("asks.polar", r"^\W*(?:{})\b").search(question)
    return polar is None and _kind(question) not in (None, "open")


def asks_plainly(question: str) -> bool:
    """Return whether what is asked for can be told from other things by its form: a person, a time, a number."""
    return _kind(question) in _PLAIN


@lru_cache(maxsize=4096)
def _holds(kind: str, sentence: str) -> bool:
    """Return whether a sentence tells such a thing; a turn looks at the same ones for answer and excerpts."""
    return _telling(kind).search(sentence) is not None


@lru_cache(maxsize=256)
def _kind(question: str) -> str | None:
    return next((kind for kind in _TELLS if answer_pattern(f"asks.{kind}").search(question)), None)


@lru_cache(maxsize=16)
def _telling(kind: str) -> re.Pattern[str]:
    found = [answer_alternatives(f"tells.{name}") for name in _TELLS[kind]]
    if kind in ("how_many", "how_much"):
        # The digits of "F-101" are a name, and those of "step 2" a place.
        numbered = [word for code in LANGUAGES.values() for word in word_list("answers", "numbered", code)]
        found.append("".join(rf"(?<!\b{word}\ )" for word in numbered) + r"(?<![\w-])[~≤≥<>±€$£−-]?\d")
    return re.compile("|".join(found), re.I | re.X)


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
