"""The history of requests in the audit log, which is authoritative: database rows follow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.approvals.request import ApprovalRequest, Decision
from hive_agents.base import HiveError
from hive_agents.store import audit
from hive_agents.workspace import Workspace

KIND = "approval"
LogEntry = Mapping[str, Any]

_BEGINS = {"status": "pending", "version": 1, "decisions": [], "delegations": [], "escalations": 0, "note": None}
_FIELDS = {"step": int, "content_hash": str, "changes": dict}
_NAMED = ("created_at", "due_at", "remind_at", "on_timeout", "idempotency_key")


def append(workspace: Workspace, event: str, request: ApprovalRequest, changes: Mapping[str, Any]) -> None:
    """Append the state of a request after an event; `changes` suffice to repeat it on the row before."""
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


def append_filed(workspace: Workspace, request: ApprovalRequest) -> None:
    """Append the first entry, with the fields that the content's hash doesn't cover."""
    append(workspace, "requested", request, {name: getattr(request, name) for name in _NAMED})


def histories(workspace: Workspace) -> dict[str, list[LogEntry]]:
    """Return the entries of each request, by its id. Raises: HIVE-413 for a broken log."""
    found: dict[str, list[LogEntry]] = {}
    for entry in audit.vouched(workspace, KIND):
        found.setdefault(str(entry.get("approval")), []).append(entry)
    return found


def standing_so(workspace: Workspace, status: str) -> list[str] | None:
    """Return the ids of the requests in that state by the log; None for a broken log."""
    try:
        return [id for id, entries in histories(workspace).items() if entries[-1].get("status") == status]
    except HiveError:
        return None


def answered(workspace: Workspace, ids: Sequence[str]) -> list[str]:
    """Return those that aren't pending any more by the log; none if it is broken."""
    try:
        found = histories(workspace)
    except HiveError:
        return []
    return [id for id in ids if id in found and found[id][-1].get("status") != "pending"]


def standing(request: ApprovalRequest, entries: Sequence[LogEntry]) -> ApprovalRequest:
    """Return the request as its `entries` say that it stands, with what a crash or a writer just now kept from its row.

    Raises: HIVE-413 where the row contradicts the log, so that no forgery is decided or carried out.
    """
    if not entries:
        raise untrusted(request.id, "the audit log doesn't know it")
    if not all(_well_formed(entry, step) for step, entry in enumerate(entries, start=1)):
        raise untrusted(request.id, "its history in the audit log is damaged")
    try:
        for entry in entries[max(0, request.step) :]:
            request = changed(request, entry["changes"])
    except ValueError:
        raise untrusted(request.id, "its history in the audit log is damaged") from None
    last = entries[-1]
    if request.hash != request.content_hash or request.content_hash != last["content_hash"]:
        raise untrusted(request.id, "its content was altered")
    told: dict[str, Any] = _BEGINS | {"step": last["step"]}
    for entry in entries:
        told |= entry["changes"]
    try:  # entries of earlier releases lack what decisions say by now
        told["decisions"] = [Decision.model_validate(one).model_dump(mode="json") for one in told["decisions"]]
    except (ValueError, TypeError):
        raise untrusted(request.id, "its history in the audit log is damaged") from None
    stands = request.model_dump(mode="json")
    if any(stands.get(name) != value for name, value in told.items()):
        raise untrusted(request.id, "the database and the audit log disagree on it")
    return request


def untrusted(request_id: str, why: str) -> HiveError:
    message = f"{request_id} can't be trusted: {why}"
    fix = "run `hive approvals verify`, find out who changed what, and ask for it anew"
    return HiveError.of("HIVE-413", message, file=audit.FILE, path="$", fix=fix, exit_code=1)


def changed(request: ApprovalRequest, changes: Mapping[str, Any]) -> ApprovalRequest:
    """Return the request after the changes of one step."""
    value = request.model_dump(mode="json") | dict(changes) | {"step": request.step + 1}
    return ApprovalRequest.model_validate(value)


def _well_formed(entry: LogEntry, step: int) -> bool:
    return entry.get("step") == step and all(isinstance(entry.get(name), kind) for name, kind in _FIELDS.items())
