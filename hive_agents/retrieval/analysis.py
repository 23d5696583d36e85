"""What of a text is read: its words, which become terms, lower-cased and stemmed by Snowball (English: Porter 2).

And not the marks that Markdown itself doesn't know and sites and note-takers write: names for links, wiki links,
containers.
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
"""Changes whenever any text would give other terms; with the language, part of an index's identity."""
SPECIAL_WRITING = "unspaced-1 marks-1"
"""Changes whenever texts in writing with marks or without spaces would; part of the hash of such a document alone."""

DEFAULT_LANGUAGE = "english"
UNSTEMMED = "none"


def _marks() -> str:
    """Return the marks that belong to a letter, and the joiners between two, as they stand in a set of a pattern."""
    # Symbols' own marks, as of a keycap, stand beyond these ranges, and so do those that only choose a picture.
    places = chain(range(0x300, 0x1B00), range(0xA000, 0xAC00), range(0x11000, 0x12000))
    return "".join(chr(place) for place in places if unicodedata.category(chr(place))[0] == "M") + _JOINERS


_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
# For Python a vowel's sign or a tone's mark is no letter, which would part a word of Hindi or Thai within.
_MARK = re.compile(f"[{_marks()}]")
_MARKED_WORD = re.compile(rf"[^\W_](?:[^\W_]|{_MARK.pattern})*(?:['’][^\W\d_](?:[^\W\d_]|{_MARK.pattern})*)?")
# Chinese, Japanese and Korean letters: what is one word among them, no sign says.
_SIGNS = (
    r"[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U000323af]"
)
# Nor does it among those of Thai, Lao, Burmese and Khmer, with digits of their own.
_LETTERS = r"[\u0e01-\u0e4e\u0e80-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3]"
_UNSPACED = re.compile(rf"(?P<signs>{_SIGNS}+)|{_LETTERS}+")
# What is written around one consonant: the vowel before it, its marks, one stacked below, the vowels behind it.
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
    """Return words as they stand, lower-cased; an underscore parts words, as in `max_tokens`.

    >>> words("Rotate the API-key: max_tokens=5")
    ['rotate', 'the', 'api', 'key', 'max', 'tokens', '5']
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    return [word[0].translate(_WITHOUT_JOINERS) for word in found_words(plain)]


def found_words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text where they stand, as they are."""
    marked = not text.isascii() and _MARK.search(text) is not None
    return (_MARKED_WORD if marked else _WORD).finditer(text)


def is_special_writing(text: str) -> bool:
    """Return whether a text's letters have marks of their own, or part no words, as those of Hindi, Thai, Japanese."""
    return _UNSPACED.search(text) is not None or _MARK.search(text) is not None


def terms(text: str, language: str = DEFAULT_LANGUAGE) -> list[str]:
    """Index terms of a text, in order, with repeats; `language` is a Snowball stemmer's name, or `none`.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    >>> terms("Rotating keys", "none")
    ['rotating', 'keys']

    Of writing that parts no words, each sign and each pair of neighbours is a term; of Thai and its like, in which one
    consonant with its vowels tells little, the pairs alone.

    >>> terms("API数组的"), terms("ล้างหน้าจอ")
    (['api', '数', '数组', '组', '组的', '的'], ['ล้าง', 'งห', 'หน้า', 'น้าจ', 'จอ'])
    """
    found = words(text)
    if text.isascii() or _UNSPACED.search(text) is None:
        return [_stem(word, language) for word in found]
    return [term for word in found for term in _parts(word, language)]


def _parts(word: str, language: str) -> Iterator[str]:
    """Yield the terms of a word that may hold letters of both kinds of writing."""
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
    found = _CLUSTER.findall(run)
    yield from map("".join, pairwise(found)) if len(found) > 1 else found


def languages() -> list[str]:
    """Return what `index.language` may be."""
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
    """Return a heading on one line, without the name that links give it.

    >>> heading_text("API keys {#keys}")
    'API keys'
    """
    return " ".join(_LINK_NAME.sub("", content).split())


def unmarked(line: str) -> str:
    """Return a line as readers of its site or notes see it; links to files that are shown in place are no words.

    >>> unmarked("> [!tip] See [[Basic formatting|the basics]] and [[Links#Aliases]]![[a.png]]")
    '> See the basics and Links > Aliases'
    >>> unmarked("::: warning Take care")
    'Take care'
    """
    line = _CALLOUT.sub(lambda found: found["quote"] or "", _CONTAINER.sub("", line))
    return _WIKI_LINK.sub(_linked, line) if "[[" in line else line


def without_references(text: str) -> str:
    """Return text in which a link to a name that stands elsewhere is its words alone.

    >>> without_references("as in [Chapter 2][storing] and [maps][], grid[0][1] or [1][2]")
    'as in Chapter 2 and maps, grid[0][1] or [1][2]'
    """
    return _REFERENCE.sub(r"\1", text) if "][" in text else text


def _linked(link: re.Match[str]) -> str:
    page = link["page"]
    return link["alias"] or ("" if _ATTACHED.search(page) else page.strip("#").replace("#", " > "))
