"""What a decision, an edit or time changes of a request: the fields, with nothing written yet."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hive_agents.approvals.notify import Occasion
from hive_agents.approvals.request import RESULT, ApprovalRequest, Decision


def effect(request: ApprovalRequest, decision: Decision, *, for_run: bool = False) -> dict[str, Any]:
    """What a decision changes; with `for_run` it holds for the same call in the rest of the run, too."""
    changes: dict[str, Any] = {"decisions": [one.model_dump() for one in [*request.decisions, decision]]}
    if decision.args is not None:
        changes |= content(request, request.context | {"args": decision.args})
    if decision.verb in ("reject", "respond"):
        return changes | {"status": RESULT[decision.verb]}
    agreed = 1 if decision.verb == "edit" else len(request.approvals) + 1
    if agreed >= request.approvers.min:
        edited = decision.verb == "edit" or any(one.verb == "edit" for one in request.approvals)
        changes["status"] = "edited" if edited else "approved"
        if for_run:
            agreed_to = request.model_copy(update={"context": changes.get("context", request.context)})
            changes["grant"] = agreed_to.call_hash
    return changes


def content(request: ApprovalRequest, context: dict[str, Any], title: str | None = None) -> dict[str, Any]:
    """The changes that give a request another content: the next version, under its own hash."""
    changed = request.model_copy(update={"context": context, "title": title or request.title})
    return {
        "context": context,
        "title": changed.title,
        "version": request.version + 1,
        "content_hash": changed.hash,
    }


def overdue(
    request: ApprovalRequest, now: str, due_hours: float, remind_hours: float
) -> tuple[Occasion | None, dict[str, Any]]:
    """What time does to a pending request, if anything, and what to call it."""
    if request.decided:
        return None, {}
    if request.due_at is not None and request.due_at <= now:
        if request.on_timeout == "reject":
            return "expired", {"status": "expired"}
        again = {"due_at": later(now, due_hours), "remind_at": later(now, remind_hours)}
        return "escalated", again | {"escalations": request.escalations + 1}
    if request.remind_at is not None and request.remind_at <= now:
        return "reminder", {"remind_at": later(now, remind_hours)}
    return None, {}


def later(at: str, hours: float) -> str | None:
    """`at` plus `hours`; None for 0 hours: nothing is due."""
    if not hours:
        return None
    return (dt.datetime.fromisoformat(at) + dt.timedelta(hours=hours)).isoformat(timespec="seconds")
