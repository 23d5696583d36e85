"""The index, brought up to date before a search: at most once a second, however many ask."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from hive_agents.retrieval import build_index

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

GOOD_FOR = 1.0
"""Seconds for which a look at the documents holds."""


class Freshness:
    """Looks for changed documents; whoever comes while somebody looks waits for that look."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._looked = float("-inf")

    def refresh(self, *, now: bool = False) -> None:
        """Index what changed, unless `index.auto_refresh` is off; `now`, whatever the setting, for a measurement.

        Raises: what building an index raises.
        """
        if not now and not self._workspace.settings.index.auto_refresh:
            return
        with self._lock:
            if now or time.monotonic() - self._looked >= GOOD_FOR:
                build_index(self._workspace)
                self._looked = time.monotonic()
