"""Text becomes terms: lower-cased words, stemmed by Snowball (English: Porter 2)."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import Stemmer

ANALYZER = "words-snowball-1"
"""Changes whenever the same text would give other terms; with the language, part of an index's identity."""

DEFAULT_LANGUAGE = "english"
UNSTEMMED = "none"

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_local = threading.local()


def words(text: str) -> list[str]:
    """Words as they stand, lower-cased; an underscore parts words, as in `max_tokens`.

    >>> words("Rotate the API-key: max_tokens=5")
    ['rotate', 'the', 'api', 'key', 'max', 'tokens', '5']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def terms(text: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Index terms of a text, in order, with repeats; `language` is a Snowball stemmer's name, or `none`.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    >>> terms("Rotating keys", "none")
    ['rotating', 'keys']
    """
    return [_stem(word, language) for word in words(text)]


def languages() -> list[str]:
    """What `index.language` may be."""
    import Stemmer

    return sorted([*Stemmer.algorithms(), UNSTEMMED])


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    plain = word.replace("’", "'")
    return plain if language == UNSTEMMED else str(_stemmer(language).stemWord(plain))


def _stemmer(language: str) -> Stemmer.Stemmer:
    # PyStemmer objects are not safe to share between threads.
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        import Stemmer

        stemmers[language] = Stemmer.Stemmer(language, 0)
    return stemmers[language]
