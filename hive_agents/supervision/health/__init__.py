"""The health judge: it reads what the workers' log says, and tells of what is wrong; nothing else."""

from hive_agents.supervision.health.context import JudgeContext, Models
from hive_agents.supervision.health.criteria import Criteria, align, criteria_of, derive, stale, stale_criteria
from hive_agents.supervision.health.detectors import DETECTORS, Finding, Thresholds, detect
from hive_agents.supervision.health.steps import AGENT, looked_back, observations
from hive_agents.supervision.health.summary import WorkerHealth, get_worker_health_summary, watched_tenants
from hive_agents.supervision.health.tickets import Change, TicketBook, emit_escalation_ticket, reconcile

__all__ = [
    "AGENT",
    "DETECTORS",
    "Change",
    "Criteria",
    "Finding",
    "JudgeContext",
    "Models",
    "Thresholds",
    "TicketBook",
    "WorkerHealth",
    "align",
    "criteria_of",
    "derive",
    "detect",
    "emit_escalation_ticket",
    "get_worker_health_summary",
    "looked_back",
    "observations",
    "reconcile",
    "stale",
    "stale_criteria",
    "watched_tenants",
]
