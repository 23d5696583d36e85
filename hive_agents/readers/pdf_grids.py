"""Tables of a PDF that are drawn: crossing lines, with text in enough of the cells between them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pypdfium2
import pypdfium2.raw as pdfium

_NEAR, _THIN = 3.0, 2.5
_MOST_EDGES = 1500
_INSET = 2.0
_MOST_CELLS = 2500  # more is graph paper or a drawing
_LEAST_FILLED = 0.4


@dataclass(frozen=True)
class DrawnTable:
    """A drawn table: coordinates of its vertical and horizontal lines, from the left and the top, and its cells."""

    columns: tuple[float, ...]
    lines: tuple[float, ...]
    rows: tuple[tuple[str, ...], ...]

    def holds(self, x: float, y: float) -> bool:
        return self.columns[0] - _NEAR <= x <= self.columns[-1] and self.lines[-1] <= y <= self.lines[0]


@dataclass(frozen=True)
class _Stroke:
    """A horizontal or vertical line: its position on one axis, its extent on the other."""

    at: float
    start: float
    end: float

    def reaches(self, place: float) -> bool:
        return self.start - _NEAR <= place <= self.end + _NEAR


def grids_of(page: pypdfium2.PdfPage, text: pypdfium2.PdfTextPage) -> Iterator[DrawnTable]:
    """Yield the tables that are drawn on a page, of at least two rows and two columns."""
    upright: list[_Stroke] = []
    level: list[_Stroke] = []
    for start, end in _strokes(page):
        (x, y), (to_x, to_y) = start, end
        if abs(x - to_x) < 0.5 < abs(y - to_y):
            upright.append(_Stroke(x, min(y, to_y), max(y, to_y)))
        elif abs(y - to_y) < 0.5 < abs(x - to_x):
            level.append(_Stroke(y, min(x, to_x), max(x, to_x)))
        if len(upright) + len(level) > _MOST_EDGES:
            return  # a drawing
    for across, down in _connected(level, upright):
        columns = _places([edge.at for edge in down])
        lines = _places([edge.at for edge in across])[::-1]
        if len(columns) > 2 and len(lines) > 2 and len(columns) * len(lines) <= _MOST_CELLS:
            rows = [_row(text, columns, top, bottom, across, down) for top, bottom in pairwise(lines)]
            filled = sum(bool(cell) for row in rows for cell in row)
            if filled >= _LEAST_FILLED * len(rows) * len(rows[0]):
                yield DrawnTable(tuple(columns), tuple(lines), tuple(row for row in rows if any(row)))


def _strokes(page: pypdfium2.PdfPage) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield the end points of straight lines on a page; thin bars count as lines."""
    for shape in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=1):
        left, bottom, right, top = shape.get_bounds()
        if right - left < _THIN or top - bottom < _THIN:
            x, y = (left + right) / 2, (bottom + top) / 2
            yield ((x, bottom), (x, top)) if top - bottom > right - left else ((left, y), (right, y))
            continue
        matrix = pdfium.FS_MATRIX()
        pdfium.FPDFPageObj_GetMatrix(shape, matrix)
        begin = before = (0.0, 0.0)
        for number in range(min(pdfium.FPDFPath_CountSegments(shape), _MOST_EDGES)):
            segment = pdfium.FPDFPath_GetPathSegment(shape, number)
            px, py = ctypes.c_float(), ctypes.c_float()
            pdfium.FPDFPathSegment_GetPoint(segment, px, py)
            x, y = px.value, py.value
            place = (matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f)
            kind = pdfium.FPDFPathSegment_GetType(segment)
            if kind == pdfium.FPDF_SEGMENT_LINETO:
                yield before, place
            elif kind == pdfium.FPDF_SEGMENT_MOVETO:
                begin = place
            before = place
            if pdfium.FPDFPathSegment_GetClose(segment):
                yield before, begin


def _connected(level: Sequence[_Stroke], upright: Sequence[_Stroke]) -> Iterator[tuple[list[_Stroke], list[_Stroke]]]:
    """Yield (horizontal, vertical) lines that are connected, table by table."""
    remaining_level, remaining_upright = list(level), list(upright)
    while remaining_level and remaining_upright:
        across, down = [remaining_level.pop()], []
        fresh_across, fresh_down = across[:], []
        while fresh_across:
            fresh_down = [edge for edge in remaining_upright if any(_cross(other, edge) for other in fresh_across)]
            remaining_upright = [edge for edge in remaining_upright if edge not in fresh_down]
            down += fresh_down
            fresh_across = [edge for edge in remaining_level if any(_cross(edge, other) for other in fresh_down)]
            remaining_level = [edge for edge in remaining_level if edge not in fresh_across]
            across += fresh_across
        yield across, down


def _cross(level: _Stroke, upright: _Stroke) -> bool:
    return level.reaches(upright.at) and upright.reaches(level.at)


def _places(places: Sequence[float]) -> list[float]:
    """Return coordinates in ascending order, of those near each other only the first."""
    distinct: list[float] = []
    for place in sorted(places):
        if not distinct or place - distinct[-1] > _NEAR:
            distinct.append(place)
    return distinct


def _row(
    text: pypdfium2.PdfTextPage,
    columns: Sequence[float],
    top: float,
    bottom: float,
    across: Sequence[_Stroke],
    down: Sequence[_Stroke],
) -> tuple[str, ...]:
    """Return the cells of a row; one over several columns is followed by empty ones."""
    middle = (top + bottom) / 2
    cells: list[str] = []
    column = 0
    while column < len(columns) - 1:
        end = column + 1
        while end < len(columns) - 1 and not _divided(down, columns[end], middle):
            end += 1
        centre = (columns[column] + columns[column + 1]) / 2
        above, below = _field(across, centre, middle, top, bottom)
        inset = min(_INSET, (above - below) / 6)  # characters of the line above may overlap
        shown = text.get_text_bounded(columns[column], below + inset, columns[end], above - inset)
        cells += [" ".join(shown.split()), *[""] * (end - column - 1)]
        column = end
    return tuple(cells)


def _divided(edges: Sequence[_Stroke], at: float, place: float) -> bool:
    return any(abs(edge.at - at) <= _NEAR and edge.reaches(place) for edge in edges)


def _field(across: Sequence[_Stroke], x: float, middle: float, top: float, bottom: float) -> tuple[float, float]:
    """Return top and bottom of a cell; one over several rows is repeated in each, so that each row is complete."""
    reach = [edge.at for edge in across if edge.reaches(x)]
    return min((y for y in reach if y > middle), default=top), max((y for y in reach if y < middle), default=bottom)
