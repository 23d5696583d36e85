"""Text analysis: words, which become index terms, lower-cased and stemmed by Snowball (English: Porter 2).

Also the removal of marks that sites and note-takers add to Markdown: names for links, wiki links, containers.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import Stemmer

ANALYZER = "words-snowball-1"
"""Raise it when any text gets other terms; with the language, part of an index's identity."""
SPECIAL_WRITING = "unspaced-1 marks-1"
"""Raise it when only texts in scripts with marks or without spaces do; part of the hash of such documents only."""

DEFAULT_LANGUAGE = "english"
UNSTEMMED = "none"


def _marks() -> str:
    """Return the combining marks of letters, and the joiners between two letters, as a regex character set."""
    # Marks of symbols, such as a keycap's, and variation selectors are outside these ranges.
    codes = chain(range(0x300, 0x1B00), range(0xA000, 0xAC00), range(0x11000, 0x12000))
    return "".join(chr(code) for code in codes if unicodedata.category(chr(code))[0] == "M") + _JOINERS


_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
# `\\w` has no vowel signs or tone marks, so that it would split words of Hindi or Thai.
_MARK = re.compile(f"[{_marks()}]")
_MARKED_WORD = re.compile(rf"[^\W_](?:[^\W_]|{_MARK.pattern})*(?:['’][^\W\d_](?:[^\W\d_]|{_MARK.pattern})*)?")
# Chinese, Japanese and Korean characters: no spaces between words.
_SIGNS = (
    r"[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U000323af]"
)
# Thai, Lao, Burmese and Khmer letters and digits: no spaces either.
_LETTERS = r"[\u0e01-\u0e4e\u0e80-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3]"
_UNSPACED = re.compile(rf"(?P<signs>{_SIGNS}+)|{_LETTERS}+")
# A consonant with the vowel before it, its marks, a consonant stacked below and the vowels after it.
_CLUSTER = re.compile(
    rf"[\u0e40-\u0e44\u0ec0-\u0ec4]?.{_MARK.pattern}*(?:(?<=[\u1039\u17d2]).{_MARK.pattern}*)*"
    r"[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]?"
)
_WITHOUT_JOINERS = dict.fromkeys(map(ord, _JOINERS))
_local = threading.local()

_LINK_NAME = re.compile(r"\s*\{\s*#[\w-][^{}]*\}\s*$")
_WIKI_LINK = re.compile(r"!?\[\[(?P<page>[^\[\]|]+)(?:\|(?P<alias>[^\[\]]+))?\]\]")
_CONTAINER = re.compile(r"^:{3,}[ \t]*[\w-]*[ \t]*")
_CALLOUT = re.compile(r"^(?P<quote>>\s?)?\[!\w+\][-+]?[ \t]*")
_REFERENCE = re.compile(r"(?<![\w\])\\])!?\[(?!\d+\])([^\[\]]+)\]\[[^\[\]]*\]")
_ATTACHED = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|pdf|mp[34]|webm|ogg|canvas)$", re.I)


def words(text: str) -> list[str]:
    """Return the words of a text, lower-cased and not stemmed; an underscore separates words, as in `max_tokens`.

    >>> words("Rotate the API-key: max_tokens=5")
    ['rotate', 'the', 'api', 'key', 'max', 'tokens', '5']
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    return [word[0].translate(_WITHOUT_JOINERS) for word in found_words(plain)]


def found_words(text: str) -> Iterator[re.Match[str]]:
    """Return the matches of the words of a text, unchanged."""
    marked = not text.isascii() and _MARK.search(text) is not None
    return (_MARKED_WORD if marked else _WORD).finditer(text)


def is_special_writing(text: str) -> bool:
    """Return whether a text has letters with marks, or of a script without spaces, as in Hindi, Thai or Japanese."""
    return _UNSPACED.search(text) is not None or _MARK.search(text) is not None


def terms(text: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Return the index terms of a text, in order, with repeats; `language` is a Snowball stemmer's name, or `none`.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    >>> terms("Rotating keys", "none")
    ['rotating', 'keys']

    In Chinese, Japanese and Korean each character and each pair of neighbours is a term. In Thai, Lao, Burmese and
    Khmer only pairs of clusters are, as one consonant with its vowels says little.

    >>> terms("API数组的"), terms("ล้างหน้าจอ")
    (['api', '数', '数组', '组', '组的', '的'], ['ล้าง', 'งห', 'หน้า', 'น้าจ', 'จอ'])
    """
    if text.isascii() or _UNSPACED.search(text) is None:
        return [_stem(word, language) for word in words(text)]
    return [term for word in words(text) for term in _parts(word, language)]


def _parts(word: str, language: str) -> Iterator[str]:
    """Yield the terms of a word that may mix scripts with and without spaces."""
    end = 0
    for run in _UNSPACED.finditer(word):
        if end < run.start():
            yield _stem(word[end : run.start()], language)
        end = run.end()
        yield from _signs(run[0]) if run["signs"] else _clusters(run[0])
    if end < len(word):
        yield _stem(word[end:], language)


def _signs(run: str) -> Iterator[str]:
    for number, sign in enumerate(run):
        yield sign
        if number + 1 < len(run):
            yield run[number : number + 2]


def _clusters(run: str) -> Iterator[str]:
    clusters = _CLUSTER.findall(run)
    yield from map("".join, pairwise(clusters)) if len(clusters) > 1 else clusters


def languages() -> list[str]:
    """Return the valid values of `index.language`."""
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


def heading_text(content: str) -> str:
    """Return a heading on one line, without its anchor name.

    >>> heading_text("API keys {#keys}")
    'API keys'
    """
    return " ".join(_LINK_NAME.sub("", content).split())


def unmarked(line: str) -> str:
    """Return a line as its site or notes render it, without embedded files.

    >>> unmarked("> [!tip] See [[Basic formatting|the basics]] and [[Links#Aliases]]![[a.png]]")
    '> See the basics and Links > Aliases'
    >>> unmarked("::: warning Take care")
    'Take care'
    """
    line = _CALLOUT.sub(lambda callout: callout["quote"] or "", _CONTAINER.sub("", line))
    return _WIKI_LINK.sub(_linked, line) if "[[" in line else line


def without_references(text: str) -> str:
    """Return text with each reference link replaced by its words.

    >>> without_references("as in [Chapter 2][storing] and [maps][], grid[0][1] or [1][2]")
    'as in Chapter 2 and maps, grid[0][1] or [1][2]'
    """
    return _REFERENCE.sub(r"\1", text) if "][" in text else text


def _linked(link: re.Match[str]) -> str:
    page = link["page"]
    return link["alias"] or ("" if _ATTACHED.search(page) else page.strip("#").replace("#", " > "))
