"""Tables whose rows are documents: as if each were a folder that holds a file for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hive_agents.importing.conversion import is_table, rows_in
from hive_agents.importing.imported import ImportFailure, TableRow
from hive_agents.importing.sources import Listing, SourceFile


def with_rows(listing: Listing) -> Listing:
    """Return what a source holds, with the rows of each table of texts in its place.

    A table that can't be read is refused, so that its documents don't look deleted.
    """
    found: list[SourceFile] = []
    refused = dict(listing.refused)
    for one in listing.found:
        try:
            found += _rows(one) if is_table(one.file.name) else [one]
        except ImportFailure as failure:
            refused[str(one.file)] = str(failure)
    return replace(listing, found=found, refused=refused)


def _rows(one: SourceFile) -> Iterator[SourceFile]:
    rows = rows_in(one.file.name, one.read())
    if rows is None:
        yield one
        return
    for row in rows:
        yield SourceFile(one.file / row.key, f"{one.shown} ({row.title})", _bytes(row), row)


def _bytes(row: TableRow) -> Callable[[], bytes]:
    return lambda: f"{row.title}\n\n{row.markdown}".encode()
