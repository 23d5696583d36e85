"""Permission services, asked afresh for every batch, and the view gate before them: whatever goes wrong denies.

What a document's front matter says of its readers counts as its file says it now, and not as it was indexed.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import stat
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hive_agents import files
from hive_agents.access.principal import AccessLabels, Documents, Principal
from hive_agents.access.rules import AccessRules, PermissionFault, is_open
from hive_agents.access.who import owner
from hive_agents.errors import HiveError
from hive_agents.files import jsontext, parent_of, read_start
from hive_agents.trust import is_trusted
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray


_log = logging.getLogger("hive_agents.access")
BUILDING = 600.0
"""Seconds before an index was written in which its documents may have been read."""
_NOBODYS = AccessLabels()


class PermissionService(Protocol):
    """Who may view which documents; a fault denies everything that was asked, and `ask` alone raises it."""

    @property
    def lists(self) -> bool:
        """Whether `scope` is exactly what the principal may view; where not, it is the tenant's documents."""
        ...

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return those of `doc_ids` that the principal may view at this moment; nothing that was cached counts."""
        ...

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """As `view`, and says why it denies. Raises: PermissionFault."""
        ...

    def scope(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        """Return which of `documents` (doc_id, labels) a search of the principal may score, shape (n,)."""
        ...


class LocalPermissions:
    """Answers from `access/*.json` and from the documents' front matter, both read at each call."""

    lists = True

    def __init__(self, workspace: Workspace, timeout: float = 2.0) -> None:
        self._workspace = workspace
        self._timeout = timeout

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        try:
            return self.ask(principal, doc_ids)
        except PermissionFault as fault:
            _log.warning("permissions: %s; all that was asked about is denied", fault)
            return frozenset()

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        deadline = time.monotonic() + self._timeout
        rules = AccessRules.load(self._workspace)
        documents, current = [], DocumentFiles(self._workspace)
        for doc_id in dict.fromkeys(doc_ids):
            labels = current.labels(doc_id)
            if labels is not None:
                documents.append((doc_id, labels))
            if time.monotonic() > deadline:
                raise PermissionFault(f"no answer within {self._timeout:g} s")
        allowed = rules.visible(principal, documents).tolist()
        return frozenset(doc_id for (doc_id, _), may in zip(documents, allowed, strict=True) if may)

    def scope(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        rules = AccessRules.load(self._workspace)
        if rules.faults:
            # Which file it is and what is wrong with it are for whoever keeps the workspace: `hive doctor` tells them.
            _log.warning("permissions can't be read; nothing is shown")
        return rules.visible(principal, documents)


class OpenPermissions:
    """Shows every document to the workspace's owner; everybody else is asked about at `others`."""

    def __init__(self, workspace: Workspace, others: PermissionService) -> None:
        self._workspace = workspace
        self._others = others
        self._owner = owner()

    @property
    def lists(self) -> bool:
        return self._others.lists

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        return self._existing(doc_ids) if principal == self._owner else self._others.view(principal, doc_ids)

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        return self._existing(doc_ids) if principal == self._owner else self._others.ask(principal, doc_ids)

    def scope(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        if principal != self._owner:
            return self._others.scope(principal, documents)
        return np.ones(len(documents), np.bool_)

    def _existing(self, doc_ids: Sequence[str]) -> frozenset[str]:
        current = DocumentFiles(self._workspace)
        return frozenset(one for one in doc_ids if current.labels(one) is not None)


def permissions_of(workspace: Workspace) -> PermissionService:
    """Return the service that the settings name: remote with `access.service_url`, else local; open mode adds the
    owner."""
    settings = workspace.settings.access
    service: PermissionService
    if settings.service_url:
        from hive_agents.access.remote import RemotePermissions

        trusted = partial(is_trusted, workspace)
        service = RemotePermissions(settings.service_url, settings.timeout_seconds, trusted=trusted)
    else:
        service = LocalPermissions(workspace, settings.timeout_seconds)
    return OpenPermissions(workspace, service) if is_open(workspace) else service


class ViewGate:
    """One reader's gate; nothing that was answered before counts."""

    def __init__(self, permissions: PermissionService, reader: Principal) -> None:
        self._permissions, self._reader = permissions, reader

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return those of `doc_ids` that the reader may view now; none where the service fails in any way."""
        asked = frozenset(doc_ids)
        if not asked:
            return asked
        try:
            return asked & frozenset(self._permissions.ask(self._reader, sorted(asked)))
        except Exception as error:
            self._failed(str(error) if isinstance(error, PermissionFault) else type(error).__name__)
            return frozenset()

    def shows_all(self, doc_ids: Iterable[str]) -> bool:
        """Return whether the reader may view each of them now."""
        asked = frozenset(doc_ids)
        return asked == self.allowed(sorted(asked))

    def _failed(self, why: str) -> None:
        _log.warning("permissions: %s; all that was asked about is denied", why)


class TurnGate(ViewGate):
    """The gate of one turn: after a fault nobody is asked again, so that a turn waits for it once.

    `fault` says what went wrong; None as long as nothing did.
    """

    fault: str | None = None

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        return super().allowed(doc_ids) if self.fault is None else frozenset()

    def _failed(self, why: str) -> None:
        super()._failed(why)
        self.fault = why


def labels_in_file(workspace: Workspace, doc_id: str) -> AccessLabels | None:
    """Return the labels of one document; see `DocumentFiles`."""
    return DocumentFiles(workspace).labels(doc_id)


class DocumentFiles:
    """The files below `documents/`, read at the time they are asked for."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = workspace.documents

    def labels(self, doc_id: str) -> AccessLabels | None:
        """Return the labels in the file's front matter; None for what is no document or can't be read. Never raises.

        A doc_id that leads out of `documents/`, by `..`, by a link or by being absolute, is no document.
        """
        try:
            head = self._head(doc_id)
            if head is None:
                return None
            text = jsontext.decode(head.removeprefix(b"\xef\xbb\xbf"), doc_id)
            return _labels(files.frontmatter.split(text, doc_id)[0])
        except (OSError, ValueError, TypeError, HiveError):
            return None

    def _head(self, doc_id: str) -> bytes | None:
        """Return the first lines of the document, read now."""
        if not doc_id.endswith(".md") or any(part == "" or part[0] == "." for part in doc_id.split("/")):
            return None
        # Characters of up to four bytes, and the lines around them.
        most = 4 * files.frontmatter.MAX_FRONT_MATTER + 4096
        data = read_start(self._folder / doc_id, most)
        return data if len(data) < most else data[: data.rfind(b"\n") + 1]


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
        current, documents = DocumentFiles(self._workspace), []
        try:
            with parent_of(self._workspace.documents / "_") as (folder, _):
                for doc_id, labels in self._indexed:
                    try:
                        found = os.lstat(f"./{doc_id}", dir_fd=folder)
                    except (OSError, ValueError):
                        documents.append((doc_id, _NOBODYS))
                        continue
                    unchanged = found.st_ctime_ns < self._since and not stat.S_ISLNK(found.st_mode)
                    documents.append((doc_id, labels if unchanged else self._read(doc_id, found, current)))
        except (OSError, HiveError):  # the folder is gone
            return [(doc_id, _NOBODYS) for doc_id, _ in self._indexed]
        return documents

    def _read(self, doc_id: str, found: os.stat_result, current: DocumentFiles) -> AccessLabels:
        """Return the labels of a file that may have changed; those of one that was read and is the same again."""
        seen, linked = (found.st_ctime_ns, found.st_size, found.st_ino), stat.S_ISLNK(found.st_mode)
        known = self._changed.get(doc_id)
        if known is None or known[0] != seen or linked:
            known = self._changed[doc_id] = (seen, current.labels(doc_id) or _NOBODYS)
        return known[1]


# What a text means never changes; the text is read each time.
@lru_cache(maxsize=1024)
def _labels(block: str) -> AccessLabels | None:
    try:
        return AccessLabels.of(files.frontmatter.parse(block, "front matter"))
    except HiveError:
        return None  # kept, too: what can't be read takes longest
