"""The view gate: asks the permission service again, and takes every doubt for a no."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hive_agents.access import PermissionService, Principal

log = logging.getLogger(__name__)


class Gate:
    """One reader's gate; nothing that was answered before counts."""

    def __init__(self, permissions: PermissionService, reader: Principal) -> None:
        self._permissions, self._reader = permissions, reader

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        """Those of `doc_ids` that the reader may view now; none where the service fails in any way."""
        asked = frozenset(doc_ids)
        if not asked:
            return asked
        try:
            answer = self._permissions.view(self._reader, sorted(asked))
            return asked & frozenset(answer)
        except Exception as error:
            log.warning(
                "the permission service failed, so %d documents are denied: %s", len(asked), type(error).__name__
            )
            return frozenset()
