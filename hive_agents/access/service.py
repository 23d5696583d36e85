"""Permission services, asked afresh for every batch, and the view gate before them: whatever goes wrong denies."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hive_agents.access.documents import DocumentFiles, Documents
from hive_agents.access.principal import Principal
from hive_agents.access.rules import AccessRules, PermissionFault, is_open
from hive_agents.access.who import owner
from hive_agents.trust import is_trusted
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from numpy.typing import NDArray


_log = logging.getLogger("hive_agents.access")


class PermissionService(Protocol):
    """Who may view which documents; a fault denies everything that was asked, and `ask` alone raises it."""

    @property
    def lists(self) -> bool:
        """Whether `scope` is exactly what the principal may view; where not, it is the tenant's documents."""
        ...

    def view(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """Those of `doc_ids` that the principal may view at this moment; nothing that was cached counts."""
        ...

    def ask(self, principal: Principal, doc_ids: Sequence[str]) -> frozenset[str]:
        """As `view`, and says why it denies. Raises: PermissionFault."""
        ...

    def scope(self, principal: Principal, documents: Documents) -> NDArray[np.bool_]:
        """Which of `documents` (doc_id, labels) a search of the principal may score, shape (n,)."""
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
        documents, files = [], DocumentFiles(self._workspace)
        for doc_id in dict.fromkeys(doc_ids):
            labels = files.labels(doc_id)
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
        files = DocumentFiles(self._workspace)
        return frozenset(one for one in doc_ids if files.labels(one) is not None)


def permissions_of(workspace: Workspace) -> PermissionService:
    """The service that the settings name: remote with `access.service_url`, else local; open mode adds the owner."""
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
