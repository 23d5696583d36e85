"""XLSX to Markdown: for each visible sheet a heading and a table, cells in their number formats."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Iterator
from typing import Any

import openpyxl

from hive_agents.importing.imported import Imported, TableRow
from hive_agents.importing.markdown import escape
from hive_agents.importing.office import checked_package
from hive_agents.importing.rows import path_part, rows_as_markdown, rows_of_texts


def from_xlsx(data: bytes) -> Imported:
    book = _opened(data)
    parts = [f"## {escape(name)}\n\n{rows_as_markdown(rows)}" for name, rows in _sheets(book)]
    title = str(book.properties.title or "").strip()
    return Imported("\n\n".join(parts) + "\n" if parts else "", title or None)


def xlsx_rows(data: bytes) -> list[TableRow] | None:
    """Return the rows of a workbook whose sheets all have texts, None for any other."""
    documents: list[TableRow] = []
    sheets = list(_sheets(_opened(data)))
    for name, (head, *rows) in sheets:
        table = [head, *rows] if len(sheets) == 1 else [[*head, "sheet"], *([*row, name] for row in rows)]
        sheet_rows = rows_of_texts(table)
        if sheet_rows is None:
            return None
        documents += [row._replace(key=f"{path_part(name)} {row.key}") for row in sheet_rows]
    return documents or None


def _opened(data: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unsupported extensions, such as data bars
        return openpyxl.load_workbook(checked_package(data, "xlsx"), data_only=True)


def _sheets(book: Any) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name and the rows of each visible sheet that isn't empty."""
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        _repeat_merged(sheet)
        rows = [[_cell_text(cell) for cell in row] for row in sheet.iter_rows()]
        rows = [row for row in rows if any(row)]
        used = [number for number in range(max(map(len, rows), default=0)) if any(row[number] for row in rows)]
        if used:
            yield sheet.title, [[row[number] for number in used] for row in rows]


def _repeat_merged(sheet: Any) -> None:
    """Give each row of a merged cell its value, so that each row is complete."""
    for area in list(sheet.merged_cells.ranges):
        first = sheet.cell(area.min_row, area.min_col)
        sheet.unmerge_cells(str(area))
        for row in range(area.min_row + 1, area.max_row + 1):
            below = sheet.cell(row, area.min_col)
            below.value, below.number_format = first.value, first.number_format


def _cell_text(cell: Any) -> str:
    value, form = cell.value, cell.number_format or ""
    if value is None:
        return ""
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        plain = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", form.split(";")[0])
        decimals = len(found[1]) if (found := re.search(r"\.(0+)", plain)) else 0
        if "%" in plain:
            return f"{value * 100:.{decimals}f}%"
        if re.fullmatch(r"0{2,}", plain) and float(value).is_integer():
            return f"{int(value):0{len(plain)}d}"
        if decimals and "E" not in plain:
            return f"{value:.{decimals}f}"
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    return str(value)
