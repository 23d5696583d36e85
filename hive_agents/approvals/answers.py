"""Changes of a request by a decision, an edit or time: the fields, before anything is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from hive_agents.access import same_person
from hive_agents.approvals.notify import Occasion
from hive_agents.approvals.patch import PatchError, patched
from hive_agents.approvals.permission import refused
from hive_agents.approvals.request import RESULT, ApprovalRequest, Decision, Verb, faults


def effect(request: ApprovalRequest, decision: Decision, *, for_run: bool = False) -> dict[str, Any]:
    """Return the changes of a decision; with `for_run` it also holds for the same call in the rest of the run."""
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
    """Return the changes for new content: the next version, with its hash."""
    changed = request.model_copy(update={"context": context, "title": title or request.title})
    return {"context": context, "title": changed.title, "version": request.version + 1, "content_hash": changed.hash}


def overdue(
    request: ApprovalRequest, now: str, due_hours: float, remind_hours: float
) -> tuple[Occasion | None, dict[str, Any]]:
    """Return what time does to a pending request, if anything, and what to call it."""
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
    """Return `at` plus `hours`; None for 0 hours, which sets no time."""
    if not hours:
        return None
    return (dt.datetime.fromisoformat(at) + dt.timedelta(hours=hours)).isoformat(timespec="seconds")


Recheck = Callable[[ApprovalRequest], Sequence[str]]


def repeats(request: ApprovalRequest, verb: Verb, by: str, message: str | None, patch: Any) -> bool:
    """Return whether `by` gave the same answer to the present content."""
    mine = [one for one in request.decisions if same_person(one.by, by) and one.version == request.version]
    if not mine or (mine[-1].verb, mine[-1].message) != (verb, message):
        return False
    if request.decided and request.status != RESULT[verb] and request.status != "edited":
        return False
    if verb != "edit":
        return patch is None
    try:
        return bool(patched(request.context.get("args"), patch) == mine[-1].args)
    except PatchError:
        return False


def edited_args(request: ApprovalRequest, verb: Verb, patch: Any, recheck: Recheck | None) -> dict[str, Any] | None:
    """Return the edited arguments; None for another answer.

    Raises: HIVE-105 with all violations of schema, rules and permissions, and for a patch with another answer, which
    would be ignored.
    """
    if verb != "edit":
        if patch is not None:
            raise refused("HIVE-105", f"a patch changes what is asked for, and {verb} doesn't", "decide with edit")
        return None
    try:
        args = patched(request.context["args"], patch)
    except PatchError as error:
        raise refused("HIVE-105", f"the patch can't be applied: {error}", "patch context.args as shown") from None
    found = faults(args, request.args_schema or {})
    if not found and not isinstance(args, dict):
        found = ["$ is no object"]
    if not found and recheck is not None:
        edited = request.model_dump(mode="json") | content(request, request.context | {"args": args})
        found = list(recheck(ApprovalRequest.model_validate(edited)))
    if found:
        raise refused("HIVE-105", f"the edit is not allowed: {'; '.join(found)}", "change the patch")
    return dict(args)
