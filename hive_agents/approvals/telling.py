"""What the event log is told of a request: in the transaction that changes it, so that neither is without the other."""

from __future__ import annotations

import sqlite3

from hive_agents.approvals.request import ApprovalRequest
from hive_agents.events import Event, EventLog, EventType, derived_id


def record(connection: sqlite3.Connection, type: EventType, request: ApprovalRequest) -> None:
    """Ids and words that a list of requests shows; what was asked stays in the request."""
    last = request.decisions[-1] if request.decisions else None
    told = {
        "approval_id": request.id,
        "kind": request.kind,
        "title": request.title,
        "status": request.status,
        "by": last.by if last is not None else None,
        "decision": last.verb if last is not None else None,
    }
    id = derived_id("approval", request.id, type)
    event = Event(type, request.run_id, request.thread_id, tenant=request.tenant, payload=told, id=id)
    EventLog.record(connection, [event])
