"""Tables whose rows are documents, listed like folders with a file for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hive_agents.readers import ImportFailure, TableRow, is_table, rows_in
from hive_agents.sync.sources import Listing, SourceFile


def with_rows(listing: Listing) -> Listing:
    """Return the listing with each table of texts replaced by its rows.

    A table that can't be read is refused, so that its documents don't count as deleted.
    """
    found: list[SourceFile] = []
    refused = dict(listing.refused)
    for file in listing.found:
        try:
            found += _rows(file) if is_table(file.file.name) else [file]
        except ImportFailure as failure:
            refused[str(file.file)] = str(failure)
    return replace(listing, found=found, refused=refused)


def _rows(table: SourceFile) -> Iterator[SourceFile]:
    rows = rows_in(table.file.name, table.read())
    if rows is None:
        yield table
        return
    for row in rows:
        yield SourceFile(table.file / row.key, f"{table.shown} ({row.title})", _bytes(row), row)


def _bytes(row: TableRow) -> Callable[[], bytes]:
    return lambda: f"{row.title}\n\n{row.markdown}".encode()
