"""Subscriptions of the enabled SSE triggers, kept in step with their files."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hive_agents.base import HiveError
from hive_agents.triggers.files import all_triggers
from hive_agents.triggers.firing import Fire, kind_of
from hive_agents.triggers.spec import SseTrigger
from hive_agents.triggers.sse import StreamSubscription

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

POLL_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Subscriptions:
    """Keeps one subscription for each SSE trigger; `active` has them by the trigger's id."""

    def __init__(self, workspace: Workspace, fire: Fire) -> None:
        self.workspace, self._fire = workspace, fire
        self.active: dict[str, StreamSubscription] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run until cancelled; all subscriptions end with it."""
        try:
            while True:
                try:
                    await self.refresh()
                except HiveError as error:
                    _log.warning("triggers: %s", kind_of(error))
                await asyncio.sleep(POLL_SECONDS)
        finally:
            await self._end(list(self._tasks))

    async def refresh(self) -> None:
        """Start new subscriptions, end removed or disabled ones, and restart changed or failed ones."""
        sound, _ = await asyncio.to_thread(all_triggers, self.workspace)
        wanted = {spec.id: spec for spec in sound if isinstance(spec, SseTrigger) and spec.enabled}
        for id, task in self._tasks.items():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                _log.error("trigger %s: its subscription failed: %s", id, kind_of(error))
                del self.active[id]
        await self._end([id for id in self._tasks if id not in self.active or self.active[id].spec != wanted.get(id)])
        for id, spec in wanted.items():
            if id not in self._tasks:
                self.active[id] = StreamSubscription(self.workspace, spec, self._fire)
                self._tasks[id] = asyncio.create_task(self.active[id].run(), name=f"trigger {id}")

    async def _end(self, ids: list[str]) -> None:
        tasks = [self._tasks.pop(id) for id in ids]
        for id in ids:
            self.active.pop(id, None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
