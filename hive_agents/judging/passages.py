"""A text that claims are held against, read once: its words, codes, amounts, dates, sentences and rows of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hive_agents.judging.amounts import Date, Quantity, dates_in, quantities

TOKEN = re.compile(r"[^\W_]+(?:[-_./:+][^\W_]+)*\+*", re.U)
_BEGINS = re.compile(r"[|#>*-]|\d{1,2}[.)]\s")
_SPLIT = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9ÄÖÜ“\"'`])|\n+")
WORD = re.compile(r"[^\W\d_]+(?:['’][a-z]+)?")

STOP = frozenset(
    "a an the of in on at to for from by with and or is are was were be been being has have had do does did it its this"
    " that these those as than then so such also only just any each per if when while which who what there their they"
    " them he she we you your our i can may must should will would shall could not no never".split()
)


@dataclass(frozen=True, slots=True)
class PassageText:
    """A text, read once: its tokens, quantities, dates, sentences, and the rows of its tables with their heads."""

    text: str
    tokens: frozenset[str]
    amounts: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    sentences: tuple[str, ...]
    rows: tuple[HeadedRow, ...]


@dataclass(frozen=True, slots=True)
class HeadedRow:
    """A row of a table: its cells with the heads of their columns."""

    cells: tuple[str, ...]
    heads: tuple[str, ...]

    def under(self, head: str) -> list[str]:
        return [cell for cell, of in zip(self.cells, self.heads, strict=False) if of == head and cell]


@lru_cache(maxsize=64)
def read(text: str) -> PassageText:
    text = _unwrapped(text)
    rows = tuple(_table_rows(text))
    dates = tuple(dates_in(text))
    sentences = tuple(part for part in (part.strip() for part in _SPLIT.split(text)) if part)
    return PassageText(text, frozenset(normal(token) for token in TOKEN.findall(text)), quantities(text), dates,
                   sentences, rows)  # fmt: skip


def _unwrapped(text: str) -> str:
    """Return a text in which a line and those it goes on in are one; a head stands by itself."""
    lines: list[str] = []
    is_open = in_item = False
    for line in text.split("\n"):
        bare = line.strip()
        if is_open and bare and not _BEGINS.match(bare) and (in_item or not line[:1].isspace()):
            lines[-1] += f" {bare}"
        else:
            lines.append(line)
            in_item = _BEGINS.match(bare) is not None and not bare.startswith(("|", "#", ">"))
        is_open = bool(bare) and not bare.startswith("#") and not bare.endswith("|")
    return "\n".join(lines)


def normal(token: str) -> str:
    token = token.casefold().replace("’", "'").rstrip(".:/")
    return token[:-2] if token.endswith("'s") else token


def stems(text: str) -> set[str]:
    words = (word.casefold() for word in WORD.findall(text))
    kept = (word for word in words if word not in STOP)
    return {stem(word) for word in kept}


def stem(word: str) -> str:
    if word.endswith(("ies", "ied")) and len(word) > 4:
        word = word[:-3] + "y"
    for ending in ("ingly", "edly", "ings", "ing", "ed", "es", "s", "ly", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            found = word[: -len(ending)]
            doubled = ending in ("ing", "ed") and len(found) > 3 and found[-1] == found[-2] and found[-1] in "bdgmnprt"
            return found[:-1] if doubled else found
    return word


def _table_rows(text: str) -> Iterator[HeadedRow]:
    heads: tuple[str, ...] = ()
    for line in text.splitlines():
        bar = line.strip()
        if bar.count("|") >= 2 or (bar.count("|") and heads):
            cells = tuple(cell.strip() for cell in bar.strip("|").split("|"))
            if all(re.fullmatch(r":?-{2,}:?", cell) for cell in cells):
                continue
            if not heads:
                heads = cells
            else:
                yield HeadedRow(cells, heads)
        else:
            heads = ()


def mentions(text: str, cell: str) -> bool:
    cell = cell.strip("*`_ ")
    return bool(cell) and re.search(rf"(?<![^\W_]){re.escape(cell)}(?![^\W_]|[.]\d)", text, re.I) is not None
