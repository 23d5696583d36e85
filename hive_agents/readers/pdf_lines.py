"""The lines of a page of a PDF: text, font, and tables among them."""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from statistics import median

import pypdfium2
import pypdfium2.raw as pdfium

from hive_agents.readers.markdown import escape, table
from hive_agents.readers.pdf_forms import FormEntry, PrintedRoom, form_entries
from hive_agents.readers.pdf_grids import DrawnTable, grids_of

_RAW_LINE = re.compile("([^\n\ufffe\x02]*)([\n\ufffe\x02]|\\Z)")
"""A line ends at a line break, or where a word is hyphenated."""
_HYPHENS_OF_ONE = re.compile("-\u00ad\u2010")
"""A single hyphen in PDFs of Word on a Mac; a space there is a tab, a carriage return, a space and a hard space."""
_LETTERS = dict(zip("\x1b\x1c\x1d\x1e\x1f\x0b\x0c\r\x0e\x0f", ("ff", "fi", "fl", "ffi", "ffl") * 2, strict=True))
_JOINED = re.compile(
    "(?<=[A-Za-z])[\x0b\x0c\x0e\x0f\x1b-\x1f]|[\x0b\x0c\x0e\x0f\x1b-\x1f](?=[a-z])|(?<=[a-z])\r(?=[a-z])"
)
"""Ligatures of TeX's fonts, in PDFs that don't map them to Unicode."""
_ACCENTS = dict(
    zip("`´¨ˆ˜¯˘˙˚ˇ˝¸", "\u0300\u0301\u0308\u0302\u0303\u0304\u0306\u0307\u030a\u030c\u030b\u0327", strict=True)
)
_CONTROL = re.compile("[\0-\x08\x0e-\x1f]")
LEADER = re.compile(r"\s*(?:\.\s?){5,}\s*(?P<page>\d+|[ivxl]+)?$")
_BOLD = re.compile(r"(?i)bold|black|heavy|demi|medi\b|cmbx|sfbx")
_TYPEWRITER = re.compile(r"(?i)mono|courier|cmtt|typewriter|nimbusmon|consol|menlo|code")
_MATHEMATICAL = re.compile(r"(?i)(?:^|\+)(?:cmmi|cmex|lmmi|lmex|msbm|eufm)|math")
_PROSE = re.compile(r"[^\W\d_]{3,} [^\W\d_]{3,}")
_APART, _NEAR = 1.0, 3.0
"""Minimal distance of columns in font sizes; tolerance of their alignment in points."""
_SPACE = 0.15
"""Of the font size: how much further apart than letters two words are at least."""
_LEAST_ROWS = 3
_ICON, _MOST_OBJECTS = 40, 20_000
"""Points of the shorter side of a picture that says something; objects of a page that are looked at."""
_ITEM = re.compile(r"[•●▪◦‣–*-]|\(?\w{1,3}[.)]")


@dataclass(frozen=True)
class PrintedLine:
    """A line of a page, or a whole table with Markdown as its text. `level` is that of a heading, else 0.

    A line is filled where it has values of a form.
    """

    text: str
    size: float = 0.0
    bold: bool = False
    typewriter: bool = False
    level: int = 0
    is_table: bool = False
    is_filled: bool = False


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
    raw: str = ""
    first: int = -1
    is_formula: bool = False


def lines_of(page: pypdfium2.PdfPage, left_out: Counter[str], room: PrintedRoom) -> list[PrintedLine]:
    """Return the page's lines with text in the order of the text layer, tables in place of theirs.

    Values of form fields are in them where they stand. What a page has besides is counted by kind.

    Raises: as `room.take`.
    """
    with closing(page), closing(page.get_textpage()) as text:
        room.take(text.count_chars())
        placed = list(_placed(text))
        formulas = groupby(placed, lambda line: line.is_formula)
        left_out["layouts of formulas"] += sum(is_formula for is_formula, _ in formulas)
        placed = _filled(text, placed, form_entries(page, left_out, room))
        left_out["pictures without text"] += _pictures(page)
        grids = list(grids_of(page, text))
        return list(_with_tables(placed, grids))


def _placed(text: pypdfium2.PdfTextPage) -> Iterator[_PlacedLine]:
    plain = str(text.get_text_range())
    loses = _mixes_spaces(text, plain)
    at = 0
    for match in _RAW_LINE.finditer(plain):
        raw, end = match[1], match[2]
        inner = raw.strip()
        begin = at + _units(raw[: len(raw) - len(raw.lstrip())])
        first = int(pdfium.FPDFText_GetCharIndexFromTextIndex(text, begin)) if inner else -1
        signs = _signs(text, inner, first, loses=loses) if first >= 0 else list(inner)
        shown = _said("".join(signs) + ("-" if end and end != "\n" else ""))
        at += _units(match[0])
        if shown:
            yield _printed(text, shown, inner, first, signs) if first >= 0 else _PlacedLine(PrintedLine(shown))


def _said(signs: str) -> str:
    text = _CONTROL.sub("", _JOINED.sub(lambda ligature: _LETTERS[ligature[0]], signs))
    return " ".join(_HYPHENS_OF_ONE.sub("-", text).split())


def _signs(text: pypdfium2.PdfTextPage, inner: str, first: int, *, loses: bool) -> list[str]:
    """Return what each sign of a line stands for: with a space before it where one was lost, with its accent, or ""."""
    signs = list(inner)
    if not _ACCENTS.keys().isdisjoint(inner):
        _put_accents(text, signs, first)
    last = first + _units(inner) - 1
    if loses or _has_gap(text, first, last, _size(text, first)):
        for place in _lost_spaces(text, inner, first, spread=loses):
            signs[place] = f" {signs[place]}"
    return signs


def _mixes_spaces(text: pypdfium2.PdfTextPage, plain: str) -> bool:
    """Return whether some spaces of a page are signs and some only distances: of these PDFium then misses a part."""
    ways = set()
    for space in re.finditer(" ", plain):
        ways.add(pdfium.FPDFText_IsGenerated(text, pdfium.FPDFText_GetCharIndexFromTextIndex(text, space.start())))
        if {0, 1} <= ways:
            return True
    return False


def _lost_spaces(text: pypdfium2.PdfTextPage, inner: str, first: int, *, spread: bool) -> list[int]:
    """Return the places in a line where two letters stand as far apart as words do, with no space between them.

    Without `spread` only columns count; with it letters may be apart as well, and words are further apart than these.
    """
    matrix = _matrix(text, first)
    if abs(matrix.b) > abs(matrix.a):  # of a line that leads up or down only the size of its signs would show
        return []
    size = _size(text, first)  # in fonts that are drawings it says nothing
    gaps: dict[int, float] = {}
    reached = None
    at = first
    for place, sign in enumerate(inner):
        if sign.isalnum():
            left, right = _advance(text, at)
            _, top, _, bottom = _box(text, at)
            size = max(size, top - bottom)
            if reached is not None:
                gaps[place] = left - reached
            reached = right
        else:
            reached = None
        at += _units(sign)
    least = median(gaps.values()) + size * _SPACE if gaps and spread else size * _APART
    return [place for place, gap in gaps.items() if gap > least]


def _put_accents(text: pypdfium2.PdfTextPage, signs: list[str], first: int) -> None:
    """Make one sign of a letter and the accent that is printed over it, as TeX's older fonts do.

    The accent may be anywhere in the line, with spaces around it that aren't printed. One that is over no letter is an
    apostrophe, or a quote.
    """
    places = list(accumulate(map(_units, signs), initial=first))
    boxes = {at: _box(text, places[at]) for at, sign in enumerate(signs) if sign.isalpha() or sign in _ACCENTS}
    for at in [at for at, sign in enumerate(signs) if sign in _ACCENTS]:
        middle = (boxes[at][0] + boxes[at][2]) / 2
        below = {
            letter: whole
            for letter, (left, _, right, _) in boxes.items()
            if left <= middle <= right and letter != at and len(whole := _accented(signs[letter], signs[at])) == 1
        }
        if below:
            letter = min(below, key=lambda each: abs(boxes[each][0] + boxes[each][2] - 2 * middle))
            signs[letter], signs[at] = below[letter], ""
            _close_up(signs, boxes, at, _size(text, places[letter]) * _SPACE)


def _accented(letter: str, accent: str) -> str:
    return unicodedata.normalize("NFC", letter.replace("ı", "i") + _ACCENTS[accent])


def _close_up(signs: list[str], boxes: Mapping[int, tuple[float, ...]], gone: int, least: float) -> None:
    """Take the spaces around a sign that is gone out of the word that it was put in."""
    before = next((at for at in range(gone - 1, -1, -1) if signs[at].strip()), -1)
    after = next((at for at in range(gone + 1, len(signs)) if signs[at].strip()), -1)
    if before in boxes and after in boxes and boxes[after][0] - boxes[before][2] < least:
        signs[before + 1 : after] = [""] * (after - before - 1)


def _units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, in which PDFium counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _printed(text: pypdfium2.PdfTextPage, shown: str, raw: str, first: int, signs: Sequence[str]) -> _PlacedLine:
    last = first + _units(raw) - 1
    size = _size(text, first)
    name = _font(text, first)
    bold = all(_BOLD.search(font) for font in (name, _font(text, last)))  # weights in font descriptors are unreliable
    line = PrintedLine(shown, round(size, 1), bold, _TYPEWRITER.search(name) is not None)
    left, top, _, bottom = _box(text, first)
    apart = not line.typewriter and not LEADER.search(shown) and _has_gap(text, first, last, size)
    cells = tuple(_cells(text, raw, first, size, signs)) if apart else ()
    fonts = {name, _font(text, last)}
    formula = any(_MATHEMATICAL.search(font) for font in fonts) and not _PROSE.search(shown)  # all its signs are there
    return _PlacedLine(line, left, (bottom + top) / 2, cells if len(cells) > 1 else (), raw, first, formula)


def _pictures(page: pypdfium2.PdfPage) -> int:
    """Return the number of pictures on a page that are larger than an icon."""
    count = 0
    for number in range(min(pdfium.FPDFPage_CountObjects(page), _MOST_OBJECTS)):
        part = pdfium.FPDFPage_GetObject(page, number)
        if pdfium.FPDFPageObj_GetType(part) == pdfium.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = (ctypes.c_float() for _ in range(4))
            pdfium.FPDFPageObj_GetBounds(part, left, bottom, right, top)
            count += min(right.value - left.value, top.value - bottom.value) > _ICON
    return count


def _filled(text: pypdfium2.PdfTextPage, placed: list[_PlacedLine], entries: Sequence[FormEntry]) -> list[_PlacedLine]:
    """Return the lines with each value of a form in the line beside which it stands, else below the line above it."""
    within: dict[int, list[FormEntry]] = {}
    below: dict[int, list[FormEntry]] = {}
    for entry in entries:
        beside = [at for at, line in enumerate(placed) if entry.bottom - _NEAR <= line.y <= entry.top + _NEAR]
        before = [at for at in beside if placed[at].x <= entry.left]
        if before:
            within.setdefault(max(before, key=lambda at: placed[at].x), []).append(entry)
        elif beside:
            within.setdefault(min(beside, key=lambda at: placed[at].x), []).append(entry)
        else:
            above = [at for at, line in enumerate(placed) if line.first >= 0 and line.y > entry.middle]
            below.setdefault(min(above, key=lambda at: placed[at].y, default=-1), []).append(entry)

    def alone(at: int) -> list[_PlacedLine]:
        return [_PlacedLine(PrintedLine(entry.text, is_filled=True), entry.left) for entry in below.get(at, [])]

    lines = alone(-1)
    for at, line in enumerate(placed):
        lines += [_with_entries(text, line, within[at]) if at in within else line, *alone(at)]
    return lines


def _with_entries(text: pypdfium2.PdfTextPage, line: _PlacedLine, entries: Sequence[FormEntry]) -> _PlacedLine:
    """Return a line with values between its characters, by where they stand."""
    waiting = sorted(entries, key=lambda entry: entry.left)
    shown, at = "", line.first
    for sign in line.raw:
        while waiting and not sign.isspace() and _box(text, at)[0] > waiting[0].left + _NEAR:
            shown += f" {waiting.pop(0).text} "
        shown += " " if sign.isspace() else sign
        at += _units(sign)
    shown = " ".join([*shown.split(), *(entry.text for entry in waiting)])
    return replace(line, line=replace(line.line, text=_CONTROL.sub("", shown), is_filled=True), cells=())


def _matrix(text: pypdfium2.PdfTextPage, at: int) -> pdfium.FS_MATRIX:
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(text, at, matrix)
    return matrix


def _advance(text: pypdfium2.PdfTextPage, at: int) -> tuple[float, float]:
    """Return where a character begins and where the next one would; its ink may be narrower, as that of a 1."""
    box = pdfium.FS_RECTF()
    pdfium.FPDFText_GetLooseCharBox(text, at, box)
    return float(box.left), float(box.right)


def _size(text: pypdfium2.PdfTextPage, at: int) -> float:
    """Return the size in points in which a character is shown."""
    matrix = _matrix(text, at)
    return float(pdfium.FPDFText_GetFontSize(text, at)) * math.sqrt(abs(matrix.a * matrix.d - matrix.b * matrix.c))


def _font(text: pypdfium2.PdfTextPage, at: int) -> str:
    name = ctypes.create_string_buffer(200)
    pdfium.FPDFText_GetFontInfo(text, at, name, 200, ctypes.c_int())
    return name.value.decode(errors="replace")


def _box(text: pypdfium2.PdfTextPage, at: int) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a character."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    pdfium.FPDFText_GetCharBox(text, at, left, right, bottom, top)
    return left.value, top.value, right.value, bottom.value


def _has_gap(text: pypdfium2.PdfTextPage, first: int, last: int, size: float) -> bool:
    """Return whether a line has a wide gap, by its text rectangles: cheaper than by characters."""
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


def _cells(text: pypdfium2.PdfTextPage, raw: str, first: int, size: float, signs: Sequence[str]) -> Iterator[_Cell]:
    """Yield the parts of a line between wide gaps."""
    part, start, reached = "", 0.0, 0.0
    at = first
    for sign, shown in zip(raw, signs, strict=True):
        if not shown.strip():
            part += shown
        else:
            left, _, right, _ = _box(text, at)
            if part.strip() and left - reached > size * _APART:
                yield _Cell(_said(part), start, reached)
                part = ""
            if not part.strip():
                start = left
            part, reached = part + shown, right
        at += _units(sign)
    if part.strip():
        yield _Cell(_said(part), start, reached)


def _with_tables(placed: list[_PlacedLine], grids: list[DrawnTable]) -> Iterator[PrintedLine]:
    """Yield the lines, with each table in place of its lines."""
    shown: set[int] = set()
    within = {number: grid for number, line in enumerate(placed) for grid in grids if grid.holds(line.x, line.y)}
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
    """Return the rows of a table without drawn lines that begins at `first`, and its number of lines.

    It is the longest run of lines with aligned parts; ([], 0) where that is short, or a list.
    """
    run = [placed[first].cells]
    shown = [[cell.text for cell in run[0]]]
    number = first + 1
    for number in range(first + 1, len(placed) + 1):
        following = placed[number] if number < len(placed) and number not in drawn else _PlacedLine(PrintedLine(""))
        column = next((at for at, cell in enumerate(run[0]) if at and abs(cell.left - following.x) <= _NEAR), 0)
        if following.cells and len(following.cells) == len(run[0]) and _are_columns([*run, following.cells]):
            run.append(following.cells)
            shown.append([cell.text for cell in following.cells])
        elif column and not following.cells:  # continues a cell
            shown[-1][column] += f" {following.line.text}"
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
