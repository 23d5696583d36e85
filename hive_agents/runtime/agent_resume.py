"""A decided request wakes the agent's run that asked it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hive_agents.errors import HiveError, NotFound
from hive_agents.runs import AGENT_GRAPH, RunRow, RunStore

if TYPE_CHECKING:
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.workspace import Workspace


HOST = "hive:housekeeping"
"""The lease that a host has while it takes runs."""


def resume_decided(workspace: Workspace, request: ApprovalRequest, wait: float = 30.0) -> dict[str, str] | None:
    """{run_id, status} of the agent's run that asked, after it went on; None for requests of anything else.

    A run whose tools or models somebody brought stays waiting for them, one that can't go on just now, for want of a
    model or because another process works on it, stays as it is, and one that a host will take is left to it: the
    decision holds all the same.
    """
    row = _run_of(workspace, request)
    if row is None:
        return None
    with suppress(HiveError):
        if request.decided and _may_go_on(row) and not row.value.get("brought"):
            from hive_agents.runtime.agent_run import AgentRun
            from hive_agents.runtime.driver import leases_of

            if row.status == "waiting" and leases_of(workspace).is_held(HOST):
                return {"run_id": row.run_id, "status": row.status}
            AgentRun.resume(workspace, row.run_id).go(wait=wait)
    row = RunStore(workspace).get(row.run_id)
    return {"run_id": row.run_id, "status": row.status}


def waits_for(workspace: Workspace, request: ApprovalRequest) -> bool:
    """Whether an agent's run still waits for a request that was decided, for the process died that was to wake it."""
    if not request.decided or request.run_id is None:
        return False
    row = _run_of(workspace, request)
    with suppress(HiveError):  # nothing can wake a run whose row is damaged
        if row is not None and row.status == "waiting" and not row.value.get("brought"):
            return request.id in (row.result or {}).get("approval_ids", [])
    return False


def _run_of(workspace: Workspace, request: ApprovalRequest) -> RunRow | None:
    if request.run_id is None:
        return None
    try:
        row = RunStore(workspace).get(request.run_id)
    except NotFound:
        return None
    return row if row.graph == AGENT_GRAPH else None


def _may_go_on(row: RunRow) -> bool:
    """A run that somebody stopped or paused rests until they say otherwise."""
    return row.status == "waiting" or row.broke_off
