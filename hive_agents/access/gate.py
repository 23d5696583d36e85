"""The view gate: asks the permission service again, and takes every doubt for a no."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from hive_agents.access.principal import Principal
from hive_agents.access.remote import PermissionFault
from hive_agents.access.service import PermissionService

log = logging.getLogger(__name__)


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
        log.warning("permissions: %s; all that was asked about is denied", why)


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
