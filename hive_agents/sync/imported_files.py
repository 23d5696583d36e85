"""Reading, writing and removal of an import's documents below `documents/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from hive_agents.base.files import LinkRefused, atomic_write, read_bytes
from hive_agents.readers import ImportFailure, TableRow, is_table, rows_in
from hive_agents.sync.sources import Listing, SourceFile
from hive_agents.workspace import Workspace


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


class ImportedFiles:
    """The documents of a workspace by doc_id. Raises: ImportFailure for a place that can't be read or written."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def path(self, doc_id: str) -> Path:
        return self._workspace.documents / doc_id

    def text(self, doc_id: str) -> str | None:
        """Return the document's text, None where there is none."""
        try:
            return read_bytes(self.path(doc_id)).decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except LinkRefused:
            raise ImportFailure("its place below documents/ is a link that leaves the folder") from None
        except OSError as error:
            raise ImportFailure(f"documents/{doc_id} cannot be read: {error.strerror}") from error

    def put(self, doc_id: str, text: str) -> None:
        """Write a document; links aren't followed."""
        path = self.path(doc_id)
        root = self._workspace.documents.resolve()
        blocked = next((folder for folder in path.parents if folder.is_file()), None)
        if blocked is not None:
            raise ImportFailure(f"{blocked.name} is a document already, and would be its folder; rename one of them")
        if path.is_symlink() or not path.parent.resolve().is_relative_to(root):
            raise ImportFailure("its place below documents/ is a link that leaves the folder")
        atomic_write(path, text.encode("utf-8", "surrogateescape"))

    def remove(self, doc_id: str) -> None:
        """Remove a document, and folders that become empty."""
        path = self.path(doc_id)
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._workspace.documents or any(folder.iterdir()):
                break
            folder.rmdir()

    def note(self, doc_id: str, text: str, *, suffix: str) -> str:
        """Write a text about a document outside of `documents/`; return its path in the workspace."""
        path = self._workspace.state / "imports" / f"{doc_id}{suffix}"
        atomic_write(path, text.encode("utf-8", "surrogateescape"))
        return self._workspace.relative(path)
