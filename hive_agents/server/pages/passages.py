"""Locates passages in documents, and splits texts into parts that a template can mark or link."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

_WORD = re.compile(r"\w+")
_MARK = re.compile(r"</?mark>")
_CITED = re.compile(r"(?<!\s)\s*((?:\[\d{1,3}\]\s*)*\[\d{1,3}\])([.,;:!?]*)")
_TABLE_ROW = re.compile(r"^[ ]*\|.*$", re.M)
_CELLS = " | "
MOST_COLUMNS = 6
"""Columns of a table that is shown as one: a wider one would be wider than a telephone."""
_SEED = 3
"""Consecutive words by which a place is found; a shorter passage is found by all its words."""
NEAR = 250
"""The most words between a passage's longest run and its other runs; farther ones, like "of the", are chance."""


@dataclass(frozen=True)
class TextPart:
    """A piece of a text: plain (""), `match`, `passage`, or `first` for a passage to begin with."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class TextBlock:
    """A paragraph in parts, or the rows of a table, the first of which is its head: each a list of cells in parts."""

    parts: list[TextPart] = field(default_factory=list)
    rows: list[list[list[TextPart]]] = field(default_factory=list)


@dataclass(frozen=True)
class ShownClaim:
    """One claim of an answer: its number from 0, its text, and the ranks of the results that it cites."""

    n: int
    text: str
    cites: list[int]


def marked(excerpt: str) -> list[TextPart]:
    """Return an excerpt's parts; only its pairs of marks are read as markup.

    >>> [(part.text, part.kind) for part in marked("a <mark>key</mark> <b>")]
    [('a ', ''), ('key', 'match'), (' <b>', '')]
    """
    pieces = _MARK.split(excerpt)
    return [TextPart(text, "match" if n % 2 else "") for n, text in enumerate(pieces) if text]


def blocks(excerpt: str) -> list[TextBlock]:
    r"""Return an excerpt's paragraphs and tables, whose rows the copilot writes as lines of cells.

    >>> told, table = blocks("Limits\nhead | most\n<mark>P50</mark> | 50 µl")
    >>> told.parts, [[cell[0].text for cell in row] for row in table.rows]
    ([TextPart(text='Limits', kind='')], [['head', 'most'], ['P50', '50 µl']])
    """
    found = []
    runs = groupby(excerpt.split("\n"), key=_columns)
    for columns, run in runs:
        lines = list(run)
        if columns and len(lines) > 1:
            found.append(TextBlock(rows=[[marked(cell) for cell in line.split(_CELLS)] for line in lines]))
        elif found and not found[-1].rows:
            found[-1].parts.extend([TextPart("\n"), *marked("\n".join(lines))])
        else:
            found.append(TextBlock(parts=marked("\n".join(lines))))
    return [block for block in found if block.rows or block.parts]


def _columns(line: str) -> int:
    """Return the number of a row's cells, 0 for a line that is no row, or one too wide to be shown as one."""
    cells = line.split(_CELLS)
    whole = all(cell.count("<mark>") == cell.count("</mark>") for cell in cells)
    return len(cells) if 1 < len(cells) <= MOST_COLUMNS and whole else 0


def claims(answer: str, cited: Collection[int]) -> list[list[ShownClaim]]:
    """Return the claims of each line of an answer, with citations of the ranks in `cited` alone.

    >>> [(one.n, one.text, one.cites) for one in claims("Keys expire [1]. Ask QA [2][9].", {1, 2})[0]]
    [(0, 'Keys expire.', [1]), (1, 'Ask QA.', [2])]
    """
    n, lines = 0, []
    for line in answer.splitlines():
        pieces, in_line = [*_CITED.split(line), "", ""], []
        for text, cites, stop in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            if text.strip() or cites:
                numbers = [int(each) for each in re.findall(r"\d+", cites)]
                in_line.append(ShownClaim(n, text.strip() + stop, [number for number in numbers if number in cited]))
                n += 1
        lines.append(in_line)
    return lines


def located(text: str, passages: Sequence[str]) -> list[TextPart]:
    """Return a document's text in parts; those that belong to one of the passages have the kind `passage`, or `first`
    where the first one that was found begins.

    Words alone are compared: a document has markup that passages lack.

    >>> [part.text for part in located("Intro. *Keys* expire after a year. End.", ["Keys expire after a year."])]
    ['Intro. *', 'Keys* expire after a year', '. End.']
    """
    words = [(word[0].casefold(), word.start(), word.end()) for word in _WORD.finditer(text)]
    places: dict[tuple[str, ...], list[int]] = {}
    wanted = [[word.casefold() for word in _WORD.findall(_MARK.sub("", passage))] for passage in passages]
    sizes = {min(_SEED, len(passage)) for passage in wanted} - {0}
    for size in sizes:
        for start in range(len(words) - size + 1):
            places.setdefault(tuple(word for word, _, _ in words[start : start + size]), []).append(start)
    plain_words = [word for word, _, _ in words]
    spans: list[tuple[int, int]] = []
    for passage in wanted:
        row = _table_row(passage, text)
        if row is not None:
            spans.append(row)
            continue
        runs = _runs(passage, plain_words, places)
        longest = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
        near = [run for run in runs if abs(run[0] - longest[0]) <= NEAR]
        spans += sorted(_row(text, words[first][1], words[last][2]) for first, last in near)
    ends: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if ends and first <= ends[-1][1]:
            ends[-1] = (ends[-1][0], max(last, ends[-1][1]))
        else:
            ends.append((first, last))
    cuts = [0, *(cut for span in ends for cut in span), len(text)]
    kinds = ["first" if a <= spans[0][0] < b else "passage" for a, b in ends]
    parts = [TextPart(text[a:b], kinds[n // 2] if n % 2 else "") for n, (a, b) in enumerate(pairwise(cuts))]
    return [part for part in parts if part.text]


def _table_row(passage: Sequence[str], text: str) -> tuple[int, int] | None:
    """Return the span of the table row that a passage was made from: its first cell, then heads and other cells.

    Of several it is the one with the most words. Only rows of three or more cells count, of which two hold words.
    """
    best: tuple[int, int] | None = None
    most = 0
    for line in _TABLE_ROW.finditer(text) if passage else ():
        cells = [[word.casefold() for word in _WORD.findall(cell)] for cell in line[0].strip().strip("|").split("|")]
        size = sum(map(len, cells))
        if len(cells) > 2 and sum(map(bool, cells)) > 1 and size > most and _is_row_of(cells, passage):
            best, most = line.span(), size
    return best


def _is_row_of(cells: Sequence[Sequence[str]], passage: Sequence[str]) -> bool:
    """Return whether a passage begins with the first cell, contains the others in order, and ends with the last."""
    at = 0
    for n, cell in enumerate(cells):
        starts = range(at, len(passage) - len(cell) + 1) if n else range(1)
        start = next((start for start in starts if list(passage[start : start + len(cell)]) == list(cell)), None)
        if start is None:
            return False
        at = start + len(cell)
    return at == len(passage)


def _row(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the whole row for words within a table row, else their own span."""
    begin, stop = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    is_row = text[begin:stop].lstrip().startswith("|") and "\n" not in text[start:end]
    return (begin, stop) if is_row else (start, end)


def _runs(
    passage: Sequence[str], words: Sequence[str], places: dict[tuple[str, ...], list[int]]
) -> list[tuple[int, int]]:
    """Return (first, last) word positions of the longest runs of a passage's words in a document, in order."""
    size, at, runs = min(_SEED, len(passage)), 0, list[tuple[int, int]]()
    while size and at + size <= len(passage):
        best, longest = 0, 0
        for start in places.get(tuple(passage[at : at + size]), ())[:200]:
            length = size
            while at + length < len(passage) and start + length < len(words):
                if words[start + length] != passage[at + length]:
                    break
                length += 1
            if length > longest:
                best, longest = start, length
        if longest:
            runs.append((best, best + longest - 1))
        at += longest or 1
    return runs
