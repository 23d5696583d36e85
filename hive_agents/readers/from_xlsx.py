"""XLSX to Markdown: for each visible sheet a heading and a table, cells in their number formats."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import openpyxl
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.worksheet._reader import WorkSheetParser
from openpyxl.worksheet.cell_range import CellRange

from hive_agents.readers.imported import Imported, TableRow
from hive_agents.readers.markdown import escape
from hive_agents.readers.office import checked_package
from hive_agents.readers.rows import path_part, require_document, rows_as_markdown, rows_of_texts


def from_xlsx(data: bytes) -> Imported:
    book, sheets = _read(data)
    parts = [f"## {escape(name)}\n\n{rows_as_markdown(rows)}" for name, rows in sheets]
    title = str(book.properties.title or "").strip()
    return Imported("\n\n".join(parts) + "\n" if parts else "", title or None)


def xlsx_rows(data: bytes) -> list[TableRow] | None:
    """Return the rows of a workbook whose sheets all have texts, None for any other."""
    documents: list[TableRow] = []
    _, sheets = _read(data)
    for name, (head, *rows) in sheets:
        table = [head, *rows] if len(sheets) == 1 else [[*head, "sheet"], *([*row, name] for row in rows)]
        sheet_rows = rows_of_texts(table)
        if sheet_rows is None:
            return None
        documents += [row._replace(key=f"{path_part(name)} {row.key}") for row in sheet_rows]
    return documents or None


def _read(data: bytes) -> tuple[Any, list[tuple[str, list[list[str]]]]]:
    """Return the workbook, and the names and rows of its sheets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unsupported extensions, such as data bars
        # The other mode makes an object of each cell of a merged or linked area, however large.
        book = openpyxl.load_workbook(checked_package(data, "xlsx"), read_only=True, data_only=True)
        return book, list(_sheets(book))


def _sheets(book: Any) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name and the rows of each visible sheet that isn't empty, without empty rows and columns.

    Raises: ImportFailure for a data set. The cost is that of the cells with a value, wherever they are.
    """
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        texts = _texts(sheet)
        rows, columns = sorted({row for row, _ in texts}), sorted({column for _, column in texts})
        require_document(len(rows) * len(columns))
        if texts:
            yield sheet.title, [[texts.get((row, column), "") for column in columns] for row in rows]


def _texts(sheet: Any) -> dict[tuple[int, int], str]:
    """Return the text of each cell that has one, by row and column."""
    book, texts = sheet.parent, {}
    with sheet._get_source() as source:
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for _, cells in parser.parse():
            for cell in cells:
                if text := _cell_text(ReadOnlyCell(sheet, **cell)):
                    texts[cell["row"], cell["column"]] = text
            require_document(len(texts))
    if parser.merged_cells:
        _repeat_merged(texts, [CellRange(area.ref) for area in parser.merged_cells.mergeCell])
    return texts


def _repeat_merged(texts: dict[tuple[int, int], str], areas: list[CellRange]) -> None:
    """Give each row of a merged cell that has a text of its own the merged text, so that each row is complete."""
    rows = sorted({row for row, _ in texts})
    for area in areas:
        text = texts.get((area.min_row, area.min_col), "")
        for row in rows[bisect_right(rows, area.min_row) : bisect_right(rows, area.max_row)] if text else ():
            texts[row, area.min_col] = text
        require_document(len(texts))


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
