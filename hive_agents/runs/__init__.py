"""Runs: their rows, who may work on them, and what may be done to them."""

from __future__ import annotations

from hive_agents.runs.control import RESTS, pause, resume, say, stop
from hive_agents.runs.holding import LOST, WEIGHT, Hold, take, taken
from hive_agents.runs.leases import Lease, LeaseLost, Leases
from hive_agents.runs.protocols import LeasesProtocol, RunQueueProtocol, RunStoreProtocol
from hive_agents.runs.queue import DueRun, RunQueue
from hive_agents.runs.row import AGENT_GRAPH, ENDED, STATUSES, RunRow
from hive_agents.runs.scope import Scope
from hive_agents.runs.store import RunStore, new_run_id

__all__ = [
    "AGENT_GRAPH",
    "ENDED",
    "LOST",
    "RESTS",
    "STATUSES",
    "WEIGHT",
    "DueRun",
    "Hold",
    "Lease",
    "LeaseLost",
    "Leases",
    "LeasesProtocol",
    "RunQueue",
    "RunQueueProtocol",
    "RunRow",
    "RunStore",
    "RunStoreProtocol",
    "Scope",
    "new_run_id",
    "pause",
    "resume",
    "say",
    "stop",
    "take",
    "taken",
]
