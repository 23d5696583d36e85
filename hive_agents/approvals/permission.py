"""Permission to decide a request; each refusal has a reason and a fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hive_agents.access import OWNER, same_hands, same_person, who
from hive_agents.approvals.request import OWN_TENANT, ApprovalRequest, Verb
from hive_agents.base import HiveError

Hindrance = Literal["asked", "made", "no_person", "delegated", "agreed"]
_ANOTHER_WAY = "by a key of their own, by an identity provider, or by a token or a link that somebody else made"


def refused(code: str, message: str, fix: str) -> HiveError:
    return HiveError.of(code, message, fix=fix, exit_code=1)


def require_open(request: ApprovalRequest, now: str) -> None:
    """Raise HIVE-414 for a request that can't be decided any more."""
    show = f"see `hive approvals show {request.id}`"
    if request.decided:
        last = request.decisions[-1].by if request.decisions else None
        by = f" by {last}" if last and request.status not in ("expired", "superseded") else ""
        raise refused("HIVE-414", f"{request.id} is already decided: {request.status}{by}", show)
    if request.due_at is not None and request.due_at <= now and request.on_timeout == "reject":
        raise refused("HIVE-414", f"{request.id} expired at {request.due_at}", show)


def require_known(request: ApprovalRequest, caller: who.Caller, *, require_token: bool) -> None:
    """Raise HIVE-415 where the person may not see the request."""
    who.require_proof(caller.authn, require_token=require_token)
    if caller.tenant is not None and request.tenant not in (OWN_TENANT, caller.tenant):
        why = f"{caller.by} is no approver of the tenant that {request.id} belongs to"
        raise refused("HIVE-415", why, "an approver of its tenant must decide it")


def require_permitted(request: ApprovalRequest, verb: Verb, caller: who.Caller, *, require_token: bool) -> None:
    """Raises: HIVE-415, as `require_known` too; HIVE-414 for somebody who agreed before."""
    require_known(request, caller, require_token=require_token)
    if verb not in request.allowed_decisions:
        allowed = ", ".join(request.allowed_decisions)
        raise refused("HIVE-415", f"{request.id} can't be decided by {verb}", f"it allows: {allowed}")
    by = caller.by
    found = hindrance(request, by, caller.makers)
    if found == "asked":
        raise refused("HIVE-415", f"{by} asked for {request.id}", "another person must decide it: four eyes")
    if found == "made":
        why = f"{by} may be whoever asked for {request.id}: one of them made the other's token, or one person both"
        fix = f"let another person decide it, or let {by} sign in {_ANOTHER_WAY}: four eyes"
        raise refused("HIVE-415", why, fix)
    if found == "no_person":
        raise refused("HIVE-415", f"{by} is no person", "only people decide requests")
    if found == "delegated":
        to = handed_to(request, by)
        raise refused("HIVE-415", f"{by} delegated {request.id} to {to}", f"{to} decides it")
    if found == "agreed" and verb != "reject":
        why = f"{by}, or whoever made their token, agreed to {request.id} before"
        raise refused("HIVE-414", why, f"other people's approvals are missing, or {by} signs in {_ANOTHER_WAY}")


def hindrance(request: ApprovalRequest, by: str, makers: Sequence[str] = ()) -> Hindrance | None:
    """Return why `by` may not decide a request, whatever their roles; a person who agreed may still reject it.

    `makers` made the token or session that names them: whoever can sign in as two people is one pair of eyes.
    """
    if request.approvers.exclude_requester and same_hands(request.hands, [by, *makers]):
        return "asked" if request.asked_for_by(by) else "made"
    if not by.startswith("user:"):
        return "no_person"
    if handed_to(request, by) is not None:
        return "delegated"
    # The owner's signature is no link between two people, and is one between them and the owner in person.
    in_person = same_hands([f"{OWNER}{by.removeprefix('user:')}"], makers)
    found = ([*one.hands, *(one.makers if in_person else ())] for one in request.approvals)
    agreed = any(same_hands(hands, [by, *makers]) for hands in found)
    return "agreed" if agreed else None


def handed_to(request: ApprovalRequest, by: str) -> str | None:
    """Return to whom `by` delegated a request; None if they didn't."""
    return next((one.to for one in request.delegations if same_person(one.by, by)), None)


def require_grantable(request: ApprovalRequest, verb: Verb) -> None:
    """Raise HIVE-415 for an answer that can't hold for the rest of a run."""
    if request.kind != "tool_call" or request.run_id is None or verb not in ("approve", "edit"):
        raise refused("HIVE-415", f"{request.id} can't be granted for a run", "that is for calls of tools only")
    if request.approvers.min > 1:
        raise refused("HIVE-415", f"{request.id} needs several people", "each call of it is decided by all of them")


def require_current(request: ApprovalRequest, version: int | None, content_hash: str | None) -> None:
    """Raise HIVE-416 where the content has changed since it was read."""
    if version not in (None, request.version) or content_hash not in (None, request.content_hash):
        read = f"version {version}" if version is not None else "another content"
        why = f"{request.id} was changed since it was read: it is version {request.version}, the decision is on {read}"
        raise refused("HIVE-416", why, f"read it again with `hive approvals show {request.id}`, then decide")
