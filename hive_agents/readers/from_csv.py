"""CSV and TSV to tables, values unchanged."""

from __future__ import annotations

import csv
import io

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported, ImportFailure, TableRow
from hive_agents.readers.rows import rows_as_markdown, rows_of_texts

_SAMPLE = 64_000


def from_csv(data: bytes) -> Imported:
    return Imported(rows_as_markdown(_table(data)) + "\n")


def csv_rows(data: bytes) -> list[TableRow] | None:
    return rows_of_texts(_table(data))


def _table(data: bytes) -> list[list[str]]:
    """Return the rows that aren't blank. Raises: ImportFailure."""
    text = decode(data)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:_SAMPLE], delimiters=",;\t|")
        dialect.doublequote = True  # guessed from a few rows otherwise; other escapes of quotes are hardly used
    except csv.Error:
        dialect = csv.excel_tab if "\t" in text[:_SAMPLE].split("\n", 1)[0] else csv.excel
    csv.field_size_limit(len(text) + 1)  # a cell may hold an article
    try:
        return [row for row in csv.reader(io.StringIO(text), dialect) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ImportFailure(f"not a readable table: {error}") from None
