"""Consent to a destructive tool: by the person at the client, or, where it can't ask them, by an approver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mcp.server.mcpserver import Context
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, Field

from hive_agents.approvals import OWN_TENANT, ApprovalRequest, ApprovalStore, Filing, filed_by, refused
from hive_agents.base import HiveError
from hive_agents.server.protocols.mcp_callers import STATELESS

if TYPE_CHECKING:
    from mcp.server.elicitation import ElicitationResult

    from hive_agents.server.auth import CallContext

T = TypeVar("T")


class Consent(BaseModel):
    """What a person answers."""

    agreed: bool = Field(description="Carry it out?")


def can_ask(ctx: Context[Any, Any]) -> bool:
    """Return whether the client shows forms to its person, and can return the answer."""
    capabilities = ctx.client_capabilities
    forms = capabilities.elicitation if capabilities is not None else None
    if forms is None or (forms.form is None and forms.url is not None):
        return False
    return is_version_at_least(str(ctx.protocol_version), STATELESS) or ctx.session.can_send_request


def agreed_to(answer: ElicitationResult[Consent], action: str) -> bool:
    """Return whether a person agreed; False where the client can't ask. Raises: HIVE-409 where they declined."""
    if answer.action == "accept" and answer.data is None:
        return False
    if answer.action != "accept" or not answer.data.agreed:
        raise HiveError.of("HIVE-409", f"{action}: nobody agreed to it", fix="ask what they want instead", exit_code=1)
    return True


def by_request(
    call: CallContext, tool: str, title: str, args: dict[str, Any], act: Callable[[], T]
) -> tuple[str, T | None]:
    """Call `act` once an approver has approved exactly this call. Return (id of the request, result of `act`; None
    while the request waits).

    The caller's tenant decides it. One approval permits one call. A rejected call stays rejected; an expired request is
    filed anew.

    Raises: HIVE-414 for a call that was rejected.
    """
    store, asked = ApprovalStore(call.workspace), filed_by(call.reaches())
    with call.workspace.exclusive("asking for approval"):
        requests = store.list(kind="tool_call", requester=call.by, tenant=asked.get("tenant", OWN_TENANT))
        request = next((one for one in requests if _is_open(one, tool, args)), None)
        if request is None:
            context = {"tool": tool, "via": "mcp", "args": args}
            filing = Filing(kind="tool_call", title=title, requester=call.by, **asked, context=context, risk="high")
            request = store.file(filing)
        if request.status == "approved":
            store.record_outcome(request.id, {"called": tool})
    if request.status == "rejected":
        decision = request.decisions[-1]
        why = f"{decision.by} rejected {request.id}" + (f": {decision.reason}" if decision.reason else "")
        raise refused("HIVE-414", why, "do something else, or ask them why")
    return request.id, act() if request.status == "approved" else None


def _is_open(request: ApprovalRequest, tool: str, args: dict[str, Any]) -> bool:
    """Return whether a request is for this call, and is neither used nor superseded."""
    call = {name: request.context.get(name) for name in ("tool", "via", "args")}
    is_valid = request.status in ("pending", "approved", "rejected") and request.outcome is None
    return is_valid and call == {"tool": tool, "via": "mcp", "args": args}
