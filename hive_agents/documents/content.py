"""The words of a question that say what it is about: those left without the function words of its language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files

from hive_agents.documents.analysis import exact_writings, found_words, language_of, terms

LANGUAGES = {"english": "en", "german": "de", "french": "fr", "spanish": "es"}
"""The code of each language whose function words are known."""
BOILERPLATE_SHARE, BOILERPLATE_DOCUMENTS = 0.2, 10
"""A line is boilerplate when more than this share, and more than this number, of the documents have it."""
BOILERPLATE_WORDS = 5
"""Shorter lines are labels that documents of a kind have in common."""
_OPENING = 400
"""Characters of a text that its language is determined by."""


@cache
def _function_words() -> Mapping[str, str]:
    import tomllib

    return tomllib.loads((files(__package__) / "function_words.toml").read_text("utf-8"))


@cache
def function_words(code: str) -> frozenset[str]:
    """Return the words of a language that carry no meaning in a question."""
    return frozenset(_function_words()[code].split())


def is_small(word: str) -> bool:
    """Return whether a word is a function word of any language."""
    return any(word.lower() in function_words(code) for code in LANGUAGES.values())


def content_terms(text: str, analyzer: str) -> list[str]:
    """Return the terms of the words in order, each once, without function words unless there are no others.

    >>> content_terms("How do I rotate the keys?", "english"), content_terms("Who is who?", "english")
    (['rotat', 'key'], ['who', 'is'])
    """
    return list(_content_terms(text, analyzer))


@lru_cache(maxsize=1024)
def _content_terms(text: str, analyzer: str) -> tuple[str, ...]:
    # Cached: a turn needs those of its question for each result.
    every = tuple(dict.fromkeys(word_terms(text, analyzer)))
    small = function_terms(analyzer, spoken_language(text, analyzer))
    return tuple(term for term in every if term not in small) or every


def word_terms(text: str, analyzer: str) -> list[str]:
    """Return the terms of each word of a text by itself: none of those that join several words."""
    return [term for _, _, found in stemmed_words(text, analyzer) for term in found]


@lru_cache(maxsize=4096)
def stemmed_words(text: str, analyzer: str) -> tuple[tuple[int, int, tuple[str, ...]], ...]:
    """Return (start, end, terms) of each word; cached, since answer, excerpts and reasons read the same sentences."""
    return tuple((word.start(), word.end(), _terms(word[0], analyzer)) for word in found_words(text))


@lru_cache(maxsize=4096)
def stems_in(text: str, analyzer: str) -> frozenset[str]:
    """Return the terms of all words of a text, and of its exact writings."""
    distinct = {word[0] for word in found_words(text)}
    found = (term for word in distinct for term in _terms(word, analyzer))
    return frozenset(found).union(exact_writings(text, analyzer))


@lru_cache(maxsize=16384)
def _terms(word: str, analyzer: str) -> tuple[str, ...]:
    return tuple(terms(word, analyzer))


@lru_cache(maxsize=32)
def function_terms(analyzer: str, spoken: str) -> frozenset[str]:
    """Return the function words of the analyzer's language and the `spoken` one, as terms of the index."""
    codes = {LANGUAGES.get(language_of(analyzer), "en"), spoken}
    return frozenset(term for code in codes for term in terms(_function_words()[code], analyzer))


@lru_cache(maxsize=4096)
def spoken_language(text: str, analyzer: str) -> str:
    """Return the code of the language with most of a text's function words; the index's unless another has more.

    An index of one language may have documents and questions in another.
    """
    default = LANGUAGES.get(language_of(analyzer), "en")
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
