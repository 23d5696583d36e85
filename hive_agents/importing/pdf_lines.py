"""The lines of a PDF's page: their text, how it is printed, and which of them are rows of a table."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

from hive_agents.importing.markdown import escape, table
from hive_agents.importing.pdf_grids import DrawnTable, grids_of

_RAW_LINE = re.compile("([^\n\ufffe\x02]*)([\n\ufffe\x02]|\\Z)")
"""A line ends where the page says so, or where a word is parted by a hyphen."""
_HYPHENS_OF_ONE = re.compile("-\u00ad\u2010")
"""What Word on a Mac calls one hyphen; it calls a space a tab, a carriage return, a space and a hard space."""
_LETTERS = dict(zip("\x1b\x1c\x1d\x1e\x1f", ("ff", "fi", "fl", "ffi", "ffl"), strict=True))
_JOINED = re.compile("(?<=[A-Za-z])[\x1b-\x1f]|[\x1b-\x1f](?=[a-z])")
"""Letters that TeX's fonts print as one sign, of a PDF that doesn't say which they are."""
_CONTROL = re.compile("[\0-\x08\x0e-\x1f]")
LEADER = re.compile(r"\s*(?:\.\s?){5,}\s*(?P<page>\d+|[ivxl]+)?$")
_BOLD = re.compile(r"(?i)bold|black|heavy|demi|medi\b|cmbx|sfbx")
_TYPEWRITER = re.compile(r"(?i)mono|courier|cmtt|typewriter|nimbusmon|consol|menlo|code")
_APART, _NEAR = 1.0, 3.0
"""How far, in heights of the font, columns are apart at least; how exactly, in points, they stand below each other."""
_LEAST_ROWS = 3
_ITEM = re.compile(r"[•●▪◦‣–*-]|\(?\w{1,3}[.)]")


@dataclass(frozen=True)
class PrintedLine:
    """One line of a page, or a whole table, whose text is Markdown then. `level` is that of a heading, else 0."""

    text: str
    size: float = 0.0
    bold: bool = False
    typewriter: bool = False
    level: int = 0
    is_table: bool = False


@dataclass(frozen=True)
class _Cell:
    text: str
    left: float
    right: float


@dataclass(frozen=True)
class _PlacedLine:
    line: PrintedLine
    x: float = 0.0
    y: float = 0.0
    cells: tuple[_Cell, ...] = ()


def lines_of(page: pypdfium2.PdfPage) -> list[PrintedLine]:
    """Return the page's lines that hold text, in the order in which they are written."""
    with closing(page), closing(page.get_textpage()) as text:
        placed = list(_placed(text))
        grids = list(grids_of(page, text))
        return list(_with_tables(placed, grids))


def _placed(text: pypdfium2.PdfTextPage) -> Iterator[_PlacedLine]:
    plain = str(text.get_text_range())
    at = 0
    for found in _RAW_LINE.finditer(plain):
        raw, end = found[1], found[2]
        shown = _HYPHENS_OF_ONE.sub(
            "-", _CONTROL.sub("", _JOINED.sub(_letters, raw)) + ("-" if end and end != "\n" else "")
        )
        shown = " ".join(shown.split())
        inner = raw.strip()
        begin = at + _units(raw[: len(raw) - len(raw.lstrip())])
        at += _units(found[0])
        if shown:
            first = int(pdfium.FPDFText_GetCharIndexFromTextIndex(text, begin))
            yield _printed(text, shown, inner, first) if inner and first >= 0 else _PlacedLine(PrintedLine(shown))


def _letters(found: re.Match[str]) -> str:
    return _LETTERS[found[0]]


def _units(text: str) -> int:
    """Return how many places a text takes in a page's own count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _printed(text: pypdfium2.PdfTextPage, shown: str, raw: str, first: int) -> _PlacedLine:
    last = first + _units(raw) - 1
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(text, first, matrix)
    size = pdfium.FPDFText_GetFontSize(text, first) * math.sqrt(abs(matrix.a * matrix.d - matrix.b * matrix.c))
    name = _font(text, first)
    bold = all(_BOLD.search(font) for font in (name, _font(text, last)))  # the weights that files tell say little
    line = PrintedLine(shown, round(size, 1), bold, _TYPEWRITER.search(name) is not None)
    left, top, _, bottom = _box(text, first)
    apart = not line.typewriter and not LEADER.search(shown) and _has_gap(text, first, last, size)
    cells = tuple(_cells(text, raw, first, size)) if apart else ()
    return _PlacedLine(line, left, (bottom + top) / 2, cells if len(cells) > 1 else ())


def _font(text: pypdfium2.PdfTextPage, at: int) -> str:
    name = ctypes.create_string_buffer(200)
    pdfium.FPDFText_GetFontInfo(text, at, name, 200, ctypes.c_int())
    return name.value.decode(errors="replace")


def _box(text: pypdfium2.PdfTextPage, at: int) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a sign."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    pdfium.FPDFText_GetCharBox(text, at, left, right, bottom, top)
    return left.value, top.value, right.value, bottom.value


def _has_gap(text: pypdfium2.PdfTextPage, first: int, last: int, size: float) -> bool:
    """Return whether parts of a line stand apart, from its few rectangles; most lines have one."""
    spans = []
    for number in range(pdfium.FPDFText_CountRects(text, first, last - first + 1)):
        left, top, right, bottom = (ctypes.c_double() for _ in range(4))
        pdfium.FPDFText_GetRect(text, number, left, top, right, bottom)
        spans.append((left.value, right.value))
    reached = math.inf
    for start, end in sorted(spans):
        if start - reached > size * _APART:
            return True
        reached = end if reached == math.inf else max(reached, end)
    return False


def _cells(text: pypdfium2.PdfTextPage, raw: str, first: int, size: float) -> Iterator[_Cell]:
    """Yield the parts of a line that stand apart."""
    part, start, reached = "", 0.0, 0.0
    at = first
    for sign in raw:
        if sign.isspace():
            part += " "
        else:
            left, _, right, _ = _box(text, at)
            if part.strip() and left - reached > size * _APART:
                yield _Cell(" ".join(part.split()), start, reached)
                part = ""
            if not part.strip():
                start = left
            part, reached = part + sign, right
        at += _units(sign)
    if part.strip():
        yield _Cell(" ".join(part.split()), start, reached)


def _with_tables(placed: list[_PlacedLine], grids: list[DrawnTable]) -> Iterator[PrintedLine]:
    """Yield the lines, with each table in place of the lines that stand in it."""
    shown: set[int] = set()
    within = {number: grid for number, one in enumerate(placed) for grid in grids if grid.holds(one.x, one.y)}
    number = 0
    while number < len(placed):
        grid = within.get(number)
        if grid is not None and id(grid) not in shown:
            shown.add(id(grid))
            yield _table(grid.rows)
        elif grid is None:
            rows, reach = _aligned(placed, number, within) if placed[number].cells else ([], 0)
            if rows:
                yield _table(rows)
                number += reach
                continue
            yield placed[number].line
        number += 1


def _table(rows: Sequence[Sequence[str]]) -> PrintedLine:
    return PrintedLine(table([[escape(cell) for cell in row] for row in rows]), is_table=True)


def _aligned(placed: Sequence[_PlacedLine], first: int, drawn: dict[int, DrawnTable]) -> tuple[list[list[str]], int]:
    """Return the rows of a table without lines that begins here, and over how many lines it reaches.

    It is the longest run of lines whose parts stand below each other; none where that is short, or a list.
    """
    run = [placed[first].cells]
    shown = [[cell.text for cell in run[0]]]
    number = first + 1
    for number in range(first + 1, len(placed) + 1):
        one = placed[number] if number < len(placed) and number not in drawn else _PlacedLine(PrintedLine(""))
        column = next((at for at, cell in enumerate(run[0]) if at and abs(cell.left - one.x) <= _NEAR), 0)
        if one.cells and len(one.cells) == len(run[0]) and _are_columns([*run, one.cells]):
            run.append(one.cells)
            shown.append([cell.text for cell in one.cells])
        elif column and not one.cells:  # what a cell goes on with
            shown[-1][column] += f" {one.line.text}"
        else:
            break
    if len(run) < _LEAST_ROWS or all(_ITEM.fullmatch(row[0].text) for row in run):
        return [], 0
    return shown, number - first


def _are_columns(rows: Sequence[tuple[_Cell, ...]]) -> bool:
    for column in zip(*rows, strict=True):
        ways = ([c.left for c in column], [c.right for c in column], [(c.left + c.right) / 2 for c in column])
        if min(max(way) - min(way) for way in ways) > _NEAR:
            return False
    return True
