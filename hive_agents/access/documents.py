"""The labels of a document as its file says now, for every doc_id that somebody may send."""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from hive_agents.access.labels import AccessLabels
from hive_agents.errors import HiveError
from hive_agents.files import frontmatter, jsontext, opened
from hive_agents.workspace import Workspace

Documents = Sequence[tuple[str, AccessLabels]]

# Front matter is at most MAX_FRONT_MATTER characters of up to four bytes, and the lines around it.
BUILDING = 600.0
"""Seconds before an index was written in which its documents may have been read."""
_NOBODYS = AccessLabels()
_HEAD = 4 * frontmatter.MAX_FRONT_MATTER + 4096


def labels_in_file(workspace: Workspace, doc_id: str) -> AccessLabels | None:
    """The labels of one document; see `DocumentFiles`."""
    return DocumentFiles(workspace).labels(doc_id)


class DocumentFiles:
    """The files below `documents/`, read at the time they are asked for."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = workspace.documents

    def labels(self, doc_id: str) -> AccessLabels | None:
        """The labels in the file's front matter; None for what is no document or can't be read. Never raises.

        A doc_id that leads out of `documents/`, by `..`, by a link or by being absolute, is no document.
        """
        try:
            head = self._head(doc_id)
            if head is None:
                return None
            text = jsontext.decode(head.removeprefix(b"\xef\xbb\xbf"), doc_id)
            return _labels(frontmatter.split(text, doc_id)[0])
        except (OSError, ValueError, TypeError, HiveError):
            return None

    def _head(self, doc_id: str) -> bytes | None:
        """The first lines of the document, read now."""
        parts = PurePosixPath(doc_id).parts
        if not doc_id.endswith(".md") or "/".join(parts) != doc_id or any(part.startswith(".") for part in parts):
            return None
        with os.fdopen(opened(self._folder.joinpath(*parts), os.O_RDONLY), "rb") as file:
            data = file.read(_HEAD)
        return data if len(data) < _HEAD else data[: data.rfind(b"\n") + 1]


class CurrentLabels:
    """The labels of indexed documents as they are now: a file that changed since it was indexed counts, not the index.

    `indexed` are (doc_id, labels), `since` is when they were written down, as ISO 8601. Safe to share between threads.
    """

    def __init__(self, workspace: Workspace, indexed: Documents, since: str) -> None:
        self._workspace, self._indexed = workspace, indexed
        self._since = int((dt.datetime.fromisoformat(since).timestamp() - BUILDING) * 1e9)
        self._changed: dict[str, tuple[tuple[int, int, int], AccessLabels]] = {}

    def now(self) -> Documents:
        """Return (doc_id, labels) in the order of the index; a file that is gone has labels that nobody fits."""
        root, files = os.path.join(os.path.realpath(self._workspace.documents), ""), DocumentFiles(self._workspace)
        return [(doc_id, self._now(doc_id, labels, root + doc_id, files)) for doc_id, labels in self._indexed]

    def _now(self, doc_id: str, labels: AccessLabels, path: str, files: DocumentFiles) -> AccessLabels:
        try:
            found = os.lstat(path)
        except (OSError, ValueError):
            return _NOBODYS
        linked = stat.S_ISLNK(found.st_mode)
        if found.st_ctime_ns < self._since and not linked:
            return labels
        seen = (found.st_ctime_ns, found.st_size, found.st_ino)
        known = self._changed.get(doc_id)
        if known is None or known[0] != seen or linked:
            known = self._changed[doc_id] = (seen, files.labels(doc_id) or _NOBODYS)
        return known[1]


# What a text means never changes; the text is read each time.
@lru_cache(maxsize=1024)
def _labels(block: str) -> AccessLabels | None:
    try:
        return AccessLabels.of(frontmatter.parse(block, "front matter"))
    except HiveError:
        return None  # kept, too: what can't be read takes longest
