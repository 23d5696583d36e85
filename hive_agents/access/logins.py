"""Sign-in without a token: a link that works once, and the browser's session that it starts.

Both are signed by the workspace's own key, each for its own audience, so that neither can serve as a token. They name
a user of `access/*.json`, or nobody: then they are the workspace owner's, who alone can read that key.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping
from typing import Any

from hive_agents.access.keys import own_key
from hive_agents.access.tokens import MAX_TOKEN, header_of, is_revoked, refused, revoke
from hive_agents.access.who import TOKEN, Asker, known_principal
from hive_agents.workspace import Workspace

LINK_SECONDS = 60
SESSION_SECONDS = 12 * 3600
_LINK, _SESSION = "hive-login", "hive-session"


def login_code(workspace: Workspace, as_user: str | None = None) -> str:
    """Return the code of a sign-in link, valid once and for `LINK_SECONDS`.

    Raises: HIVE-409 for a user whom `access/*.json` doesn't name.
    """
    if as_user is not None:
        known_principal(workspace, as_user)
    return _signed(workspace, _LINK, as_user, LINK_SECONDS)


def begin_session(workspace: Workspace, code: str) -> str:
    """Return a session for a code. Raises: HIVE-417 for a code that was used, has expired or is invalid."""
    claims = _claims(workspace, _LINK, code)
    if not revoke(workspace, claims["jti"], expires=claims["exp"]):
        raise refused("it was used before")
    return _signed(workspace, _SESSION, claims.get("as"), SESSION_SECONDS)


def end_session(workspace: Workspace, session: str) -> None:
    """End a session early; a token in its place is left as it is."""
    if is_session(session):
        claims = _claims(workspace, _SESSION, session)
        revoke(workspace, claims["jti"], expires=claims["exp"])


def asker_of(workspace: Workspace, proof: str) -> Asker:
    """Return the asker of a session or a token. A token is verified at each use of the asker.

    Raises: HIVE-417 for a session that is refused.
    """
    if is_session(proof):
        return Asker(workspace, _claims(workspace, _SESSION, proof).get("as"), {})
    return Asker(workspace, None, {TOKEN: proof})


def is_session(proof: str) -> bool:
    """Return whether this claims to be a session; it isn't verified."""
    try:
        return len(proof) <= MAX_TOKEN and header_of(proof).get("typ") == _SESSION
    except (ValueError, RecursionError):
        return False


def _signed(workspace: Workspace, kind: str, as_user: str | None, seconds: int) -> str:
    import jwt

    key = own_key(workspace)
    now = int(dt.datetime.now(dt.UTC).timestamp())
    claims = {"aud": kind, "as": as_user, "iat": now, "exp": now + seconds, "jti": secrets.token_hex(12)}
    return jwt.encode(claims, key.to_sign(), key.alg, headers={"typ": kind})


def _claims(workspace: Workspace, kind: str, text: str) -> Mapping[str, Any]:
    import jwt

    key = own_key(workspace)
    try:
        claims: dict[str, Any] = jwt.decode(
            text, key.to_check(), algorithms=[key.alg], audience=kind, options={"require": ["aud", "exp", "jti"]}
        )
    except Exception as error:  # fail closed, without quoting the input
        why = "it has expired" if type(error).__name__ == "ExpiredSignatureError" else "it is not valid"
        raise refused(why) from None
    if is_revoked(workspace, claims["jti"]):
        raise refused("it was used before" if kind == _LINK else "it was ended")
    return claims
