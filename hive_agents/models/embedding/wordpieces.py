"""Word pieces of BERT's English vocabulary, uncased: their numbers, and where in a text each stands.

As the package tokenizers does, without that package, which brings the client of a model hub. Marks and signs that are
younger than its tables may count as letters there, and as what they are here: the vocabulary has neither.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError

TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
TOKENIZER_FILE = Path(__file__).parent / "_minilm" / "tokenizer.json"

WINDOW = 256
"""Most tokens of a run, `[CLS]` and `[SEP]` included."""

QUESTION_WINDOWS = 4
"""Windows of a question that are embedded, about 700 words; the words of its rest are only looked for as words."""

_UNKNOWN, _CLS, _SEP = 100, 101, 102
_BODY = WINDOW - 2


class WordPieces:
    """Token counts, offsets and model inputs of a text."""

    def count_tokens(self, text: str) -> int:
        """Return the number of word pieces.

        >>> WordPieces().count_tokens("unbelievably good")
        6
        """
        return len(_encode(text)[0])

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each piece, in characters.

        >>> WordPieces().token_offsets("Zürich, now")
        [(0, 6), (6, 7), (8, 11)]
        """
        return _encode(text)[1]

    def piece_starts(self, text: str) -> NDArray[np.int64]:
        """Return the start of each piece's word, ascending; up to a position between words as many as offsets.

        >>> WordPieces().piece_starts("unbelievably good!").tolist()
        [0, 0, 0, 0, 0, 13, 17]
        """
        plain, foreign = _parted(text)
        other_starts = [np.array([start for start, _ in _encode(line)[1]], np.int64) + at for at, line in foreign]
        signs = _SIGNS[np.frombuffer(plain.encode("ascii"), np.uint8)]
        pieces = (signs == _MARK).astype(np.int32)
        letters = signs == _LETTER
        begins = letters & ~np.append(False, letters[:-1])
        pieces[begins] = np.fromiter(map(_PIECES.__getitem__, plain.translate(_WITHOUT_MARKS).split()), np.int32)
        places = np.flatnonzero(pieces)
        starts = np.repeat(places, pieces[places])
        return np.sort(np.concatenate([starts, *other_starts])) if other_starts else starts

    def windows(self, text: str, most: int | None = None) -> list[list[int]]:
        """Return token ids in as few windows as possible, of nearly equal length; those of `most` full ones at most.

        A window of only the last few words would represent the text badly.

        >>> WordPieces().windows("")
        [[101, 102]]
        >>> [len(window) for window in WordPieces().windows("bee " * 300)]
        [152, 152]
        >>> [len(window) for window in WordPieces().windows("bee " * 900, most=2)]
        [256, 256]
        """
        ids = _encode(text)[0][: None if most is None else most * _BODY]
        count = max(1, -(-len(ids) // _BODY))
        edges = [len(ids) * part // count for part in range(count + 1)]
        return [[_CLS, *ids[start:end], _SEP] for start, end in pairwise(edges)]


_LONGEST = 100
"""Letters of a word beyond which it is unknown; longer runs aren't kept, either."""
_SPECIAL = re.compile(r"\[(?:CLS|SEP|MASK|PAD|UNK)\]")
_RUN = re.compile(r"[^ \t\n\r]+")
_IDEOGRAPH = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    r"\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)

# In plain ASCII no piece crosses a word's end, so that each word's number of pieces can be cached, which is many times
# faster. Lines with other characters, or with special tokens, are read sign by sign.
_FOREIGN = re.compile(rf"[^\t\n\r -~]|{_SPECIAL.pattern}")
_LETTER, _MARK = 1, 2
_SIGNS = np.zeros(128, np.uint8)
_SIGNS[33:127] = [_LETTER if chr(sign).isalnum() else _MARK for sign in range(33, 127)]
_WITHOUT_MARKS = {sign: " " for sign in range(33, 127) if not chr(sign).isalnum()}
_MOST_WORDS = 1 << 19


class _PieceCounts(dict[str, int]):
    """A bounded cache of the number of pieces of each word."""

    def __missing__(self, word: str) -> int:
        count = len(_encode(word)[0])
        if len(self) < _MOST_WORDS:
            self[word] = count
        return count


_PIECES = _PieceCounts()


def _parted(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the text with its lines of more than plain ASCII blanked, and (offset, line) of those."""
    lines: list[tuple[int, str]] = []
    parts: list[str] = []
    done = 0
    for sign in _FOREIGN.finditer(text):
        if sign.start() < done:
            continue
        start = text.rfind("\n", done, sign.start()) + 1 or done
        end = text.find("\n", sign.start())
        end = len(text) if end < 0 else end
        lines.append((start, text[start:end]))
        parts += [text[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, text[done:]]), lines


def _encode(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the numbers of the pieces, and start and end of each, in characters."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    done = 0
    vocabulary = _vocabulary()
    for special in (*_SPECIAL.finditer(text), None):
        for run in _RUN.finditer(text, done, special.start() if special else len(text)):
            pieces = _pieces if len(run[0]) <= _LONGEST else _pieces.__wrapped__
            for id, start, end in pieces(run[0]):
                ids.append(id)
                offsets.append((run.start() + start, run.start() + end))
        if special:
            ids.append(vocabulary[special[0]])
            offsets.append(special.span())
            done = special.end()
    return ids, offsets


@lru_cache(maxsize=1 << 16)
def _pieces(run: str) -> list[tuple[int, int, int]]:
    """Return number, start and end of each piece of a run without spaces."""
    found: list[tuple[int, int, int]] = []
    word: list[str] = []
    places: list[int] = []
    for place, written in enumerate(run):
        for sign, apart in _read_as(written):
            if not apart:
                word.append(sign)
                places.append(place)
                continue
            found += _pieces_of_word("".join(word), places)
            word, places = [], []
            if sign != " ":
                found += _pieces_of_word(sign, [place])
    return found + _pieces_of_word("".join(word), places)


def _pieces_of_word(word: str, places: list[int]) -> list[tuple[int, int, int]]:
    """Return the longest pieces from the left; a word of which a part has none is unknown as a whole."""
    found, start, vocabulary = [], 0, _vocabulary()
    while start < len(word):
        end = len(word) if len(word) <= _LONGEST else start
        while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return [(_UNKNOWN, places[0], places[-1] + 1)]
        found.append((vocabulary[("##" if start else "") + word[start:end]], places[start], places[end - 1] + 1))
        start = end
    return found


@cache
def _read_as(written: str) -> tuple[tuple[str, bool], ...]:
    """Return what a character is read as, lower-cased and without accents, and whether it stands by itself."""
    category = unicodedata.category(written)
    if category in ("Cc", "Cf", "Co") or written == "\ufffd":
        return ()
    if category[0] == "Z":
        return ((" ", True),)
    if category == "Cs":  # JSON escapes may give lone surrogates
        return (("?", True),)
    plain = [sign for sign in unicodedata.normalize("NFD", written) if unicodedata.category(sign) != "Mn"]
    alone = _IDEOGRAPH.match(written) is not None
    return tuple((sign, alone or _is_mark(sign)) for sign in "".join(plain).lower())


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign)[0] == "P" or ("!" <= sign <= "~" and not sign.isalnum())


@cache
def _vocabulary() -> dict[str, int]:
    try:
        content = TOKENIZER_FILE.read_bytes()
    except OSError as error:
        message = f"cannot load the tokenizer: {error}"
        raise HiveError.of("HIVE-401", message, fix="reinstall hive-agents", exit_code=3) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != TOKENIZER_SHA256:
        message = f"{TOKENIZER_FILE.name} has sha256 {digest}, expected {TOKENIZER_SHA256}"
        raise HiveError.of("HIVE-401", message, fix="reinstall hive-agents", exit_code=3)
    vocabulary: dict[str, int] = json.loads(content)["model"]["vocab"]
    return vocabulary
