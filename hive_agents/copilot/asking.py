"""The words of a question that tell what it is about, and their weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hive_agents.copilot.language import LANGUAGES, every_pattern, function_words, language as language_tables
from hive_agents.documents import found_words, terms
from hive_agents.index import ScopedIndex

FieldWeights = Mapping[str, float]
"""The weight of each content term of a question: higher where fewer of the reader's chunks have it, 0 where none."""

_OPENING = 400
"""Characters of a text that its language is determined by."""


def is_small(word: str) -> bool:
    """Return whether a word is a function word of any language."""
    return any(word.lower() in function_words(code) for code in LANGUAGES.values())


def content_terms(text: str, language: str) -> list[str]:
    """Return stemmed words in order, each once, without function words unless there are no others.

    >>> content_terms("How do I rotate the keys?", "english"), content_terms("Who is who?", "english")
    (['rotat', 'key'], ['who', 'is'])
    """
    return list(_content_terms(text, language))


@lru_cache(maxsize=1024)
def _content_terms(text: str, language: str) -> tuple[str, ...]:
    # Cached: a turn needs those of its question for each result.
    every = tuple(dict.fromkeys(terms(text, language)))
    function_terms = _function_terms(language, spoken_language(text, language))
    return tuple(term for term in every if term not in function_terms) or every


def asked_terms(question: str, language: str) -> list[str]:
    """Return the content terms of a question without the words that only give its kind.

    >>> asked_terms("How long is a key valid?", "english"), asked_terms("how many?", "english")
    (['key', 'valid'], ['how', 'mani'])
    """
    rest = every_pattern("form").sub(" ", question)
    function_terms = _function_terms(language, spoken_language(question, language))
    asked = [term for term in dict.fromkeys(terms(rest, language)) if term not in function_terms]
    return asked or content_terms(question, language)


def weights_in(index: ScopedIndex, question: str) -> FieldWeights:
    """Return the weights of a question's words in the documents that the reader may view."""
    asked = asked_terms(question, index.language)
    counts = index.frequencies(asked)
    n = index.n_chunks
    return {
        term: math.log(1 + (n - count + 0.5) / (count + 0.5)) if count else 0.0
        for term, count in zip(asked, counts, strict=True)
    }


@lru_cache(maxsize=4096)
def stemmed_words(text: str, language: str) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Return (start, end, stems) of each word; cached, since answer, excerpts and reasons read the same sentences."""
    return tuple((word.start(), word.end(), _stems(word[0], language)) for word in found_words(text))


@lru_cache(maxsize=4096)
def stems_in(text: str, language: str) -> frozenset[str]:
    """Return the stems of all words of a text."""
    distinct = {word[0] for word in found_words(text)}
    return frozenset(stem for word in distinct for stem in _stems(word, language))


@lru_cache(maxsize=16384)
def _stems(word: str, language: str) -> tuple[str, ...]:
    return tuple(terms(word, language))


@lru_cache(maxsize=32)
def _function_terms(index_language: str, spoken: str) -> frozenset[str]:
    """Return the function words of the index's language and the `spoken` one, stemmed as in the index."""
    codes = {LANGUAGES.get(index_language, "en"), spoken}
    return frozenset(term for code in codes for term in terms(language_tables(code)["function_words"], index_language))


@lru_cache(maxsize=4096)
def spoken_language(text: str, index_language: str) -> str:
    """Return the code of the language with most of a text's function words; the index's unless another has more.

    An index of one language may have documents and questions in another.
    """
    default = LANGUAGES.get(index_language, "en")
    opening = [word[0].lower() for word in found_words(text[:_OPENING])]
    counts = {code: sum(word in function_words(code) for word in opening) for code in LANGUAGES.values()}
    return max(counts, key=lambda code: (counts[code], code == default))


def language_of_most(texts: Sequence[str], index_language: str) -> str:
    """Return the index language that over half of these texts are in, else `index_language`.

    >>> language_of_most(["Der Hund ist im Garten.", "Die Katze und der Hund sind da.", "The dog."], "english")
    'german'
    """
    spoken = Counter(spoken_language(text, index_language) for text in texts)
    names = {code: name for name, code in LANGUAGES.items()}
    code, most = max(spoken.items(), key=lambda pair: pair[1], default=("", 0))
    keeps = index_language not in LANGUAGES or code == LANGUAGES[index_language]
    return index_language if keeps or most * 2 <= len(texts) else names[code]


def unnamed(question: str) -> str | None:
    """Return the pronoun of a question that refers to an earlier message; None without one.

    >>> unnamed("how long is it valid?"), unnamed("Is it possible to run it twice?"), unnamed("What time is it?")
    ('it', None, None)
    """
    pronoun = every_pattern("elliptic").search(question)
    if pronoun is None or every_pattern("expletive").search(question):
        return None
    before = telling_words(question[: pronoun.start()])
    ends = not question[pronoun.end() :].strip(" ?!.")
    if len(before) > (1 if ends else 0):  # at the end a verb may come before it: "who approves it?"
        return None
    return pronoun[0].strip(" ?!.")


def telling_words(text: str) -> list[str]:
    """Return the words of a text that are function words of no language, without those that give a question's kind."""
    rest = every_pattern("form").sub(" ", text)
    return [word[0] for word in found_words(rest) if not is_small(word[0])]
