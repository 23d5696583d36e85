"""Regular HTML tables: spanning cells are expanded, so that every row has every column."""

from __future__ import annotations

from bs4 import BeautifulSoup, Tag

_BLOCKS = ["pre", "table", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"]
_PARTS = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "colgroup"]
_MOST = 200


def regular_tables(content: Tag) -> None:
    """Make each table below `content` regular, in place.

    A cell over several rows is repeated in each, so that each row is complete; one over several columns is followed by
    empty ones. A table for the layout of other blocks becomes <div> elements.
    """
    for table in reversed(content.find_all("table")):  # inner ones first
        rows = [row for row in table.find_all("tr") if row.find_parent("table") is table]
        cells = [cell for row in rows for cell in row.find_all(["td", "th"], recursive=False)]
        if any(cell.find(_BLOCKS) is not None for cell in cells) or len(rows) * _longest(rows) <= 1:
            _unwrap(table, rows)
        else:
            _fill(rows)


def _longest(rows: list[Tag]) -> int:
    return max((len(row.find_all(["td", "th"], recursive=False)) for row in rows), default=0)


def _unwrap(table: Tag, rows: list[Tag]) -> None:
    for part in [table, *table.find_all(_PARTS)]:
        if (
            part is table
            or part.find_parent("table") is None
            or any(row is part or row in part.parents for row in rows)
        ):
            part.name = "div"


def _fill(rows: list[Tag]) -> None:
    below: dict[int, tuple[int, str]] = {}  # column -> (rows still covered, text)
    for row in rows:
        column = 0
        for cell in row.find_all(["td", "th"], recursive=False):
            column = _covered(cell, column, below)
            across, down = _span(cell, "colspan"), _span(cell, "rowspan")
            if down > 1:
                words = cell.get_text(" ", strip=True)
                below |= {column + offset: (down, words if offset == 0 else "") for offset in range(across)}
            for _ in range(across - 1):
                cell.insert_after(_cell(""))
            column += across
        column = _covered(row, column, below)
        below = {at: (rows_left - 1, words) for at, (rows_left, words) in below.items() if rows_left > 1}


def _covered(where: Tag, column: int, below: dict[int, tuple[int, str]]) -> int:
    """Insert the cells that reach down into this row from `column` on; return the first free column."""
    while column in below:
        inserted = _cell(below[column][1])
        if where.name == "tr":
            where.append(inserted)
        else:
            where.insert_before(inserted)
        column += 1
    return column


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return max(1, min(int(value), _MOST)) if value.isdigit() else 1


def _cell(words: str) -> Tag:
    cell = BeautifulSoup("", "html.parser").new_tag("td")
    cell.string = words
    return cell
