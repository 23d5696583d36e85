"""The health judge: it reads what the workers' log says, and tells of what is wrong; nothing else.

It may read the workspace and publish events, and imports nothing that could start, steer or stop a run. A new cause of
tickets is a detector in `detectors`, what it looks at a field of `summary`, what a tick does a step of `steps`.

The public names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_agents.supervision.health.context import JudgeContext, OpenModels
    from hive_agents.supervision.health.criteria import align, stale_criteria
    from hive_agents.supervision.health.steps import assess, detect, looked_back, observe, remember, tell
    from hive_agents.supervision.health.summary import WorkerHealth, get_worker_health_summary, watched_tenants
    from hive_agents.supervision.health.tickets import TicketBook, emit_escalation_ticket

_HOMES = {
    "context": ["JudgeContext", "OpenModels"],
    "criteria": ["align", "stale_criteria"],
    "steps": ["assess", "detect", "looked_back", "observe", "remember", "tell"],
    "summary": ["WorkerHealth", "get_worker_health_summary", "watched_tenants"],
    "tickets": ["TicketBook", "emit_escalation_ticket"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "JudgeContext",
    "OpenModels",
    "TicketBook",
    "WorkerHealth",
    "align",
    "assess",
    "detect",
    "emit_escalation_ticket",
    "get_worker_health_summary",
    "looked_back",
    "observe",
    "remember",
    "stale_criteria",
    "tell",
    "watched_tenants",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
