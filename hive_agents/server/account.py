"""Signing in and out, the caller's identity, and tokens, which admins make and revoke."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hive_agents import copilot
from hive_agents.access import (
    LOCAL_TENANT,
    AccessRules,
    Principal,
    asked_by,
    issued_tokens,
    logins,
    mint,
    revoke,
    tokens,
)
from hive_agents.base import HiveError
from hive_agents.base.files import FewEntries, ShortName
from hive_agents.server.api import MOST, PRIVATE, Api, Body, Value
from hive_agents.server.auth import ADMIN, ANYBODY, COOKIE, Call, CallContext, require_same_site
from hive_agents.server.forms import URLENCODED, fields
from hive_agents.server.signin import is_secure, origin_of

if TYPE_CHECKING:
    from starlette.requests import Request

api = Api("account")


class Me(Value):
    """`csrf` is what a browser sends as X-CSRF-Token with unsafe methods; null for a bearer token."""

    user: str
    tenant: str
    groups: list[str]
    roles: list[str]
    csrf: str | None


class NewToken(Body):
    """`tenant` is the caller's own; the workspace's owner may name any."""

    user: Annotated[ShortName, Field(min_length=1)]
    tenant: ShortName | None = None
    groups: Annotated[list[ShortName], FewEntries] = []
    roles: Annotated[list[ShortName], FewEntries] = ["reader"]
    ttl: Annotated[int, Field(ge=1, le=MOST)] = 3600


class TokenMade(Value):
    """`token` is returned once, and not stored."""

    token: str
    jti: str
    expires_at: str
    principal: dict[str, Any]


class TokenRow(Value):
    """`made_by` is who asked for it; `revoked_at` is null while it holds."""

    jti: str
    user: str
    tenant: str
    roles: list[str]
    made_by: str
    made_at: str
    expires_at: str
    revoked_at: str | None


class TokenList(Value):
    tokens: list[TokenRow]


class Revoked(Value):
    revoked: str


class Leaver(Body):
    """`tenant` is the caller's own; the workspace's owner may name any."""

    tenant: ShortName | None = None


class Ended(Value):
    """How many of each were ended; streams are those that were counted last. `made_for` are others who need new
    tokens, since this person had made theirs."""

    tokens: int
    sessions: int
    streams: int
    runs: int
    made_for: list[str]


@api.get("/api/session", ANYBODY)
def me(call: Call) -> Me:
    """The caller's identity and roles."""
    return Me(**call.principal.to_json(), csrf=call.csrf())


@api.post("/api/tokens", ADMIN, status=201)
def make_token(call: Call, body: NewToken) -> TokenMade:
    """Sign a token for a user."""
    tenant = body.tenant or call.principal.tenant
    principal = Principal(tenant, body.user, frozenset(body.groups), frozenset(body.roles))
    made = mint(call.workspace, principal, body.ttl, maker=call.principal, require=call.require_still)
    return TokenMade(**made.to_json())


@api.get("/api/tokens", ADMIN)
def list_tokens(call: Call) -> TokenList:
    """The tokens of the caller's tenant that were made here and haven't expired, newest first."""
    return TokenList(tokens=[TokenRow(**row) for row in issued_tokens(call.workspace, tenant_of(call))])


@api.delete("/api/tokens/{jti}", ADMIN)
def revoke_token(call: Call, jti: str) -> Revoked:
    """Revoke a token of the caller's tenant by its id."""
    revoke(call.workspace, jti, by=asked_by(call.principal.user), tenant=tenant_of(call))
    return Revoked(revoked=jti)


@api.post("/api/people/{user}/end", ADMIN)
def end_person(call: Call, user: str, body: Leaver) -> Ended:
    """End a person's tokens and sessions, their open streams within a heartbeat, and the runs that act as them, and
    delete the files that they dropped into conversations. Tokens that they made for others end, too.
    """
    tenant = tenant_of(call) or body.tenant or AccessRules.load(call.workspace).tenant_of(user)
    if body.tenant not in (None, tenant):
        fix = "an admin of that tenant may"
        raise HiveError.of("HIVE-415", "people are ended in one's own tenant", fix=fix, exit_code=1)
    return Ended(**copilot.end_person(call.workspace, user, tenant, asked_by(call.principal.user)))


def tenant_of(call: CallContext) -> str | None:
    """Return the caller's tenant, None for the workspace's owner, who administers all."""
    return None if call.principal.tenant == LOCAL_TENANT else call.principal.tenant


async def login(request: Request) -> Response:
    """GET with a code of a sign-in link, or POST {"token": …}: the browser gets a session."""
    if request.method == "HEAD":  # a preview of the link, which mustn't use it up
        return Response(headers=PRIVATE)
    workspace = request.app.state.host.workspace
    if request.method == "POST":
        require_same_site(request)  # against login CSRF: another site would choose the user
        sent = await run_in_threadpool(_sent_token, request, await request.body())
        proof = await run_in_threadpool(logins.session_of_token, workspace, sent)
        response: Response = JSONResponse({"ok": True}, headers=PRIVATE)
    else:
        proof = await run_in_threadpool(logins.begin_session, workspace, request.query_params.get("code", ""))
        response = RedirectResponse("/", 303, headers=PRIVATE | {"Referrer-Policy": "no-referrer"})
    response.set_cookie(
        COOKIE, proof, max_age=_seconds(proof), path="/", secure=is_secure(request), httponly=True, samesite="strict"
    )
    return response


async def logout(request: Request) -> Response:
    """End the browser's session, not the token that it was made from. `leave` is where a provider ends its own."""
    call = await run_in_threadpool(Call, request)
    leave = None
    if call.session is not None:
        await run_in_threadpool(logins.end_session, call.workspace, call.session)
        if logins.is_of_provider(call.session):
            with suppress(HiveError):  # signed out here, whether or not the provider can be asked
                leave = await request.app.state.signin.leaving(origin_of(request) + "/login")
    response = JSONResponse({"ok": True, **({"leave": leave} if leave else {})}, headers=PRIVATE)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


def _sent_token(request: Request, body: bytes) -> str:
    if len(body) > 4 * tokens.MAX_TOKEN:  # of anybody: nothing is read of what can be no token
        raise HTTPException(413, f"a token has at most {tokens.MAX_TOKEN:,} characters")
    media = request.headers.get("content-type", "")
    if media.partition(";")[0].strip().lower() == URLENCODED:
        return fields(media, body).get("token", [""])[0].strip()
    from hive_agents.server.api import parsed

    class Login(Body):
        token: Annotated[str, Field(max_length=tokens.MAX_TOKEN)]

    return parsed(Login, request, body).token.strip()


def _seconds(proof: str) -> int:
    """Return the seconds until a verified token expires, at most those of a session."""
    import jwt

    expires = jwt.decode(proof, options={"verify_signature": False}).get("exp", 0)
    return max(0, min(logins.SESSION_SECONDS, int(expires - time.time())))


routes = [Route("/login", login, methods=["GET", "POST"]), Route("/logout", logout, methods=["POST"])]
