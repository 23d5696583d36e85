"""Run the health judge: a tick every two minutes by default, and at once when a run fails."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from typing import TYPE_CHECKING

from hive_agents.agents import deployed_text
from hive_agents.base import HiveError
from hive_agents.events import Bell, Bus, EventType
from hive_agents.memory import ConversationStore
from hive_agents.models import Chain, open_chain, tracing
from hive_agents.runs import load_graph
from hive_agents.supervision.health import JudgeContext, OpenModels, TicketBook, steps, watched_tenants

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

PAUSE = 0.5
"""Minimum seconds between ticks: many runs may fail at once."""

_log = logging.getLogger("hive_agents.health")


class HealthJudge:
    """Watches the runs of all tenants of a workspace; one judge is enough, and more do no harm.

    Between ticks are `seconds`, by default `judge.tick_seconds`. `models` opens the model that assesses, by default
    that of the settings; without a model there are only the fixed rules. Failures in other processes are seen at the
    next tick.
    """

    def __init__(
        self, workspace: Workspace, bus: Bus, *, seconds: float | None = None, models: OpenModels | None = None
    ) -> None:
        self.workspace, self.bus = workspace, bus
        self.seconds = seconds if seconds is not None else workspace.settings.judge.tick_seconds
        self._models = models or self._configured
        self._book = TicketBook(workspace)
        self._stores: dict[str, ConversationStore] = {}
        self._turn = asyncio.Lock()
        self._chain: Chain | None = None

    async def tick(self, now: dt.datetime | None = None) -> None:
        """Check all tenants once and publish tickets; the failure of one tenant's tick is logged."""
        async with self._turn:
            at = now or dt.datetime.now(dt.UTC)
            try:
                context = self._context(at)
                tenants = await asyncio.to_thread(self._tenants, context)
            except Exception as error:
                _log.warning("the health judge could not look: %s", _kind_of(error))
                return
            for tenant in sorted(tenants):
                try:
                    await self._judge(tenant, context)
                except Exception as error:
                    _log.warning("a tick of the health judge failed for %s: %s", tenant, _kind_of(error))

    async def run(self) -> None:
        """Tick until cancelled."""
        with Bell(self.bus, {EventType.RUN_FAILED}) as bell:
            while True:
                await self.tick()
                await asyncio.sleep(min(PAUSE, self.seconds))
                await bell.wait(self.seconds)

    async def _judge(self, tenant: str, context: JudgeContext) -> None:
        # No checkpointer: a tick can be repeated, since its results are in the log and in the conversation.
        with tracing(self.workspace):
            await load_graph("judge").ainvoke({"tenant": tenant}, context=context)

    def _context(self, now: dt.datetime) -> JudgeContext:
        return JudgeContext(
            self.workspace, self.bus.publish, now, self._models, self._book, deployed=deployed_text, stores=self._stores
        )

    def _tenants(self, context: JudgeContext) -> set[str]:
        """Return the tenants with recent runs or open tickets."""
        if not self.workspace.records.exists():
            return set()
        self._book.catch_up()
        return watched_tenants(self.workspace, steps.looked_back(context)) | {one.tenant for one in self._book.open()}

    def _configured(self) -> Chain | None:
        settings = self.workspace.settings
        names = settings.models.of("judge")
        if self._chain is None and names:
            self._chain = open_chain(names, settings, workspace=self.workspace)
        return self._chain


def _kind_of(error: Exception) -> str:
    """Return the kind of error, without its message, which may quote a run."""
    return error.diagnostics[0].code if isinstance(error, HiveError) else type(error).__name__
