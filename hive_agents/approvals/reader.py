"""The requests, and their parts, that a caller may read."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from hive_agents.access import Principal, ViewGate
from hive_agents.approvals.permission import refused
from hive_agents.approvals.request import OWN_TENANT, ApprovalRequest
from hive_agents.base import HiveError
from hive_agents.documents import document_files
from hive_agents.store import documents_read
from hive_agents.workspace import Workspace

WITHHELD = "[Not shown: it may say what documents say that cannot be viewed.]"
_PLAIN = ("agent", "node", "tool", "policy", "visit", "goal_id", "goal_type", "rule_id", "documents")
"""Keys of a request's context that quote no document."""
_FIGURES = ("evaluation", "diagnosis")
"""Keys of a deployment's context that tell what the gate, or the search before it, measured."""
READERS = frozenset({"approver", "admin", "operator"})


class RequestReader:
    """Reads requests within a principal's permissions.

    A `principal` reads requests of their tenant and of the workspace, without documents that they may not view; None is
    the workspace's owner, who reads all.

    Raises: HIVE-415 for a principal without the role approver, operator or admin.
    """

    def __init__(self, workspace: Workspace, principal: Principal | None) -> None:
        self._workspace, self._principal = workspace, principal
        if self._principal is not None and not READERS & self._principal.roles:
            fix = "somebody with the role approver, operator or admin does"
            raise HiveError.of("HIVE-415", f"{self._principal.user} reads no requests", fix=fix)

    @property
    def is_owner(self) -> bool:
        return self._principal is None

    @property
    def tenants(self) -> frozenset[str] | None:
        """The tenants whose requests the caller may read; None for all."""
        return None if self._principal is None else frozenset({OWN_TENANT, self._principal.tenant})

    def may_read(self, request: ApprovalRequest) -> bool:
        return self.tenants is None or request.tenant in self.tenants

    def shown(self, request: ApprovalRequest) -> ApprovalRequest:
        if self._principal is None:
            return request
        gate = ViewGate.of(self._workspace, self._principal)
        shown = request.model_copy(update={"context": _viewed(request.context, gate)})
        if not _shows_all(self._workspace, request, self._principal):
            return _withheld(shown)
        return shown if request.kind != "deploy" or self.views_everything else _without_figures(shown)

    @cached_property
    def views_everything(self) -> bool:
        """Whether the principal may view every document that the gate measures by."""
        if self._principal is None:
            return True
        gate = ViewGate.of(self._workspace, self._principal)
        return gate.shows_all(doc_id for doc_id, _ in document_files(self._workspace.documents))


def require_viewable(workspace: Workspace, request: ApprovalRequest, holder: Principal | None) -> None:
    """Raise HIVE-415 where a token's holder can't read the request that they decide; None is a caller without one."""
    if holder is None:
        return
    gate = ViewGate.of(workspace, holder)
    if not _shows_all(workspace, request, holder) or _viewed(request.context, gate) != request.context:
        fix = f"hand it to somebody who may: `hive approvals delegate {request.id} --to USER`"
        raise refused("HIVE-415", f"{request.id} rests on documents that {holder.user} may not view", fix)


def _shows_all(workspace: Workspace, request: ApprovalRequest, reader: Principal) -> bool:
    """Return whether the reader may see what the request may quote: all that the asking run has read, or the work that
    a learned rule rests on, and nothing of other tenants."""
    rests = request.context.get("rests_on") or []
    tenants, runs = {tenant for tenant, _ in rests}, {request.run_id, *(run_id for _, run_id in rests)}
    known = bool(rests) or request.kind != "rule"
    read = [part for run_id in runs if run_id is not None for part in documents_read(workspace, run_id).values()]
    gate = ViewGate.of(workspace, reader)
    return known and tenants <= {OWN_TENANT, reader.tenant} and gate.shows_all(frozenset().union(*read))


def _withheld(request: ApprovalRequest) -> ApprovalRequest:
    """Return the request's kind and requester, without words that may quote a document."""
    context = {name: value if name in _PLAIN else WITHHELD for name, value in request.context.items()}
    decisions = [one.model_copy(update={"reason": None, "message": None, "args": None}) for one in request.decisions]
    update: dict[str, Any] = {"title": WITHHELD, "context": context, "decisions": decisions, "signals": []}
    return request.model_copy(update=update | {"diff": None, "outcome": None})


def _without_figures(request: ApprovalRequest) -> ApprovalRequest:
    """Return the request with the gate's decision on everything, and without figures that hidden documents change."""
    context = {name: WITHHELD if name in _FIGURES else value for name, value in request.context.items()}
    found = context.get("certificate")
    if isinstance(found, dict):
        codes = [reason.get("code") for reason in found.get("reasons") or ()]
        everything = "by a measurement of everything; `hive explain {}` says what it means"
        reasons = [{"code": code, "message": everything.format(code)} for code in codes]
        context["certificate"] = {"decision": found.get("decision"), "reasons": reasons}
    title = "".join(request.title.partition(" by the gate")[:2])
    return request.model_copy(update={"title": title, "context": context})


def _viewed(value: Any, gate: ViewGate) -> Any:
    """Return a JSON value whose lists named "documents" have only ids that the reader may view."""
    if isinstance(value, list):
        return [_viewed(part, gate) for part in value]
    if not isinstance(value, dict):
        return value
    found = {name: _viewed(part, gate) for name, part in value.items()}
    if isinstance(listed := found.get("documents"), list):
        may = gate.allowed([part for part in listed if isinstance(part, str)])
        found["documents"] = [part for part in listed if not isinstance(part, str) or part in may]
    return found
