"""The receipt of a person's decision: the exact request, who decided what, and the audit log's lines about it."""

from __future__ import annotations

from collections.abc import Iterator

from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base import HiveError
from hive_agents.gate.receipts.statement import Receipt, Rederived, compared
from hive_agents.store import audit
from hive_agents.workspace import Workspace


def receipt_of(workspace: Workspace, request_id: str) -> Receipt:
    """Return the receipt of a decided request; its content is there as a hash.

    Raises: HIVE-409 for an unknown or undecided one, HIVE-413 where the audit log contradicts it.
    """
    request = ApprovalStore(workspace).get(request_id)
    if not request.decided:
        raise HiveError.of("HIVE-409", f"{request_id} isn't decided yet", fix=f"hive approvals show {request_id}")
    facts = {
        "approval": request.id,
        "kind": request.kind,
        "tenant": request.tenant,
        "requester": request.requester,
        "run_id": request.run_id,
        "status": request.status,
        "version": request.version,
        "decisions": [
            {"by": one.by, "authn": one.authn, "verb": one.verb, "at": one.at, "version": one.version}
            for one in request.decisions
        ],
        "audit": _lines(workspace, request),
    }
    return Receipt("decision", {f"approval {request.id}": request.content_hash}, facts)


def checks_of(workspace: Workspace, receipt: Receipt) -> Iterator[Rederived]:
    """Yield what can be derived again of a decision: its record, the hash of its content, and the log's chain."""
    request_id = str(receipt.facts.get("approval"))
    yield from compared(receipt, receipt_of(workspace, request_id))
    request = ApprovalStore(workspace).get(request_id)
    yield Rederived.of("content", request.hash == request.content_hash, "what was decided on was altered since")
    verdict = audit.verify(workspace)
    yield Rederived.of("audit log: chain", verdict.ok, verdict.reason)


def _lines(workspace: Workspace, request: ApprovalRequest) -> list[dict[str, object]]:
    entries = audit.vouched(workspace, "approval")
    return [{"line": one["seq"], "digest": one["digest"]} for one in entries if one.get("approval") == request.id]
