"""What a document says about its readers in its front matter, when it was indexed and as its file says now."""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from hive_agents.access.principal import is_name, is_subject
from hive_agents.errors import HiveError
from hive_agents.files import frontmatter, jsontext, opened
from hive_agents.workspace import Workspace


@dataclass(frozen=True, slots=True)
class AccessLabels:
    """Whose the document is, and who of them may view it.

    `fault` says why the labels can't be read; then `view` is empty, and grants don't add to it.

    >>> AccessLabels.of({"tenant": "acme", "view": ["group:qa"]}).view
    frozenset({'group:qa'})
    >>> AccessLabels.of({"tenant": "acme", "view": ["qa"]}).fault
    'view: "qa" is neither user:ID, group:ID nor tenant'
    """

    tenants: frozenset[str] = frozenset()
    view: frozenset[str] = frozenset()
    fault: str | None = None

    @classmethod
    def of(cls, front_matter: Mapping[str, Any]) -> AccessLabels:
        """The labels in a front matter; a text counts as a list of one. Never raises: what is malformed is a fault."""
        tenants = _listed(front_matter, "tenant", is_name, "is no tenant's name")
        view = _listed(front_matter, "view", is_subject, "is neither user:ID, group:ID nor tenant")
        if isinstance(tenants, str):
            return _shared(frozenset(), frozenset(), tenants)
        if isinstance(view, str):
            return _shared(tenants, frozenset(), view)
        return _shared(tenants, view, None)


# Thousands of documents share a few labels, and may share the object too.
_shared = lru_cache(maxsize=4096)(AccessLabels)


def _listed(
    front_matter: Mapping[str, Any], key: str, fits: Callable[[object], bool], why_not: str
) -> frozenset[str] | str:
    """The values under `key`, or what is wrong with them."""
    value = front_matter.get(key)
    if value is None:
        return frozenset()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        return f"{key} is neither a text nor a list of texts"
    for one in values:
        if not fits(one):
            shown = f'"{one}"' if isinstance(one, str) else str(one)
            return f"{key}: {shown[:60]} {why_not}"
    return frozenset(values)


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
