"""The context of a tick of the health judge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from hive_agents.events import Publish
from hive_agents.memory import ConversationStore
from hive_agents.models import Chain
from hive_agents.supervision.health.tickets import TicketBook

if TYPE_CHECKING:
    from hive_agents.supervision.health.criteria import Deployed
    from hive_agents.workspace import Workspace

OpenModels = Callable[[], Chain | None]
"""Return the judge's model; None without one."""


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass
class JudgeContext:
    """The judge may read the workspace and publish; nothing here can start, steer or stop a run.

    `book` and `stores` may be shared between ticks, which saves reading the log and conversations again.
    """

    workspace: Workspace
    publish: Publish
    now: dt.datetime = field(default_factory=_now)
    models: OpenModels | None = None
    book: TicketBook | None = None
    deployed: Deployed = lambda *_: None
    stores: dict[str, ConversationStore] = field(default_factory=dict)

    @cached_property
    def tickets(self) -> TicketBook:
        return self.book if self.book is not None else TicketBook(self.workspace)

    def store(self, tenant: str) -> ConversationStore:
        if tenant not in self.stores:
            self.stores[tenant] = ConversationStore(self.workspace, tenant=tenant)
        return self.stores[tenant]
