"""Text becomes terms: lower-cased words, stemmed by English Snowball (Porter 2)."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import Stemmer

ANALYZER = "words-snowball-english-1"
"""Changes whenever the same text would give other terms; part of an index's identity."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_local = threading.local()


def words(text: str) -> list[str]:
    """Words as they stand, lower-cased; an underscore parts words, as in `max_tokens`.

    >>> words("Rotate the API-key: max_tokens=5")
    ['rotate', 'the', 'api', 'key', 'max', 'tokens', '5']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def terms(text: str) -> list[str]:
    """Index terms of a text, in order, with repeats.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    """
    return [_stem(word) for word in words(text)]


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word.replace("’", "'")))


def _stemmer() -> Stemmer.Stemmer:
    # PyStemmer objects are not safe to share between threads.
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:
        import Stemmer

        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    return stemmer
