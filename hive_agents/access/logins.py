"""Sign-in without a token: a link that works once, or a provider's word, and the browser's session that it starts; and
the owner's token.

All are signed by the key of sessions, each for its own audience, so that none can serve as a user's token, and the
records know each that is valid. They name a user of `access/*.json`, or nobody: then they are the workspace owner's,
who alone makes them.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from hive_agents.access import proofs
from hive_agents.access.keys import require_owner, session_key
from hive_agents.access.principal import LOCAL_TENANT, Principal, asked_by, owner
from hive_agents.access.rules import is_open, known_principal
from hive_agents.access.tokens import (
    MAX_TOKEN,
    Token,
    claims_of,
    decoded,
    header_of,
    holder_of,
    refused,
    require_since_end,
    require_ttl,
)
from hive_agents.base import HiveError
from hive_agents.workspace import Workspace

LINK_SECONDS = 60
SESSION_SECONDS = 12 * 3600
SIGN_IN_SECONDS = 600
PROVIDED_SECONDS = 3600
"""How long a provider's word for somebody holds."""
_LINK, _SESSION, _OWNER, _SIGN_IN = "hive-login", "hive-session", "hive-owner", "hive-sign-in"
_REQUIRED = ["aud", "exp", "jti", "sub", "tenant"]
_OF_TOKEN = ("tenant", "sub", "groups", "roles", "jti", "makers", "listed", "iat", "exp")
"""The claims of a token that its session keeps."""


def login_code(workspace: Workspace, as_user: str | None = None) -> str:
    """Return the code of a sign-in link, valid once and for `LINK_SECONDS`.

    Raises: HIVE-409 for a user whom `access/*.json` doesn't name.
    """
    require_owner(workspace)
    who = owner() if as_user is None else known_principal(workspace, as_user)
    return _signed(workspace, _LINK, who, LINK_SECONDS, {"as": as_user, "makers": list(owner().hands)})[0]


def begin_session(workspace: Workspace, code: str) -> str:
    """Return a session for a code. Raises: HIVE-417 for a code that was used, has expired or is invalid, and where
    all that its user had was ended since."""
    claims = _claims(workspace, _LINK, code)
    as_user = claims.get("as")
    who = owner() if as_user is None else _named(workspace, as_user)
    if not proofs.use_once(workspace, claims["jti"], claims["exp"]):
        raise refused("it was used before")
    makers = claims.get("makers") or list(owner().hands)

    def require() -> None:
        state = proofs.state(workspace, "session", claims["jti"], who.tenant, who.user)
        require_since_end(state, claims)

    return _begun(workspace, who, SESSION_SECONDS, {"as": as_user, "makers": makers}, makers, require)


def session_of_token(workspace: Workspace, token: str) -> str:
    """Return a session with the rights of a token, which ends with it at the latest.

    Raises: HIVE-417; HIVE-433 for too many.
    """
    if _kind(token) == _OWNER:
        recognised(workspace, token)
        claims, who = _claims(workspace, _OWNER, token), owner()
    else:
        claims = claims_of(workspace, token)
        who = holder_of(workspace, claims)
    proofs.require_room(workspace, who)
    kept = {name: claims[name] for name in _OF_TOKEN if name in claims}
    seconds = max(0, min(SESSION_SECONDS, int(claims["exp"] - time.time())))
    return _begun(workspace, who, seconds, {"of": kept}, who.hands)


def begin_sign_in(workspace: Workspace, kept: Mapping[str, str]) -> str:
    """Return what a browser keeps while its user signs in at a provider, for `SIGN_IN_SECONDS`."""
    return _signed(workspace, _SIGN_IN, owner(), SIGN_IN_SECONDS, {"kept": dict(kept)})[0]


def end_sign_in(workspace: Workspace, begun: str) -> Mapping[str, str]:
    """Return what `begin_sign_in` kept, once. Raises: HIVE-417 for what was used, has expired or is invalid."""
    claims = _claims(workspace, _SIGN_IN, begun)
    if not proofs.use_once(workspace, claims["jti"], claims["exp"]):
        raise refused("it was used before")
    kept: Mapping[str, str] = claims["kept"]
    return kept


class ProvidedSession(NamedTuple):
    """A session by a provider's word; it holds for `PROVIDED_SECONDS` from each time that the provider gave it."""

    text: str
    id: str
    ends: int


def session_of_provider(workspace: Workspace, who: Principal) -> ProvidedSession:
    """Return a session for somebody whom a provider has authenticated, with the rights that it gives.

    Raises: HIVE-433 for too many.
    """
    proofs.require_room(workspace, who)
    now = int(time.time())
    rights = {"tenant": who.tenant, "sub": who.user, "groups": sorted(who.groups), "roles": sorted(who.roles)}
    claims = {"of": rights | {"iat": now, "exp": now + SESSION_SECONDS}, "by_provider": True}
    session, made = _signed(workspace, _SESSION, who, SESSION_SECONDS, claims)
    proofs.begin(workspace, "session", made["jti"], who, now + PROVIDED_SECONDS, who.hands)
    return ProvidedSession(session, made["jti"], made["exp"])


def hold_session(workspace: Workspace, session: ProvidedSession) -> bool:
    """Let a session go on by its provider's word; return whether it had not ended."""
    return proofs.hold(workspace, "session", session.id, min(session.ends, int(time.time()) + PROVIDED_SECONDS))


def is_of_provider(session: str) -> bool:
    """Return whether a verified session began at a provider."""
    import jwt

    return bool(jwt.decode(session, options={"verify_signature": False}).get("by_provider"))


def end_session(workspace: Workspace, session: str) -> None:
    """End a session early, on all hosts; a token that it was made from is left as it is."""
    claims = _claims(workspace, _SESSION, session)
    proofs.end(workspace, "session", claims["jti"], asked_by(claims["sub"]), tenant=claims["tenant"])


def owner_token(workspace: Workspace, ttl: int = 3600) -> Token:
    """Return a token of `ttl` seconds for the workspace's owner in open mode.

    Raises: HIVE-409 for a ttl out of range, and where the mode isn't open; HIVE-417 for another user than the owner.
    """
    require_ttl(ttl)
    require_owner(workspace)
    if not is_open(workspace):
        fix = "name one with --user"
        raise HiveError.of("HIVE-409", "a token needs a user where permissions are enforced", fix=fix, exit_code=2)
    token, claims = _signed(workspace, _OWNER, owner(), ttl)
    proofs.begin(workspace, "token", claims["jti"], owner(), claims["exp"], owner().hands)
    return Token(token, dt.datetime.fromtimestamp(claims["exp"], dt.UTC).isoformat(), owner(), claims["jti"])


def is_session(proof: str) -> bool:
    """Return whether this claims to be a session or the owner's token; it isn't verified."""
    return _kind(proof) in (_SESSION, _OWNER)


def recognised(workspace: Workspace, proof: str) -> tuple[Principal, bool]:
    """Return whose session, or owner's token, this is, and whether it has the rights of a token of a tenant.

    Without such a token `token_id` and `makers` are the session's: whoever made the link counts as behind it.

    Raises: HIVE-417 for one that is invalid, has expired or was ended, or whose token no longer holds.
    """
    kind = _kind(proof)
    claims = _claims(workspace, kind, proof)
    of, as_user = claims.get("of"), claims.get("as")
    _require_valid(workspace, "token" if kind == _OWNER else "session", claims)
    who = owner() if as_user is None else _named(workspace, as_user)
    if as_user is not None and who.tenant != claims["tenant"]:
        raise refused(f"{as_user} is no longer of {claims['tenant']}")
    if of is not None and claims["tenant"] != LOCAL_TENANT:
        return holder_of(workspace, of), True
    if of is not None:
        _require_valid(workspace, "token", claims | of)
    if (of is not None or kind == _OWNER) and not is_open(workspace):
        raise refused("it is the owner's, and permissions are enforced by now")
    # Only the owner makes links, those of an earlier release too, which don't say so.
    return replace(who, token_id=claims["jti"], makers=tuple(claims.get("makers") or owner().hands)), False


def _require_valid(workspace: Workspace, kind: proofs.ProofKind, claims: Mapping[str, Any]) -> None:
    state = proofs.state(workspace, kind, claims["jti"], claims["tenant"], claims["sub"])
    if state.ended or not state.made:
        raise refused("it was ended" if state.ended else "the records don't know it")
    if kind == "session" and state.until <= time.time():
        raise refused("its provider hasn't vouched for it since", fix="sign in again")


def _named(workspace: Workspace, user: str) -> Principal:
    try:
        return known_principal(workspace, user)
    except HiveError:
        raise refused(f"access/*.json no longer names {user}") from None


def _begun(
    workspace: Workspace,
    who: Principal,
    seconds: int,
    claims: Mapping[str, Any],
    makers: Sequence[str],
    require: Callable[[], object] = lambda: None,
) -> str:
    session, made = _signed(workspace, _SESSION, who, seconds, claims)
    proofs.begin(workspace, "session", made["jti"], who, made["exp"], makers, require=require)
    return session


def _signed(
    workspace: Workspace, kind: str, who: Principal, seconds: int, claims: Mapping[str, Any] = MappingProxyType({})
) -> tuple[str, dict[str, Any]]:
    import jwt

    key, now = session_key(workspace), int(time.time())
    made = {"aud": kind, "tenant": who.tenant, "sub": who.user, "iat": now, "exp": now + seconds, **claims}
    made["jti"] = secrets.token_hex(12)
    return jwt.encode(made, key.to_sign(), key.alg, headers={"typ": kind}), made


def _claims(workspace: Workspace, kind: str, proof: str) -> dict[str, Any]:
    return decoded(proof, session_key(workspace), kind, require=_REQUIRED)


def _kind(proof: str) -> str:
    """Return what a text claims to be; "" for what is none of these."""
    try:
        kind = header_of(proof).get("typ") if len(proof) <= 2 * MAX_TOKEN else None
    except (ValueError, RecursionError):
        return ""
    return kind if kind in (_LINK, _SESSION, _OWNER) else ""
