"""Refreshes the index before a search, at most once a second."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from hive_agents.base import EngineFault
from hive_agents.ranking import build_index

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

GOOD_FOR = 1.0
"""Seconds for which a refresh counts as current."""


class Freshness:
    """Indexes changed documents; concurrent callers wait for the refresh under way."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._refreshed_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None

    async def current(self) -> None:
        """As `refresh`, on the event loop: all that wait share one thread.

        With a thread for each, a long refresh could occupy the whole pool.
        """
        if self._refreshing is None:
            if not self._is_due():
                return
            self._refreshing = asyncio.ensure_future(run_in_threadpool(self.refresh))
            self._refreshing.add_done_callback(self._done)
        await asyncio.shield(self._refreshing)

    def _done(self, refreshing: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not refreshing.cancelled():
            refreshing.exception()  # marks it as retrieved, where all that waited were cancelled

    def _is_due(self) -> bool:
        return self._workspace.settings.index.auto_refresh and time.monotonic() - self._refreshed_at >= GOOD_FOR

    def refresh(self, *, now: bool = False) -> None:
        """Index changed documents, unless `index.auto_refresh` is off; with `now` always and completely, for a
        measurement.

        Raises: as `build_index`.
        """
        with self._lock:
            if now:
                build_index(self._workspace)
            elif self._is_due():
                self._look()
            else:
                return
            self._refreshed_at = time.monotonic()

    def changed(self) -> None:
        """Index a change that was made a moment ago, as `refresh`."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        # Without an engine questions are answered from the state before, which each host has by itself.
        with suppress(EngineFault):
            build_index(self._workspace, quick=True)
