"""A request's history in the audit log, which is authoritative: the row in the database follows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_agents import audit
from hive_agents.approvals.request import ApprovalRequest
from hive_agents.errors import HiveError
from hive_agents.workspace import Workspace

KIND = "approval"


def append(workspace: Workspace, event: str, request: ApprovalRequest, changes: Mapping[str, Any]) -> None:
    """Write down how a request stands after an event; `changes` are enough to repeat it on the row before."""
    audit.append(
        workspace,
        KIND,
        event=event,
        approval=request.id,
        subject=request.kind,
        title=request.title,
        requester=request.requester,
        step=request.step,
        status=request.status,
        version=request.version,
        content_hash=request.content_hash,
        changes=dict(changes),
    )


def caught_up(workspace: Workspace, request: ApprovalRequest, *, trusted: bool = False) -> ApprovalRequest:
    """The request with what a crash, or a writer at this moment, kept from its row: entries come before rows.

    Raises, if it has to be `trusted`: HIVE-413 where the row is not what the audit log says, so that nobody
    decides on a forgery.
    """
    entries = [entry for entry in audit.recorded(workspace, KIND) if entry.get("approval") == request.id]
    for entry in entries:
        if entry["step"] == request.step + 1:
            request = changed(request, entry["changes"])
    if trusted:
        _require_unaltered(request, entries[-1] if entries else None)
    return request


def _require_unaltered(request: ApprovalRequest, last: Mapping[str, Any] | None) -> None:
    stands = (request.step, request.status, request.version, request.content_hash)
    if request.hash != request.content_hash or last is None:
        found = "its content was altered" if last else "the audit log doesn't know it"
    elif stands != (last["step"], last["status"], last["version"], last["content_hash"]):
        found = "the database and the audit log disagree on it"
    else:
        return
    raise HiveError.of(
        "HIVE-413",
        f"{request.id} can't be trusted: {found}",
        file=audit.FILE,
        path="$",
        fix="run `hive approvals verify`, find out who changed what, and ask for it anew",
        exit_code=1,
    )


def changed(request: ApprovalRequest, changes: Mapping[str, Any]) -> ApprovalRequest:
    """The request one step on."""
    value = request.model_dump(mode="json") | dict(changes) | {"step": request.step + 1}
    return ApprovalRequest.model_validate(value)
