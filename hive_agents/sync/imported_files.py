"""Reading, writing and removal of an import's documents below `documents/`."""

from __future__ import annotations

import difflib
from pathlib import Path

from hive_agents.base.files import atomic_write, guarded, read_bytes
from hive_agents.readers import ImportFailure
from hive_agents.workspace import Workspace


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
        except guarded.LinkRefused:
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


def difference(base: str, text: str, doc_id: str) -> str:
    """Return what changed in the source as a unified diff."""
    lines = difflib.unified_diff(
        base.splitlines(keepends=True), text.splitlines(keepends=True), f"{doc_id} (before)", f"{doc_id} (source now)"
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
