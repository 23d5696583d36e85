"""Who calls: a bearer token or a browser's session, looked up again for each request, and what their roles allow."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hive_agents.access import ROLES, Asker, Principal, asker_of, local_key
from hive_agents.errors import HiveError
from hive_agents.retrieval import SearchEngine
from hive_agents.runtime import Chat

if TYPE_CHECKING:
    from starlette.requests import Request

    from hive_agents.runtime import Host
    from hive_agents.server.freshness import Freshness
    from hive_agents.workspace import Workspace

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
    """Who calls, in which workspace: what an operation needs of them, whichever way they came."""

    def __init__(self, workspace: Workspace, asker: Asker, *, engine: SearchEngine, freshness: Freshness) -> None:
        self.workspace, self.asker, self.engine, self.freshness = workspace, asker, engine, freshness
        self.principal: Principal = asker.reader_or_owner()
        """Who calls; the workspace's owner, of a session that names nobody, has every role and no document."""

    def reaches(self) -> Principal | None:
        """Return whose runs and requests the caller reaches, looked up now; None is the workspace's owner, who
        reaches all."""
        return self.asker.reader() if self.asker.is_named else None

    @property
    def by(self) -> str:
        """How the caller is named in rows and events. Raises: HIVE-415 where the workspace wants a token."""
        return self.asker.requester()

    def require(self, roles: frozenset[str]) -> None:
        """Raises: HIVE-415 for a caller who has none of the roles."""
        if not roles & self.principal.roles:
            needed = " or ".join(sorted(roles))
            fix = f"somebody with the role {needed} may"
            raise HiveError.of("HIVE-415", f"{self.principal.user} may not do this", fix=fix, exit_code=1)

    def chat(self, thread_id: str | None = None) -> Chat:
        """Return the caller's conversation. Raises: HIVE-409 for a thread that isn't theirs."""
        return Chat(self.workspace, self.asker.reader_or_owner, thread_id, engine=self.engine)

    def wake(self) -> None:
        """Let the runs that wait for this go on; without a host here another process hears of it."""


class Call(CallContext):
    """One request: by whom, and to which host.

    Nothing but a verified token or session says who calls: no header that a proxy or a client adds ever does.

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
        asker = asker_of(self.host.workspace, proof)
        super().__init__(self.host.workspace, asker, engine=state.engine, freshness=state.freshness)
        if self.session is not None and request.method not in _SAFE:
            self._require_own_page(self.session)

    def admit(self, roles: frozenset[str]) -> None:
        """Let the request in, before anything is done for it.

        Raises: HIVE-433 for one too many of this caller, HIVE-415 for a caller who has none of the roles.
        """
        self.request.state.principal = self.principal
        self.request.app.state.rates.admit(self.principal)
        self.require(roles)

    def wake(self) -> None:
        self.host.dispatcher.wake()

    def csrf(self) -> str | None:
        """Return what a browser has to send with whatever changes something; None for a bearer token."""
        return csrf_of(self.workspace, self.session) if self.session is not None else None

    def _require_own_page(self, session: str) -> None:
        sent = self.request.headers.get(CSRF, "")
        require_same_site(self.request)
        if not hmac.compare_digest(sent.encode(), csrf_of(self.workspace, session).encode()):
            raise _foreign()


def require_same_site(request: Request) -> None:
    """Raises: HIVE-415 for what a browser says another site had it send.

    Over plain HTTP browsers tell no more than the origin.
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


def csrf_of(workspace: Workspace, session: str) -> str:
    """Return the CSRF token of a session: nobody else's, and as good as long as the session is."""
    return hmac.new(local_key(workspace), b"csrf:" + session.encode(), hashlib.sha256).hexdigest()


def _bearer(request: Request) -> str | None:
    sent: Any = request.headers.get("authorization")
    if sent is None:
        return None
    kind, _, value = sent.partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""
