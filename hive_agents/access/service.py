"""Permission services, asked anew for every batch, and the view gate before them; every failure denies.

A document's labels are read from its file, not from the index.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, Self

from hive_agents.access.principal import AccessLabels, Documents, Principal, owner
from hive_agents.access.rules import AccessRules, PermissionFault, is_open
from hive_agents.base import HiveError, files
from hive_agents.base.files import guarded, jsontext
from hive_agents.workspace import Workspace, is_trusted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("hive_agents.access")
_NO_ACCESS = AccessLabels()


class PermissionService(Protocol):
    """Decides who may view which documents; a fault denies everything, and only `ask` raises it."""

    @property
    def lists(self) -> bool:
        """Whether `scope` is exactly what the principal may view; otherwise it is the tenant's documents."""
        ...

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return those of `doc_ids` that the principal may view now, without any cache."""
        ...

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return the same as `view`. Raises: PermissionFault instead of denying everything."""
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
            # The file and its fault are the operator's business: `hive doctor` shows them.
            _log.warning("permissions can't be read; nothing is shown")
        return rules.visible(principal, documents)


class OpenPermissions:
    """Allows every document to the workspace's owner; `others` decides for everybody else."""

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
        import numpy as np

        if principal != self._owner:
            return self._others.scope(principal, documents)
        return np.ones(len(documents), np.bool_)

    def _existing(self, doc_ids: Sequence[str]) -> frozenset[str]:
        current = DocumentFiles(self._workspace)
        return frozenset(doc_id for doc_id in doc_ids if current.labels(doc_id) is not None)


def permissions_of(workspace: Workspace) -> PermissionService:
    """Return the service that the settings name: remote with `access.service_url`, else local; open mode adds the
    owner."""
    settings = workspace.settings.access
    service: PermissionService
    if settings.service_url:
        from hive_agents.access.remote import RemotePermissions

        trusted = partial(is_trusted, workspace, "access.service_url")
        service = RemotePermissions(settings.service_url, settings.timeout_seconds, trusted=trusted)
    else:
        service = LocalPermissions(workspace, settings.timeout_seconds)
    return OpenPermissions(workspace, service) if is_open(workspace) else service


class ViewGate:
    """A reader's gate, without any cache."""

    def __init__(self, permissions: PermissionService, reader: Principal) -> None:
        self._permissions, self._reader = permissions, reader

    @classmethod
    def of(cls, workspace: Workspace, reader: Principal) -> Self:
        """Return the gate by the workspace's permissions."""
        return cls(permissions_of(workspace), reader)

    @property
    def lists(self) -> bool:
        """Whether the service tells which documents a reader may view, so that a scope has no others."""
        return self._permissions.lists

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return those of `doc_ids` that the reader may view now; none on any failure of the service."""
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
    """The gate of one turn: after a fault the service is not asked again, so that a turn waits for it once.

    `fault` is the reason, None before any fault.
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
    """The files below `documents/`, read at each call."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = workspace.documents

    def labels(self, doc_id: str) -> AccessLabels | None:
        """Return the labels in the file's front matter; None where there is no readable document. Never raises.

        A doc_id that leads out of `documents/`, by `..`, a link or an absolute path, is no document.
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
        """Return the first lines of the document."""
        if not doc_id.endswith(".md") or any(part == "" or part[0] == "." for part in doc_id.split("/")):
            return None
        # Characters of up to four bytes, and the lines around them.
        most = 4 * files.frontmatter.MAX_FRONT_MATTER + 4096
        data = guarded.read_start(self._folder / doc_id, most)
        return data if len(data) < most else data[: data.rfind(b"\n") + 1]


class CurrentLabels:
    """The current labels of indexed documents: those of the file where it may have changed since it was indexed.

    `indexed` are (doc_id, labels); `is_as_indexed` tells by the status of a document's file whether it surely has the
    content that is indexed. Safe to share between threads.
    """

    def __init__(
        self, workspace: Workspace, indexed: Documents, is_as_indexed: Callable[[str, os.stat_result], bool]
    ) -> None:
        self._workspace, self._indexed, self._is_as_indexed = workspace, indexed, is_as_indexed
        self._seen: dict[str, tuple[tuple[int, int, int], AccessLabels]] = {}

    def now(self) -> Documents:
        """Return (doc_id, labels) in the order of the index; the labels of a missing file admit nobody."""
        current, documents = DocumentFiles(self._workspace), []
        try:
            with guarded.parent_of(self._workspace.documents / "_") as (folder, _):
                for doc_id, labels in self._indexed:
                    try:
                        status = os.lstat(f"./{doc_id}", dir_fd=folder)
                    except (OSError, ValueError):
                        documents.append((doc_id, _NO_ACCESS))
                        continue
                    stamp, linked = (status.st_ctime_ns, status.st_size, status.st_ino), stat.S_ISLNK(status.st_mode)
                    seen = self._seen.get(doc_id)
                    if seen is None or seen[0] != stamp or linked:
                        if linked or not self._is_as_indexed(doc_id, status):
                            labels = current.labels(doc_id) or _NO_ACCESS
                        seen = self._seen[doc_id] = stamp, labels
                    documents.append((doc_id, seen[1]))
        except (OSError, HiveError):  # the folder is gone
            return [(doc_id, _NO_ACCESS) for doc_id, _ in self._indexed]
        return documents


# Only the parsing is cached; the text is read each time.
@lru_cache(maxsize=1024)
def _labels(block: str) -> AccessLabels | None:
    try:
        return AccessLabels.of(files.frontmatter.parse(block, "front matter"))
    except HiveError:
        return None  # cached, too: unreadable text takes longest
