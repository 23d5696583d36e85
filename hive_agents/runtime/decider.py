"""Who asks, who reads requests and who decides: a verified token's person, or the local name where none is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hive_agents.access import AccessRules, Principal, permissions_of, verify
from hive_agents.approvals import ApprovalRequest
from hive_agents.approvals.people import person, same_person
from hive_agents.approvals.permission import refused, require_known
from hive_agents.approvals.request import OWN_TENANT
from hive_agents.copilot import ViewGate
from hive_agents.verification.deploy import local_user
from hive_agents.workspace import Workspace

TOKEN = "HIVE_TOKEN"
ROLES = frozenset({"approver", "admin"})
READERS = ROLES | {"operator"}


@dataclass(frozen=True)
class Decider:
    """A person and how they are known: `authn` is "token" or "local".

    `tenant` is whose requests they decide beside the workspace's own; None is the owner, who decides all.
    """

    by: str
    authn: str
    tenant: str | None = None


def decider_for(workspace: Workspace, as_user: str | None, environ: Mapping[str, str] = os.environ) -> Decider:
    """The person of the token in `HIVE_TOKEN`; without one `as_user`, or else who is logged in here.

    Where `access/*.json` names people, `as_user` decides a tenant's requests as one of them who is its approver or
    admin; any other name decides the workspace's own requests alone.

    Raises: HIVE-409 for a name that is no person's, HIVE-415 for a token without the role approver, or
    `as_user` beside another person's token; HIVE-417 for a token that is refused.
    """
    principal = _principal(workspace, environ)
    if principal is None:
        return _local(workspace, as_user)
    holder = person(principal.user)
    if not ROLES & principal.roles:
        fix = f"decide with an approver's token in {TOKEN}: `hive token --roles approver` makes one"
        raise refused("HIVE-415", f"{holder} is no approver: the token lacks that role", fix)
    _require_holder(holder, as_user)
    return Decider(holder, "token", principal.tenant)


def _local(workspace: Workspace, as_user: str | None) -> Decider:
    if as_user is None:
        return Decider(person(local_user()), "local")
    by, rules = person(as_user), AccessRules.load(workspace)
    if not rules.principals and not rules.faults:
        return Decider(by, "local")
    known = rules.principal(by.removeprefix("user:"))
    return Decider(by, "local", known.tenant if known is not None and ROLES & known.roles else OWN_TENANT)


def reviewer_for(workspace: Workspace, as_user: str | None, environ: Mapping[str, str] = os.environ) -> Decider:
    """As `decider_for`, for a person's word that counts at once, without a request that would check it.

    Raises: as `decider_for`, and HIVE-415 for a local name where `approvals.require_token` holds.
    """
    found = decider_for(workspace, as_user, environ)
    require_known(found.authn, require_token=workspace.settings.approvals.require_token)
    return found


def requester_for(workspace: Workspace, environ: Mapping[str, str] = os.environ, *, as_user: str | None = None) -> str:
    """Who asks, by the same proof as who decides: otherwise one person could ask by one name and agree by another.

    Raises: HIVE-415 for a local name where `approvals.require_token` holds, or `as_user` beside another person's
    token; HIVE-417 for a token that is refused, HIVE-409 where `as_user` is no person's name.
    """
    principal = _principal(workspace, environ)
    if principal is not None:
        holder = principal.user if ":" in principal.user else f"user:{principal.user}"
        _require_holder(holder, as_user)
        return holder
    require_known("local", require_token=workspace.settings.approvals.require_token)
    return person(as_user) if as_user is not None else local_user()


def require_role(workspace: Workspace, what: str, *roles: str, environ: Mapping[str, str] = os.environ) -> None:
    """Where a token says who asks, they need one of the roles; without one it is the workspace's owner.

    Raises: HIVE-415; HIVE-417 for a token that is refused.
    """
    principal = _principal(workspace, environ)
    if principal is not None and not principal.roles & set(roles):
        fix = f"somebody with the role {' or '.join(roles)} may"
        raise refused("HIVE-415", f"{principal.user} may not {what}", fix)


def holds_token(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get(TOKEN, "").strip())


def _require_holder(holder: str, as_user: str | None) -> None:
    if as_user is not None and not same_person(person(as_user), holder):
        fix = f"leave --as out, or put that person's token into {TOKEN}"
        raise refused("HIVE-415", f"{TOKEN} is {holder}'s token, and --as names {as_user}", fix)


def _principal(workspace: Workspace, environ: Mapping[str, str]) -> Principal | None:
    token = environ.get(TOKEN, "").strip()
    return verify(workspace, token) if token else None


class RequestReader:
    """Requests as the caller may read them.

    The holder of a token reads their tenant's and the workspace's own, less the documents that they may not view;
    without a token the caller is the workspace's owner, who reads all.

    Raises: HIVE-415 for a token without the role approver, operator or admin; HIVE-417 for one that is refused.
    """

    def __init__(self, workspace: Workspace, environ: Mapping[str, str] = os.environ) -> None:
        self._principal = _principal(workspace, environ)
        self._workspace = workspace
        if self._principal is not None and not READERS & self._principal.roles:
            fix = "somebody with the role approver, operator or admin does"
            raise refused("HIVE-415", f"{self._principal.user} reads no requests", fix)

    @property
    def is_owner(self) -> bool:
        return self._principal is None

    def may_read(self, request: ApprovalRequest) -> bool:
        return self._principal is None or request.tenant in (OWN_TENANT, self._principal.tenant)

    def shown(self, request: ApprovalRequest) -> ApprovalRequest:
        if self._principal is None:
            return request
        gate = ViewGate(permissions_of(self._workspace), self._principal)
        return request.model_copy(update={"context": _viewed(request.context, gate)})


def _viewed(value: Any, gate: ViewGate) -> Any:
    """A JSON value; of its lists named "documents" only the ids that the gate lets through."""
    if isinstance(value, list):
        return [_viewed(part, gate) for part in value]
    if not isinstance(value, dict):
        return value
    found = {name: _viewed(part, gate) for name, part in value.items()}
    if isinstance(listed := found.get("documents"), list):
        may = gate.allowed([part for part in listed if isinstance(part, str)])
        found["documents"] = [part for part in listed if not isinstance(part, str) or part in may]
    return found
