"""CSV and TSV: a table, every value as it stands there."""

from __future__ import annotations

import csv
import io

from hive_agents.importing.decoding import decode
from hive_agents.importing.html_in_markdown import without_tags
from hive_agents.importing.imported import Imported, ImportFailure
from hive_agents.importing.markdown import escape, table

_SAMPLE = 64_000
MAX_CELLS = 500_000


def from_csv(data: bytes) -> Imported:
    text = decode(data)
    try:
        dialect: type[csv.Dialect] | csv.Dialect = csv.Sniffer().sniff(text[:_SAMPLE], delimiters=",;\t|")
        dialect.doublequote = True  # it is guessed from a few rows, and no other way to write a quote is in use
    except csv.Error:
        dialect = csv.excel_tab if "\t" in text[:_SAMPLE].split("\n", 1)[0] else csv.excel
    try:
        rows = [row for row in csv.reader(io.StringIO(text), dialect) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ImportFailure(f"not a readable table: {error}") from None
    return Imported(rows_as_markdown([[without_tags(cell) for cell in row] for row in rows]) + "\n")


def rows_as_markdown(rows: list[list[str]]) -> str:
    """Return the rows as a pipe table, its first row the head. Raises: ImportFailure for a data set."""
    if sum(map(len, rows)) > MAX_CELLS:
        raise ImportFailure(
            f"over {MAX_CELLS:,} cells: a data set rather than a document; export the part that is read"
        )
    return table([[escape(cell) for cell in row] for row in rows])
