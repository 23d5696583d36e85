"""Text analysis: words, which become index terms, lower-cased and stemmed by Snowball (English: Porter 2).

An analyzer is named by its language, and with `+` behind it where exact writings are terms, too: of a word its stem
without accents and the parts of its camelCase, of a run such as `foo_bar` or `CVE-2024-1234` what it is written
together, `C++` and `--dry-run`. An index keeps the analyzer that it was built with.

Also the removal of marks that sites and note-takers add to Markdown: names for links, wiki links, containers.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import Stemmer

ANALYZER = "words-snowball-3"
"""Raise it when any text gets other terms; with the language, part of an index's identity."""
SPECIAL_WRITING = "unspaced-1 marks-1"
"""Raise it when only texts in scripts with marks or without spaces do; part of the hash of such documents only."""

DEFAULT_LANGUAGE = "english"
UNSTEMMED = "none"
_EXACT = "+"


def _marks() -> str:
    """Return the combining marks of letters, and the joiners between two letters, as ranges of a regex set."""
    # Marks of symbols, such as a keycap's, and variation selectors are outside these ranges.
    codes = chain(range(0x300, 0x1B00), range(0xA000, 0xAC00), range(0x11000, 0x12000))
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if unicodedata.category(chr(code))[0] == "M":
            first = ranges.pop()[0] if ranges and ranges[-1][1] == code - 1 else code
            ranges.append((first, code))
    shown = [[rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}" for code in pair] for pair in ranges]
    return "".join(map("-".join, shown)) + r"\u200c\u200d"


_JOINERS = "\u200c\u200d"
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
# Chinese, Japanese and Korean characters: no spaces between words.
_SIGNS = (
    r"[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U000323af]"
)
# Thai, Lao, Burmese and Khmer letters and digits: no spaces either.
_LETTERS = r"[\u0e01-\u0e4e\u0e80-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3]"
_SPECIAL = re.compile(r"[^\x00-\u02ff\u1b00-\u200b\u200e-\u3004]")
"""All characters of `scripts`, and others: faster to look for, and to make."""
_WITHOUT_JOINERS = dict.fromkeys(map(ord, _JOINERS))

_RUN = re.compile(r"(?<![^\W_])[^\W_]++(?:[._\-/:@,\\+]++[^\W_]++)+")
_LONGEST_RUN = 40
_TELLING = re.compile(r"[\d_.]|::")
"""A run with none of these is an ordinary compound: joining it finds nothing more."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_BETWEEN = re.compile(r"(?<=\d)[.,]+(?=\d)|(?P<other>[._\-/:@,\\+]+)")
_SIGNED = re.compile(
    r"(?<![^\W_])(?:[a-z](?:\+\+|#)|\.net)(?![^\W_])|(?<![\w!-])--[a-z\d][a-z\d-]{0,37}[a-z\d](?![\w-])"
)
_SUBJECT = re.compile(
    r"^[ \t>]*+(?:\|[ \t]*+|#{1,6}[ \t]++|[*+-][ \t]++|(?=\*))[*`\\]*+(-{0,2}[^\W_][^\s|*`()]{0,39})"
    r"(?:[*`]++|[ \t]*+(?=[|(:=–—]|$))",
    re.M,
)
"""The name that a row of a table, a heading, an item or a paragraph in bold begins with, and that it is about."""
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_OTHER_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "ı": "i", "đ": "d", "æ": "ae", "œ": "oe"})
_DIGIT = re.compile(r"\d")
_local = threading.local()

_LINK_NAME = re.compile(r"\{\s*#[\w-][^{}]*\}\s*$")
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
    found: list[str] = _pattern_of(plain).findall(plain)
    return found if plain.isascii() else [word.translate(_WITHOUT_JOINERS) for word in found]


def found_words(text: str) -> Iterator[re.Match[str]]:
    """Return the matches of the words of a text, unchanged."""
    return _pattern_of(text).finditer(text)


def _pattern_of(text: str) -> re.Pattern[str]:
    return _script("word") if _has(text, "mark") else _WORD


def is_special_writing(text: str) -> bool:
    """Return whether a text has letters with marks, or of a script without spaces, as in Hindi, Thai or Japanese."""
    return _has(text, "unspaced") or _has(text, "mark")


def _has(text: str, script: str) -> bool:
    return not text.isascii() and _SPECIAL.search(text) is not None and _script(script).search(text) is not None


@cache
def _script(name: str) -> re.Pattern[str]:
    return re.compile(scripts()[name])


@cache
def scripts() -> Mapping[str, str]:
    """Return patterns of scripts with marks and without spaces, which an analyzer of another engine needs, too."""
    mark = f"[{_marks()}]"
    # `\\w` has no vowel signs or tone marks, so that it would split words of Hindi or Thai.
    word = rf"[^\W_](?:[^\W_]|{mark})*(?:['’][^\W\d_](?:[^\W\d_]|{mark})*)?"
    # A consonant with the vowel before it, its marks, a consonant stacked below and the vowels after it.
    cluster = rf"[\u0e40-\u0e44\u0ec0-\u0ec4]?.{mark}*(?:(?<=[\u1039\u17d2]).{mark}*)*"
    cluster += r"[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]?"
    unspaced = rf"(?P<signs>{_SIGNS}+)|{_LETTERS}+"
    return {"mark": mark, "signs": _SIGNS, "letters": _LETTERS, "unspaced": unspaced, "word": word, "cluster": cluster}


def exact(language: str) -> str:
    """Return the analyzer of a language that has exact writings as terms.

    >>> exact("english"), is_exact("english+"), language_of("english+")
    ('english+', True, 'english')
    """
    return language + _EXACT


def is_exact(analyzer: str) -> bool:
    return analyzer.endswith(_EXACT)


def language_of(analyzer: str) -> str:
    return analyzer.removesuffix(_EXACT)


def terms(text: str, analyzer: str = DEFAULT_LANGUAGE) -> list[str]:
    """Return the index terms of a text, with repeats: in order, those of exact writings behind the others.

    >>> terms("Rotating keys, rotated keys")
    ['rotat', 'key', 'rotat', 'key']
    >>> terms("Rotating keys", "none")
    ['rotating', 'keys']
    >>> terms("Zoë's getUserById in C++ v3.14.2", "english+")[-8:]
    ['2', 'zoe', 'get', 'user', 'by', 'id', '3.14.2', 'c++']

    In Chinese, Japanese and Korean each character and each pair of neighbours is a term. In Thai, Lao, Burmese and
    Khmer only pairs of clusters are, as one consonant with its vowels says little.

    >>> terms("API数组的"), terms("ล้างหน้าจอ")
    (['api', '数', '数组', '组', '组的', '的'], ['ล้าง', 'งห', 'หน้า', 'น้าจ', 'จอ'])
    """
    language = language_of(analyzer)
    if not _has(text, "unspaced"):
        found = [_stem(word, language) for word in words(text)]
    else:
        found = [term for word in words(text) for term in _parts(word, language)]
    if not is_exact(analyzer):
        return found
    return [*found, *_other_writings(text, language), *exact_writings(text, analyzer), *_subjects(text, analyzer)]


def subject(term: str) -> str:
    """Return the term of texts with a row, a heading or an item that begins with what a term names, and is about it.

    >>> [term for term in terms("| `max_tokens` | 5 |\\n# Keys\\n- **--code** hex", "english+") if term[0] == "="]
    ['=maxtoken', '=key', '=--code']
    """
    return "=" + term


def _subjects(text: str, analyzer: str) -> Iterator[str]:
    for line in _SUBJECT.finditer(unicodedata.normalize("NFKC", text).lower()):
        named = exact_writings(line[1], analyzer) or terms(line[1], language_of(analyzer))
        if len(named) == 1:
            yield subject(named[0])


def names_in(text: str, analyzer: str) -> frozenset[str]:
    """Return the terms of a text that name something by their form: with a digit, joined, signed, or in camelCase.

    >>> sorted(names_in("C++ 17 in foo_bar or a-b of maxRetries", "english+"))
    ['17', 'c++', 'foobar', 'maxretri']
    """
    numbered = {term for term in terms(text, analyzer) if _DIGIT.search(term)}
    return whole_writings(text, analyzer).union(numbered)


def whole_writings(text: str, analyzer: str) -> frozenset[str]:
    """Return the terms of a text that are written of parts: joined, signed, and whole words in camelCase.

    >>> sorted(whole_writings("C++ 17 in foo_bar or a-b of maxRetries", "english+"))
    ['c++', 'foobar', 'maxretri']
    """
    written = exact_writings(text, analyzer)
    if is_exact(analyzer) and _HUMP.search(text) is not None:
        found = (word[0] for word in found_words(unicodedata.normalize("NFKC", text)))
        written += [_stem(word.lower(), language_of(analyzer)) for word in found if _HUMP.search(word)]
    return frozenset(written)


def exact_writings(text: str, analyzer: str) -> list[str]:
    """Return the joined and the signed terms of a text; none where they are no terms of the analyzer.

    >>> exact_writings("Node.js, ABC-42, v1.20, 1,234.5 and std::vector; C# on .NET; well-known --code", "english+")
    ['nodej', 'abc42', '1.20', '1234.5', 'stdvector', 'c#', '.net', '--code']
    """
    if not is_exact(analyzer):
        return []
    plain = unicodedata.normalize("NFKC", text).lower()
    runs = (run[0] for run in _RUN.finditer(plain) if run.end() - run.start() <= _LONGEST_RUN)
    joined = [_BETWEEN.sub(_between, _THOUSANDS.sub("", run)) for run in runs if _TELLING.search(run)]
    versions = [each[1:] if each[0] == "v" and each[1:2].isdecimal() else each for each in joined]
    language = language_of(analyzer)
    return [_stem(each, language) for each in versions] + [signed[0] for signed in _SIGNED.finditer(plain)]


def _between(separator: re.Match[str]) -> str:
    # 3.14.2 and 3.1.42 stay apart.
    return "" if separator["other"] else "."


def _other_writings(text: str, language: str) -> list[str]:
    """Return the stems of the words without their accents, and of their parts in camelCase."""
    humps = _HUMP.search(text) is not None
    if text.isascii() and not humps:
        return []
    found = found_words(unicodedata.normalize("NFKC", text))
    return [stem for word in found for stem in _writings_of(word[0], language)]


@lru_cache(maxsize=50_000)
def _writings_of(word: str, language: str) -> tuple[str, ...]:
    lower = word.lower()
    plain = _unaccented(lower)
    parts = _PART.findall(word) if _HUMP.search(word) else ()
    return tuple(_stem(each, language) for each in (*([plain] if plain != lower else ()), *map(str.lower, parts)))


def _unaccented(word: str) -> str:
    """Return a word of Latin, Greek or Cyrillic letters without their marks."""
    if word.isascii():
        return word
    kept, base = [], ""
    for sign in unicodedata.normalize("NFD", word):
        if not unicodedata.combining(sign):
            base = sign
        elif base < "\u0530" or "\u1e00" <= base < "\u2000":
            continue
        kept.append(sign)
    return unicodedata.normalize("NFC", "".join(kept)).translate(_OTHER_LETTERS)


def _parts(word: str, language: str) -> Iterator[str]:
    """Yield the terms of a word that may mix scripts with and without spaces."""
    end = 0
    for run in _script("unspaced").finditer(word):
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
    clusters = _script("cluster").findall(run)
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
