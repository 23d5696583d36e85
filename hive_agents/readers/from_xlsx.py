"""XLSX to Markdown: for each visible sheet a heading and a table, cells in their number formats."""

from __future__ import annotations

import datetime as dt
import html
import re
import warnings
import zipfile
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Set
from typing import Any

import openpyxl
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.worksheet._reader import FORMULA_TAG, VALUE_TAG, WorkSheetParser
from openpyxl.worksheet.cell_range import CellRange

from hive_agents.readers.imported import Imported, TableRow
from hive_agents.readers.markdown import escape, plain_lines
from hive_agents.readers.number_formats import iso_date, printed_date, printed_duration, printed_number
from hive_agents.readers.office import checked_package
from hive_agents.readers.rows import book_as_markdown, require_document, rows_of_book

_DRAWING = re.compile(r"xl/drawings/drawing\d*\.xml")
_PARTS_LEFT_OUT = {
    "charts": re.compile(r"xl/charts/chart\d*\.xml"),
    "pictures without text": re.compile(r"xl/media/[^/]+"),
    "sheets with comments": re.compile(r"xl/(?:comments\d*|threadedComments/[^/]+)\.xml"),
}


def from_xlsx(data: bytes, settings: Set[str]) -> Imported:
    book = _Book(data, settings)
    parts = [book_as_markdown(book.sheets()), *(plain_lines(escape(text)) for text in book.boxes())]
    parts = list(filter(None, parts))
    title = str(book.book.properties.title or "").strip()
    return Imported("\n\n".join(parts) + "\n" if parts else "", title or None, left_out=book.left_out)


def xlsx_rows(data: bytes, settings: Set[str]) -> list[TableRow] | None:
    """Return the rows of a workbook whose sheets all have texts, None for any other."""
    book = _Book(data, settings, shown=False)
    return rows_of_book(list(book.sheets()), book.left_out)


class _Book:
    """A workbook; dates are as `shown`, else in ISO form."""

    def __init__(self, data: bytes, settings: Set[str], *, shown: bool = True) -> None:
        self.left_out: Counter[str] = Counter()
        self._hidden, self._shown = "hidden" in settings, shown
        package = checked_package(data, "xlsx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unsupported extensions, such as data bars
            # The other mode makes an object of each cell of a merged or linked area, however large.
            self.book = openpyxl.load_workbook(package, read_only=True, data_only=True)
        with zipfile.ZipFile(package) as archive:
            self._drawings = [archive.read(name) for name in archive.namelist() if _DRAWING.fullmatch(name)]
            for name in archive.namelist():
                for kind, part in _PARTS_LEFT_OUT.items():
                    self.left_out[kind] += part.fullmatch(name) is not None

    def sheets(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield the name and the rows of each visible sheet that isn't empty, without empty rows and columns.

        Raises: ImportFailure for a data set. The cost is that of the cells with a value, wherever they are.
        """
        for sheet in self.book.worksheets:
            if sheet.sheet_state != "visible" and not self._hidden:
                self.left_out["hidden sheets"] += 1
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                texts = self._texts(sheet)
            rows, columns = sorted({row for row, _ in texts}), sorted({column for _, column in texts})
            require_document(len(rows) * len(columns), sum(map(len, texts.values())))
            if texts:
                yield sheet.title, [[texts.get((row, column), "") for column in columns] for row in rows]

    def boxes(self) -> Iterator[str]:
        """Yield the texts of text boxes and shapes."""
        for drawing in self._drawings:
            for paragraph in re.findall(rb"<a:p>.*?</a:p>", drawing, re.S):
                text = b"".join(re.findall(rb"<a:t[^>]*>([^<]*)</a:t>", paragraph)).decode("utf-8", "replace")
                if text.strip():
                    yield html.unescape(text).strip()

    def _texts(self, sheet: Any) -> dict[tuple[int, int], str]:
        """Return the text of each cell that has one, by row and column."""
        texts = {}
        with sheet._get_source() as source:
            parser = _Sheet(
                source,
                sheet._shared_strings,
                data_only=True,
                epoch=self.book.epoch,
                date_formats=self.book._date_formats,
                timedelta_formats=self.book._timedelta_formats,
            )
            for _, cells in parser.parse():
                for cell in cells:
                    if text := self._cell_text(ReadOnlyCell(sheet, **cell)):
                        texts[cell["row"], cell["column"]] = text
                require_document(len(texts))
        self.left_out["formulas without a value"] += parser.unknown
        if not self._hidden:
            self._without_hidden(texts, parser)
        if parser.merged_cells:
            _repeat_merged(texts, [CellRange(area.ref) for area in parser.merged_cells.mergeCell])
        return texts

    def _without_hidden(self, texts: dict[tuple[int, int], str], parser: _Sheet) -> None:
        hidden_rows = {int(row) for row, how in parser.row_dimensions.items() if _is_on(how.get("hidden"))}
        columns, hidden_columns = sorted({column for _, column in texts}), set[int]()
        for how in parser.column_dimensions.values():
            if _is_on(how.get("hidden")):
                span = bisect_left(columns, int(how["min"])), bisect_right(columns, int(how["max"]))
                hidden_columns.update(columns[slice(*span)])
        hidden = {at for at in texts if at[0] in hidden_rows or at[1] in hidden_columns}
        self.left_out["hidden rows"] += len({row for row, _ in hidden if row in hidden_rows})
        self.left_out["hidden columns"] += len({column for row, column in hidden if row not in hidden_rows})
        for at in hidden:
            del texts[at]

    def _cell_text(self, cell: Any) -> str:
        value = cell.value
        try:
            form = cell.number_format or ""
        except IndexError:  # of a style that the workbook doesn't have
            form = ""
        if value is None:
            return ""
        if isinstance(value, dt.timedelta):
            return printed_duration(value, form)
        if isinstance(value, (dt.datetime, dt.date, dt.time)):
            return printed_date(value, form) if self._shown else iso_date(value)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        return printed_number(value, form) if isinstance(value, (int, float)) else str(value)


class _Sheet(WorkSheetParser):  # type: ignore[misc]
    """A parser that counts the formulas whose value nobody has calculated, and keeps values that are no dates."""

    unknown = 0

    def parse_cell(self, element: Any) -> dict[str, Any]:
        stated = element.findtext(VALUE_TAG)
        self.unknown += not stated and element.find(FORMULA_TAG) is not None
        try:
            cell: dict[str, Any] = super().parse_cell(element)
        except ValueError:  # of a date
            element.set("t", "str")
            cell = super().parse_cell(element)
        if cell["value"] == "#VALUE!" and element.get("t", "n") == "n":
            cell |= {"value": stated, "data_type": "s"}
        return cell


def _is_on(value: str | None) -> bool:
    return value in ("1", "true")


def _repeat_merged(texts: dict[tuple[int, int], str], areas: list[CellRange]) -> None:
    """Give each row of a merged cell that has a text of its own the merged text, so that each row is complete."""
    rows, given = sorted({row for row, _ in texts}), 0
    for area in areas:
        text = texts.get((area.min_row, area.min_col), "")
        for row in rows[bisect_right(rows, area.min_row) : bisect_right(rows, area.max_row)] if text else ():
            texts[row, area.min_col] = text
            given += 1
        require_document(max(given, len(texts)))
