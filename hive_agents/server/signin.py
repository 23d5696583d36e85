"""Sign-in at an OpenID Connect provider: an authorization code with PKCE, for an ID token that says who has come.

People are known by the provider's `sub`, never by an address, which may change hands. The session is one of this
workspace: `hive people end` and signing out end it, whatever the provider says. It holds for an hour by the provider's
word; where that gave a refresh token, it is asked again before, and a session that it would no longer begin ends.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hive_agents.access import Principal, is_name, logins
from hive_agents.base import HiveError
from hive_agents.server.address import address, is_loopback
from hive_agents.server.auth import COOKIE
from hive_agents.server.pages.view import HEADERS, is_local, rendered
from hive_agents.workspace import credentials, require_trust

if TYPE_CHECKING:
    from starlette.requests import Request

    from hive_agents.workspace import Workspace
    from hive_agents.workspace.settings import keys

BACK = "/signin/back"
_BEGUN = "hive_signin"
_ALGORITHMS = frozenset("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split())
"""Never a shared secret's: whoever knows it could sign."""
_DESCRIBED_SECONDS = 3600.0
_ASK_SECONDS = 900.0
"""How long a right that was taken away at the provider is unknown here."""
_KEYS_SECONDS = 30.0
"""The least time between two looks at the provider's keys."""
_SECONDS = 10.0
_MOST_BYTES = 1_000_000
_AT_ONCE = 8
_LEEWAY = 60


class _GrantEnded(HiveError):
    """The provider no longer takes a code or a refresh token."""


@dataclass
class _Signed:
    """Somebody who is signed in, and what the provider is asked by about them."""

    session: logins.ProvidedSession
    who: Principal
    refresh_token: str


class Provider:
    """The provider of `[signin]`: what it says of itself, its keys, and who comes back from it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._described: Mapping[str, Any] = {}
        self._keys: Mapping[str, Any] = {}
        self._described_at = self._keys_at = float("-inf")
        self._places = anyio.CapacityLimiter(_AT_ONCE)
        self._context: ssl.SSLContext | None = None
        self._signed: list[_Signed] = []
        """Kept in memory alone: whoever reads the records finds no token of the provider's."""
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_named(self) -> bool:
        return bool(self._workspace.settings.signin.issuer)

    def settings(self) -> keys.SignIn:
        """Return the settings. Raises: HIVE-431 where they aren't trusted, HIVE-417 where they name no provider."""
        require_trust(self._workspace, "signin")
        if not self.is_named:
            raise refused("no provider is named here", "set issuer, client_id and tenant of [signin] in hive.toml")
        return self._workspace.settings.signin

    async def address(self, back: str, state: str, nonce: str, verifier: str) -> str:
        """Return where a browser signs in, which comes back to the address `back`."""
        settings, about = self.settings(), await self._about()
        scopes = dict.fromkeys(["openid", *({"groups"} & {*_texts(about.get("scopes_supported"))}), *settings.scopes])
        asked = {
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": back,
            "scope": " ".join(scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        return _with_query(self._endpoint("authorization_endpoint"), asked)

    async def leaving(self, then: str) -> str | None:
        """Return where a browser signs out at the provider, and comes back to `then`; None where it can't."""
        if "end_session_endpoint" not in await self._about():
            return None
        asked = {"client_id": self.settings().client_id, "post_logout_redirect_uri": then}
        return _with_query(self._endpoint("end_session_endpoint"), asked)

    async def came_back(self, code: str, back: str, nonce: str, verifier: str) -> logins.ProvidedSession:
        """Return the session of who signed in. Raises: HIVE-417 where the provider doesn't vouch for them."""
        await self._about()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        answer = await self._exchanged(form)
        claims = await self._verified(answer.get("id_token"))
        if not hmac.compare_digest(str(claims.get("nonce")).encode(errors="replace"), nonce.encode()):
            raise refused("its ID token is for another sign-in")
        if int(claims["iat"]) < time.time() - logins.SIGN_IN_SECONDS - _LEEWAY:
            raise refused("its ID token is older than this sign-in")
        who = await self._told(answer, claims)
        session = await run_in_threadpool(logins.session_of_provider, self._workspace, who)
        if isinstance(refresh_token := answer.get("refresh_token"), str):
            self._signed.append(_Signed(session, who, refresh_token))
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask_on(), name="signin")
        return session

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask_on(self) -> None:
        while True:
            await asyncio.sleep(_ASK_SECONDS)
            await self.ask_again()

    async def ask_again(self) -> None:
        """Ask about everybody who is signed in: a session that the provider would no longer begin so ends."""
        self._signed = [one for one in self._signed if one.session.ends > time.time()]
        for signed in [*self._signed]:
            with suppress(HiveError):  # what nobody vouches for ends by itself
                await self._ask_about(signed)

    async def _ask_about(self, signed: _Signed) -> None:
        try:
            holds = await self._still_holds(signed)
        except _GrantEnded:
            holds = False
        if not holds:
            await run_in_threadpool(logins.end_session, self._workspace, signed.session.text)
        if not holds or not await run_in_threadpool(logins.hold_session, self._workspace, signed.session):
            self._signed.remove(signed)

    async def _still_holds(self, signed: _Signed) -> bool:
        await self._about()
        answer = await self._exchanged({"grant_type": "refresh_token", "refresh_token": signed.refresh_token})
        if isinstance(newer := answer.get("refresh_token"), str):
            signed.refresh_token = newer
        # An ID token is optional here, and then without a nonce (OpenID Connect Core, 12.2).
        claims = await self._verified(answer["id_token"]) if "id_token" in answer else {}
        who, now = signed.who, await self._told(answer, claims)
        return who.user == now.user and who.groups <= now.groups and who.roles <= now.roles

    async def _told(self, answer: Mapping[str, Any], claims: Mapping[str, Any]) -> Principal:
        """Return whom an ID token's claims name, with what their groups give here."""
        settings = self.settings()
        if settings.groups_claim not in claims and "userinfo_endpoint" in self._described:
            headers = {"Authorization": f"Bearer {answer.get('access_token')}"}
            told = await self._asked("GET", self._endpoint("userinfo_endpoint"), headers=headers)
            if told.get("sub") != claims.get("sub", told.get("sub")):
                raise refused("the provider tells of somebody else than its ID token")
            claims = {**told, **claims}
        given = [settings.groups[name] for name in _texts(claims.get(settings.groups_claim)) if name in settings.groups]
        groups = frozenset(group for one in given for group in one.groups)
        roles = frozenset(role for one in given for role in one.roles)
        return Principal(settings.tenant, name_of(claims.get("sub")), groups, roles | {"reader"})

    async def _about(self) -> Mapping[str, Any]:
        issuer = self.settings().issuer
        if time.monotonic() - self._described_at > _DESCRIBED_SECONDS:
            about = await self._asked("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            own = about.get("issuer")
            if own != issuer:
                fix = f"if you trust that one, set signin.issuer to {own}" if isinstance(own, str) else None
                raise refused("the provider has another issuer than hive.toml names", fix)
            self._described, self._described_at = about, time.monotonic()
            # What it took back counts no more, also where nobody has shown a newer key since.
            self._keys, self._keys_at = {}, float("-inf")
        return self._described

    def _endpoint(self, name: str) -> str:
        url, issuer = self._described.get(name), urlsplit(self._workspace.settings.signin.issuer)
        with suppress(ValueError):  # what is no address
            if isinstance(url, str) and urlsplit(url).scheme in ("https", issuer.scheme):
                return url
        raise refused(f"the provider names no {name} that can be used")

    async def _exchanged(self, form: dict[str, str]) -> Mapping[str, Any]:
        settings = self.settings()
        headers, methods = {}, self._described.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        secret = await run_in_threadpool(_secret, self._workspace, settings.secret_ref)
        if secret and "client_secret_basic" in _texts(methods):
            pair = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": settings.client_id} | ({"client_secret": secret} if secret else {})
        return await self._asked("POST", self._endpoint("token_endpoint"), form=form, headers=headers)

    async def _verified(self, token: Any) -> Mapping[str, Any]:
        import jwt

        settings = self.settings()
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in _ALGORITHMS:
                raise ValueError("algorithm")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                await self._key(header.get("kid")),
                algorithms=[header["alg"]],
                audience=settings.client_id,
                issuer=settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except HiveError:
            raise
        except Exception:  # whatever the parser's error: fail closed, and quote nothing of the token
            raise refused("its ID token is not valid") from None
        several = not isinstance(audience := claims["aud"], str) and len(audience) > 1
        if claims.get("azp", None if several else settings.client_id) != settings.client_id:
            raise refused("its ID token is for another client")
        return claims

    async def _key(self, kid: Any) -> Any:
        import jwt

        if kid not in self._keys and time.monotonic() - self._keys_at > _KEYS_SECONDS:
            found = jwt.PyJWKSet.from_dict(dict(await self._asked("GET", self._endpoint("jwks_uri"))))
            self._keys = {str(one.key_id): one.key for one in found.keys if one.public_key_use in (None, "sig")}
            self._keys_at = time.monotonic()
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if kid not in self._keys:
            raise refused("the provider has no key of its ID token's kid")
        return self._keys[kid]

    async def _certificates(self) -> ssl.SSLContext:
        """Return what the provider's certificate is checked with, read once and by a thread of its own: it takes a
        tenth of a second, and anybody may begin a sign-in."""
        if self._context is None:
            self._context = await run_in_threadpool(ssl.create_default_context)
        return self._context

    async def _asked(
        self, method: str, url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Return the provider's answer, an object of JSON."""
        import httpx

        from hive_agents.base.files import jsontext

        verify = await self._certificates() if url.startswith("https:") else False
        received = bytearray()
        try:
            async with self._places:
                with anyio.fail_after(_SECONDS):
                    async with httpx.AsyncClient(timeout=None, trust_env=False, verify=verify) as client:
                        # What is packed has no length that could be limited.
                        accepted = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
                        async with client.stream(method, url, data=form, headers=accepted) as response:
                            async for part in response.aiter_raw():
                                received += part
                                if len(received) > _MOST_BYTES:
                                    raise refused("the provider's answer is too long")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            why = f"the provider can't be asked ({type(error).__name__})"
            raise refused(why, f"look whether {urlsplit(url).netloc} can be reached from here") from None
        try:
            value = jsontext.parse(jsontext.decode(bytes(received), "answer"), "answer")
        except HiveError:
            value = None
        if response.status_code != 200 or not isinstance(value, dict):
            said = value.get("error") if isinstance(value, dict) else None
            told = f' "{said[:60]}"' if isinstance(said, str) and said.isprintable() else ""
            kind = _GrantEnded if said == "invalid_grant" else HiveError
            raise refused(f"the provider answers with status {response.status_code}{told}", kind=kind)
        return value


def refused(why: str, fix: str | None = None, kind: type[HiveError] = HiveError) -> HiveError:
    fix = fix or "sign in again; whoever keeps hive.toml can check [signin]"
    return kind.of("HIVE-417", f"the sign-in is refused: {why}", fix=fix, exit_code=2)


def name_of(subject: object) -> str:
    """Return a person's name here; a colon in it would make it an agent's, or a service's.

    >>> name_of("auth0|42"), name_of("f:7:ann%")
    ('auth0|42', 'f%3A7%3Aann%25')
    """
    if not isinstance(subject, str) or not is_name(subject):
        raise refused("its ID token names nobody")
    return subject.replace("%", "%25").replace(":", "%3A")


def _challenge(verifier: str) -> str:
    """Return what RFC 7636 calls S256 of a verifier.

    >>> _challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _with_query(url: str, asked: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(asked)}"


def _texts(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []


def _secret(workspace: Workspace, ref: str) -> str:
    return credentials.resolve(workspace, ref).reveal() if ref else ""


def origin_of(request: Request, *, told: bool = False) -> str:
    """Return the scheme and the host by which a browser reaches this server.

    What is `told` to others has no name that anybody may have chosen: where every name is accepted, the address.
    """
    host, state = request.headers.get("host", ""), request.app.state
    if told and not (is_loopback(state.listener.host) or state.host.workspace.settings.server.hosts):
        host = address(*request.scope["server"]).removeprefix("http://")
    return f"{'https' if is_secure(request) else 'http'}://{host}"


def is_secure(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


async def begin(request: Request) -> Response:
    """Send the browser to the provider, and keep in it what proves that it was sent."""
    provider: Provider = request.app.state.signin
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    back, wanted = origin_of(request) + BACK, request.query_params.get("next", "/")
    try:
        where = await provider.address(back, state, nonce, verifier)
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "back": back}
        kept["next"] = wanted if is_local(wanted) else "/"
        begun = await run_in_threadpool(logins.begin_sign_in, request.app.state.host.workspace, kept)
    except HiveError as error:
        return await run_in_threadpool(_failed, request, error)
    response = RedirectResponse(where, 303, headers=HEADERS)
    # Lax: the provider's site sends the browser back, and with Strict the cookie would stay behind.
    response.set_cookie(
        _BEGUN,
        begun,
        max_age=logins.SIGN_IN_SECONDS,
        path=BACK,
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )
    return response


async def back(request: Request) -> Response:
    """Take the provider's word for who has come: the browser gets a session."""
    workspace, provider, sent = request.app.state.host.workspace, request.app.state.signin, request.query_params
    try:
        kept = await run_in_threadpool(_kept, workspace, request.cookies.get(_BEGUN, ""))
        if not hmac.compare_digest(sent.get("state", "").encode(), kept["state"].encode()):
            raise refused("it was begun in another browser")
        if "code" not in sent:
            raise refused("the provider sent nobody back", "sign in there, and allow this server to know who you are")
        if sent.get("iss", provider.settings().issuer) != provider.settings().issuer:
            raise refused("another provider sent the browser back")
        session = (await provider.came_back(sent["code"], kept["back"], kept["nonce"], kept["verifier"])).text
    except HiveError as error:
        return await run_in_threadpool(_failed, request, error)
    # No redirect: a browser that comes from another site would follow it without the session, which is Strict.
    response = await run_in_threadpool(rendered, request, "onward.html", {"next": kept["next"]})
    response.set_cookie(
        COOKIE,
        session,
        max_age=logins.SESSION_SECONDS,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
    response.delete_cookie(_BEGUN, path=BACK, httponly=True, samesite="lax")
    return response


def _kept(workspace: Workspace, begun: str) -> Mapping[str, str]:
    if not begun:
        raise refused("this browser began none, or keeps no cookies")
    return logins.end_sign_in(workspace, begun)


def _failed(request: Request, error: HiveError) -> Response:
    shown = {"next": "/", "diagnostics": error.diagnostics, "provider": request.app.state.signin.is_named}
    return rendered(request, "login.html", shown, status=401)


routes = [Route("/signin", begin, methods=["GET"]), Route(BACK, back, methods=["GET"])]
