"""An answer beside those that were given: whether it repeats one, and what its edit makes of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hive_agents.access import same_person
from hive_agents.approvals.args_schema import faults
from hive_agents.approvals.changes import content
from hive_agents.approvals.patch import PatchError, patched
from hive_agents.approvals.permission import refused
from hive_agents.approvals.request import RESULT, ApprovalRequest, Verb

Recheck = Callable[[ApprovalRequest], Sequence[str]]


def repeats(request: ApprovalRequest, verb: Verb, by: str, message: str | None, patch: Any) -> bool:
    """Whether `by` gave this very answer to the content as it is now."""
    mine = [one for one in request.decisions if same_person(one.by, by) and one.version == request.version]
    if not mine or (mine[-1].verb, mine[-1].message) != (verb, message):
        return False
    if request.decided and request.status != RESULT[verb] and request.status != "edited":
        return False
    if verb != "edit":
        return True
    try:
        return bool(patched(request.context.get("args"), patch) == mine[-1].args)
    except PatchError:
        return False


def edited_args(request: ApprovalRequest, patch: Any, recheck: Recheck | None) -> dict[str, Any]:
    """Raises: HIVE-105 with everything that schema, rules and permissions have against the edit."""
    try:
        args = patched(request.context["args"], patch)
    except PatchError as error:
        raise refused("HIVE-105", f"the patch can't be applied: {error}", "patch context.args as shown") from None
    found = faults(args, request.args_schema or {})
    if not found and not isinstance(args, dict):
        found = ["$ is no object"]
    if not found and recheck is not None:
        edited = ApprovalRequest.model_validate(
            request.model_dump(mode="json") | content(request, request.context | {"args": args})
        )
        found = list(recheck(edited))
    if found:
        raise refused("HIVE-105", f"the edit is not allowed: {'; '.join(found)}", "change the patch")
    return dict(args)
