"""Who asks and who decides: the person of a verified token, or the local name where no token is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hive_agents.access import Principal, verify
from hive_agents.approvals.people import person, same_person
from hive_agents.approvals.permission import refused, require_known
from hive_agents.verification.deploy import local_user
from hive_agents.workspace import Workspace

TOKEN = "HIVE_TOKEN"
ROLES = frozenset({"approver", "admin"})


@dataclass(frozen=True)
class Decider:
    """A person and how they are known: `authn` is "token" or "local"; a local name belongs to no tenant."""

    by: str
    authn: str
    tenant: str | None = None


def decider_for(workspace: Workspace, as_user: str | None, environ: Mapping[str, str] = os.environ) -> Decider:
    """The person of the token in `HIVE_TOKEN`; without one `as_user`, or else who is logged in here.

    Raises: HIVE-409 for a name that is no person's, HIVE-415 for a token without the role approver, or
    `as_user` beside another person's token; HIVE-417 for a token that is refused.
    """
    principal = _principal(workspace, environ)
    if principal is None:
        return Decider(person(as_user or local_user()), "local")
    holder = person(principal.user)
    if not ROLES & principal.roles:
        fix = f"decide with an approver's token in {TOKEN}: `hive token --roles approver` makes one"
        raise refused("HIVE-415", f"{holder} is no approver: the token lacks that role", fix)
    _require_holder(holder, as_user)
    return Decider(holder, "token", principal.tenant)


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


def holds_token(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get(TOKEN, "").strip())


def _require_holder(holder: str, as_user: str | None) -> None:
    if as_user is not None and not same_person(person(as_user), holder):
        fix = f"leave --as out, or put that person's token into {TOKEN}"
        raise refused("HIVE-415", f"{TOKEN} is {holder}'s token, and --as names {as_user}", fix)


def _principal(workspace: Workspace, environ: Mapping[str, str]) -> Principal | None:
    token = environ.get(TOKEN, "").strip()
    return verify(workspace, token) if token else None
