"""Authentication by bearer token or browser session, checked anew for each request, and the roles of operations."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException

from hive_agents.access import ROLES, Asker, Principal
from hive_agents.base import HiveError
from hive_agents.copilot import Chat, ThreadStore
from hive_agents.ranking import SearchEngine
from hive_agents.runs import beside

if TYPE_CHECKING:
    from starlette.requests import Request

    from hive_agents.host import Host
    from hive_agents.server.freshness import Freshness
    from hive_agents.workspace import Workspace

T = TypeVar("T")
COOKIE = "hive_session"
CSRF = "X-CSRF-Token"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

ANYBODY = ROLES
READER = frozenset({"reader", "admin"})
APPROVER = frozenset({"approver", "admin"})
REVIEWER = frozenset({"approver", "operator", "admin"})
OPERATOR = frozenset({"operator", "admin"})
ADMIN = frozenset({"admin"})


class CallContext:
    """The caller and the workspace of an operation, whether it is called over HTTP or over stdio."""

    _threads: CapacityLimiter | None = None

    def __init__(self, workspace: Workspace, asker: Asker, *, engine: SearchEngine, freshness: Freshness) -> None:
        self.workspace, self.asker, self.engine, self.freshness = workspace, asker, engine, freshness
        self._required: set[frozenset[str]] = set()
        self.principal: Principal = asker.reader_or_owner()
        """The caller; without a token the workspace's owner, who has every role and may view no document."""

    def reaches(self) -> Principal | None:
        """Return the caller with their present rights, to limit runs and requests to; None for the workspace's owner,
        who reaches all."""
        return self.asker.reader() if self.asker.is_named else None

    @property
    def by(self) -> str:
        """The caller's name in rows and events. Raises: HIVE-415 where the workspace requires a token."""
        return self.asker.requester()

    def own_key(self, sent: str) -> str:
        """Return the key that a client sent, as one of the caller's own: whatever they are called, it is neither
        another's nor a trigger's."""
        names = (self.principal.tenant, self.principal.user)
        tenant, user = (name.replace("%", "%25").replace("/", "%2F") for name in names)
        return f"user/{tenant}/{user}/{sent}"

    def require(self, roles: frozenset[str]) -> None:
        """Raises: HIVE-415 for a caller with none of the roles."""
        if not roles & self.principal.roles:
            needed = " or ".join(sorted(roles))
            fix = f"somebody with the role {needed} may"
            raise HiveError.of("HIVE-415", f"{self.principal.user} may not do this", fix=fix, exit_code=1)
        self._required.add(roles)

    def require_still(self) -> None:
        """Look the caller's rights up again, after something was waited for.

        Raises: HIVE-417 where they were ended, HIVE-415 where they lost a role that was required.
        """
        self.principal = self.asker.reader_or_owner()
        for roles in self._required:
            self.require(roles)

    def chat(self, thread_id: str | None = None) -> Chat:
        """Return the caller's conversation. Raises: HIVE-409 for a thread that isn't theirs."""
        return Chat(self.workspace, self.asker.reader_or_owner, thread_id, engine=self.engine)

    async def in_thread(self, act: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Return what `act` does in a thread, in one of the caller's places.

        Raises: HIVE-433 where as many of the caller's requests wait as may; as `require_still`.
        """

        def by_right() -> T:
            self.require_still()  # the body, a place and a thread took as long as they liked
            return act(*arguments, **named)

        give_back = await self._place()
        try:
            return await to_thread.run_sync(by_right, limiter=self._threads)
        finally:
            give_back()

    async def beside(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a coroutine that computes, see `runs.beside`; the place is taken until its thread is
        free, also where nobody waits any more.

        Raises: as `in_thread`.
        """

        async def by_right() -> T:
            self.require_still()
            return await work()

        return await beside(by_right, freed=await self._place())

    async def _place(self) -> Callable[[], None]:
        return lambda: None  # over stdio there is nobody else

    def wake(self) -> None:
        """Have the dispatcher look for work now; without one in this process, another process polls for it."""


class Call(CallContext):
    """One HTTP request: its caller and its host.

    The caller is known by a verified token or session alone, never by a header that a proxy or a client adds.

    Raises: HIVE-417 without a proof or with one that is refused, HIVE-415 for a browser's request without its CSRF
    token.
    """

    def __init__(self, request: Request) -> None:
        state = request.app.state
        self.request = request
        self.host: Host = state.host
        self.session = None
        proof = _bearer(request)
        if proof is None:
            self.session = proof = request.cookies.get(COOKIE)
        if not proof:
            fix = "send `Authorization: Bearer …` with a token of `hive token`"
            raise HiveError.of("HIVE-417", "nobody says who asks", fix=fix, exit_code=2)
        asker = Asker.of(self.host.workspace, proof)
        super().__init__(self.host.workspace, asker, engine=state.engine, freshness=state.freshness)
        self._threads = state.places.threads
        if self.session is not None and request.method not in _SAFE:
            self._require_own_page(self.session)

    def admit(self, roles: frozenset[str]) -> None:
        """Check the caller's rate and roles.

        Raises: HIVE-433 where the rate is exceeded, HIVE-415 for a caller with none of the roles.
        """
        self.request.state.principal = self.principal
        rates = self.request.app.state.rates
        try:
            rates.admit(self.principal)
        finally:
            self.request.state.rate = rates.left(self.principal)
        self.require(roles)

    def require_kept(self) -> None:
        """Raises: HIVE-433 where the records keep as much of the caller as they may."""
        ThreadStore(self.workspace, self.principal).require_room(self.workspace.settings.server.kept_per_caller)

    async def _place(self) -> Callable[[], None]:
        take: Callable[..., Coroutine[Any, Any, Callable[[], None]]] = self.request.app.state.places.take
        return await take(self.principal, self.request.is_disconnected)

    def wake(self) -> None:
        self.host.dispatcher.wake()

    def all_sent(self, name: str) -> list[str]:
        """Return the values of a field of the page's form that was sent, without outer spaces."""
        found: dict[str, list[str]] = getattr(self.request.state, "sent", {})
        return [value.strip() for value in found.get(name, [])]

    def sent(self, name: str) -> str:
        """Return the value of a field of the page's form; "" without one."""
        return next(iter(self.all_sent(name)), "")

    def csrf(self) -> str | None:
        """Return the token that a browser has to send with unsafe methods; None for a bearer token."""
        return csrf_of(self.session) if self.session is not None else None

    def _require_own_page(self, session: str) -> None:
        sent = self.request.headers.get(CSRF) or self.sent("csrf")
        require_same_site(self.request)
        if not hmac.compare_digest(sent.encode(), csrf_of(session).encode()):
            raise _foreign()


def require_same_site(request: Request) -> None:
    """Raises: HIVE-415 for a request that the browser's headers attribute to another site.

    Over plain HTTP browsers send Origin alone.
    """
    site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
    if site is not None and site not in ("same-origin", "none"):
        raise _foreign()
    hosts = {request.headers.get(name) for name in ("host", "x-forwarded-host")}
    if site is None and origin is not None and urlsplit(origin).netloc not in hosts:
        raise _foreign()


def _foreign() -> HiveError:
    fix = f"send the `csrf` of GET /api/session as {CSRF}, from a page of this server"
    return HiveError.of("HIVE-415", "this request doesn't come from a page of this server", fix=fix, exit_code=1)


def csrf_of(session: str) -> str:
    """Return the CSRF token of a session, valid as long as the session, which only its browser knows."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def _bearer(request: Request) -> str | None:
    """Return the bearer token; "" for another scheme, None without the header.

    Raises: 400 for several, of which a proxy may have checked another one.
    """
    sent = request.headers.getlist("authorization")
    if not sent:
        return None
    if len(sent) > 1:
        raise HTTPException(400, "there is more than one Authorization header")
    scheme, _, value = sent[0].partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""
