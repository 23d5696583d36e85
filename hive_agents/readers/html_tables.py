"""Regular HTML tables: spanning cells are expanded, so that every row has every column, and a cell is one line."""

from __future__ import annotations

from itertools import pairwise

from bs4 import BeautifulSoup, Tag
from bs4.element import PageElement

from hive_agents.readers.imported import Repetition

_BLOCKS = ["pre", "table", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"]
_HEADINGS = _BLOCKS[5:]
_PARTS = frozenset({"thead", "tbody", "tfoot", "tr", "td", "th", "colgroup"})
_NEW = BeautifulSoup("", "html.parser")
_MOST, _LONGEST = 200, 2000
"""Columns of a spanning cell; characters of a cell of a table that isn't for the layout."""


def regular_tables(content: Tag) -> None:
    """Make each table below `content` regular, in place.

    A cell over several rows is repeated in each, so that each row is complete; one over several columns is followed by
    empty ones. Lists, code and tables in a cell become one line. A table for the layout becomes <div> elements.
    """
    room = Repetition()
    for table, parts in _own_parts(content):  # outer ones first
        if table.decomposed or all(parent is not content for parent in table.parents):
            continue
        rows = [part for part in parts if part.name == "tr"]
        cells = [cell for row in rows for cell in row.find_all(["td", "th"], recursive=False)]
        if _is_layout(table, rows, cells):
            for part in [table, *parts]:
                part.name = "div"
            continue
        for cell in cells:
            _flatten(cell)
        _fill(rows, room)


def _own_parts(content: Tag) -> list[tuple[Tag, list[Tag]]]:
    """Return each table with its parts, without those of tables in it, in one pass."""
    tables: list[tuple[Tag, list[Tag]]] = []
    around: dict[int, list[Tag]] = {}  # element -> parts of the table that it is in
    for element in content.find_all(True):
        parts = around.get(id(element.parent))
        if parts is not None and element.name in _PARTS:
            parts.append(element)
        if element.name == "table":
            tables.append((element, parts := []))
        if parts is not None:
            around[id(element)] = parts
    return tables


def _is_layout(table: Tag, rows: list[Tag], cells: list[Tag]) -> bool:
    wide = max((len(row.find_all(["td", "th"], recursive=False)) for row in rows), default=0)
    if len(rows) * wide <= 1 or table.get("role") in ("presentation", "none"):
        return True
    with_blocks = [cell for cell in cells if cell.find(_BLOCKS) is not None]
    if not with_blocks:
        return False
    return (
        len(rows) < 2
        or wide < 2
        or any(cell.find(_HEADINGS) is not None or len(cell.get_text()) > _LONGEST for cell in with_blocks)
    )


def _flatten(cell: Tag) -> None:
    """Put a cell's blocks on one line: items between semicolons, code as spans."""
    for inner in reversed(cell.find_all("table")):
        rows = [[_line(part) for part in row.find_all(["td", "th"])] for row in inner.find_all("tr")]
        inner.replace_with(f" {'; '.join(', '.join(filter(None, row)) for row in rows if any(row))} ")
    for listed in reversed(cell.find_all(["ul", "ol", "dl"])):
        items = listed.find_all(["li", "dt", "dd"], recursive=False) or [listed]
        for before, item in pairwise(items):
            before.append(": " if before.name == "dt" and item.name == "dd" else "; ")
        for part in [*items, listed]:
            part.insert_before(" ")
            part.insert_after(" ")
            part.unwrap()
    for code in cell.find_all("pre"):
        shown = _cell(" ".join(code.get_text().split()))
        shown.name = "code"
        code.replace_with(shown if shown.get_text() else "")


def _line(part: Tag) -> str:
    return part.get_text(" ", strip=True)


def _fill(rows: list[Tag], room: Repetition) -> None:
    below: dict[int, tuple[int, str]] = {}  # column -> (rows still covered, text)
    for row in rows:
        column = 0
        parts: list[PageElement] = []
        for part in row.contents:
            if isinstance(part, Tag) and part.name in ("td", "th"):
                column = _covered(parts, column, below, room)
                across, down = room.times(_span(part, "colspan"), 0), _span(part, "rowspan")
                if down > 1:
                    words = part.get_text(" ", strip=True)
                    below |= {column + offset: (down, words if offset == 0 else "") for offset in range(across)}
                parts += [part, *(_cell("") for _ in range(across - 1))]
                column += across
            else:
                parts.append(part)
        _covered(parts, column, below, room)
        if len(parts) > len(row.contents):
            row.clear()
            row.extend(parts)  # one by one into their places takes the square of a row's width
        below = {at: (rows_left - 1, words) for at, (rows_left, words) in below.items() if rows_left > 1}


def _covered(parts: list[PageElement], column: int, below: dict[int, tuple[int, str]], room: Repetition) -> int:
    """Add the cells that reach down into this row from `column` on; return the first free column."""
    while column in below and room.times(2, len(below[column][1])) == 2:
        parts.append(_cell(below[column][1]))
        column += 1
    return column


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return max(1, min(int(value), _MOST)) if value.isdigit() else 1


def _cell(words: str) -> Tag:
    cell = _NEW.new_tag("td")
    cell.string = words
    return cell
