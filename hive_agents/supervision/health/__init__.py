"""The health judge: it reads what the workers' log says, and tells of what is wrong; nothing else.

It may read the workspace and publish events, and imports nothing that could start, steer or stop a run. A new cause of
tickets is a detector in `detectors`, what it looks at a field of `summary`, what a tick does a step of `steps`.
"""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.supervision.health.context import JudgeContext, OpenModels
    from hive_agents.supervision.health.criteria import align, stale_criteria
    from hive_agents.supervision.health.steps import assess, detect, looked_back, observe, remember, tell
    from hive_agents.supervision.health.summary import WorkerHealth, get_worker_health_summary, watched_tenants
    from hive_agents.supervision.health.tickets import TicketBook, emit_escalation_ticket

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "context": "JudgeContext OpenModels",
            "criteria": "align stale_criteria",
            "steps": "assess detect looked_back observe remember tell",
            "summary": "WorkerHealth get_worker_health_summary watched_tenants",
            "tickets": "TicketBook emit_escalation_ticket",
        },
    )
