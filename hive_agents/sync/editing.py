"""Single documents of imports: where they came from, and changes and deletions that the next import keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.readers import ImportFailure
from hive_agents.store import connected
from hive_agents.sync.forgetting import forget_sources
from hive_agents.sync.imported_files import ImportedFiles
from hive_agents.sync.importing import import_documents
from hive_agents.workspace import Workspace

_FROM = "FROM imports JOIN import_sources USING (source)"


def outcome_of(workspace: Workspace, source: Path) -> tuple[list[str], str | None]:
    """Return the doc_ids of the documents of a source, and why its last import left a file out."""
    with connected(workspace.database) as connection:
        rows = connection.execute(f"SELECT doc_id, refused {_FROM} WHERE path = ? ORDER BY file", (str(source),))
        found = rows.fetchall()
    return [row[0] for row in found if row[0] is not None], next((row[1] for row in found if row[1] is not None), None)


def sources_of(workspace: Workspace, doc_ids: Sequence[str]) -> dict[str, Path]:
    """Return the file or folder that each of these documents was imported from, for those that were."""
    with connected(workspace.database) as connection:
        find = f"SELECT path {_FROM} WHERE doc_id = ?"
        found = {doc_id: connection.execute(find, (doc_id,)).fetchone() for doc_id in doc_ids}
    return {doc_id: Path(row[0]) for doc_id, row in found.items() if row is not None}


def change_fields(
    workspace: Workspace, doc_id: str, fields: Mapping[str, Any], require: Callable[[], object] = lambda: None
) -> None:
    """Set fields of a document's front matter; None removes one.

    `require` raises where they may not be set: it is asked once nobody else writes, who might have changed that.

    Those of a document that is a source's only one are remembered with the source.

    Raises: as `import_documents`; HIVE-403 for a document that can't be read or written.
    """
    source = _own_source(workspace, doc_id)
    if source is not None and source[0].is_file():
        import_documents(workspace, source[0], to=source[1], metadata=fields, require=require)
    files = ImportedFiles(workspace)
    with workspace.exclusive("importing"):
        try:
            block, body = frontmatter.split((files.text(doc_id) or "").removeprefix("\ufeff"), doc_id)
            before = frontmatter.values(block, doc_id)
            after = {name: value for name, value in {**before, **fields}.items() if value is not None}
            if after != before:
                require()
                files.put(doc_id, frontmatter.render(after, body))
        except ImportFailure as failure:
            raise HiveError.of("HIVE-403", str(failure), path=doc_id, fix="try again in a moment") from None


def delete_document(workspace: Workspace, doc_id: str, require: Callable[[], object] = lambda: None) -> Path | None:
    """Delete a document, and forget its source if it has no other; return the forgotten source. `require` is as in
    `change_fields`.

    A document of a larger source stays away until its file changes.
    """
    source = _own_source(workspace, doc_id)
    if source is not None:
        forget_sources(workspace, [str(source[0])], to=source[1], require=require)
    with workspace.exclusive("importing"):
        require()
        ImportedFiles(workspace).remove(doc_id)
    return source[0] if source is not None else None


def _own_source(workspace: Workspace, doc_id: str) -> tuple[Path, str] | None:
    """Return the path and the place of the file that is a source, and whose only document this is."""
    with connected(workspace.database) as connection:
        row = connection.execute(
            f"SELECT source, path, place {_FROM} WHERE doc_id = ? AND pattern = '' AND rev IS NULL", (doc_id,)
        ).fetchone()
        if row is None or Path(row[1]).is_dir():
            return None
        others = "SELECT count(*) FROM imports WHERE source = ? AND doc_id IS NOT NULL"
        return (Path(row[1]), row[2]) if connection.execute(others, (row[0],)).fetchone()[0] == 1 else None
