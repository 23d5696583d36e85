"""The index, brought up to date before a search: at most once a second, however many ask."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

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
        self._looking: asyncio.Task[None] | None = None

    async def current(self) -> None:
        """As `refresh`, on the event loop: all who wait for a look share one thread.

        Each would have a thread of its own else, and a long look would leave none for anything else.
        """
        if self._looking is None:
            if not self._is_due():
                return
            self._looking = asyncio.ensure_future(run_in_threadpool(self.refresh))
            self._looking.add_done_callback(self._done)
        await asyncio.shield(self._looking)

    def _done(self, looking: asyncio.Task[None]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.exception()  # told to all who waited, if anybody still did

    def _is_due(self) -> bool:
        return self._workspace.settings.index.auto_refresh and time.monotonic() - self._looked >= GOOD_FOR

    def refresh(self, *, now: bool = False) -> None:
        """Index what changed, unless `index.auto_refresh` is off; `now`, whatever the setting, for a measurement.

        Raises: what building an index raises.
        """
        with self._lock:
            if now or self._is_due():
                build_index(self._workspace, quick=not now)
                self._looked = time.monotonic()
