"""Text becomes terms: lower-cased words, stemmed by Snowball (English: Porter 2)."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import Stemmer

ANALYZER = "words-snowball-1"
"""Changes whenever any text would give other terms; with the language, part of an index's identity."""
UNSPACED = "unspaced-1"
"""Changes whenever texts in writing that parts no words would; part of the hash of such a document alone."""

DEFAULT_LANGUAGE = "english"
UNSTEMMED = "none"

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
# Chinese, Japanese and Korean letters: what is one word among them, no sign says.
_UNSPACED = re.compile(
    r"[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U000323af]+"
)
_local = threading.local()


def words(text: str) -> list[str]:
    """Words as they stand, lower-cased; an underscore parts words, as in `max_tokens`.

    >>> words("Rotate the API-key: max_tokens=5")
    ['rotate', 'the', 'api', 'key', 'max', 'tokens', '5']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


def is_unspaced(text: str) -> bool:
    """Return whether a text has writing that parts no words: Chinese, Japanese or Korean."""
    return _UNSPACED.search(text) is not None


def terms(text: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Index terms of a text, in order, with repeats; `language` is a Snowball stemmer's name, or `none`.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    >>> terms("Rotating keys", "none")
    ['rotating', 'keys']

    Of writing that parts no words, each letter and each pair of neighbours is a term.

    >>> terms("API数组的")
    ['api', '数', '数组', '组', '组的', '的']
    """
    found = words(text)
    if not is_unspaced(text):
        return [_stem(word, language) for word in found]
    return [term for word in found for term in _parts(word, language)]


def _parts(word: str, language: str) -> Iterator[str]:
    """Yield the terms of a word that may hold letters of both kinds of writing."""
    end = 0
    for run in _UNSPACED.finditer(word):
        if end < run.start():
            yield _stem(word[end : run.start()], language)
        letters, end = run.group(), run.end()
        for number, letter in enumerate(letters):
            yield letter
            if number + 1 < len(letters):
                yield letters[number : number + 2]
    if end < len(word):
        yield _stem(word[end:], language)


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
