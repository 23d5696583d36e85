"""Limits of each principal: requests in a minute, threads at work for them, open streams, and runs under way."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect

from hive_agents.access import proofs
from hive_agents.base import TooMany
from hive_agents.runs import RunStore
from hive_agents.server.shapes import OPENAI
from hive_agents.workspace import RemoteDatabase

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace

MAX_BUCKETS = 10_000
"""Principals whose bucket a host knows; the least recent ones are dropped, and begin with a full bucket again."""
AT_WORK = ("queued", "running")
PLACES = 8
"""Threads that work for one principal at once."""
THREADS = 5 * PLACES
"""Threads that work for all principals at once. Those that say who calls, or whether the host is well, are others."""
LINE = 32
"""What else of one principal may wait for a place."""
LOOK_SECONDS = 1.0
"""Between two looks whether who waits has left."""


class RequestsLeft(NamedTuple):
    """Requests in a minute, those that are left, and the seconds until all are again."""

    limit: int
    remaining: int
    reset: int


RATE_HEADERS = [f"X-RateLimit-{name}" for name in ("Limit", "Remaining", "Reset")]


class RateHeaders:
    """Adds to each response what its caller may still ask for; for clients of OpenAI's protocol in its words, too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            rate: RequestsLeft | None = scope.get("state", {}).get("rate")
            if message["type"] == "http.response.start" and rate is not None:
                headers = {name.lower(): str(value) for name, value in zip(RATE_HEADERS, rate, strict=True)}
                if scope["path"].startswith(OPENAI):
                    headers |= {f"{name}-requests": value for name, value in headers.items()}
                    headers["x-ratelimit-reset-requests"] += "s"
                raw = [(name.encode(), value.encode()) for name, value in headers.items()]
                message["headers"] = [*message.get("headers", ()), *raw]
            await send(message)

        await self._app(scope, receive, sent)


@dataclass
class _Share:
    """What a host knows of a principal's bucket: requests that were taken out of it until a time, and its content
    then."""

    requests: int
    until: float
    bucket: float
    at: float


class Rates:
    """A token bucket for each principal: it holds `rate_per_minute` requests, and fills up within a minute.

    Hosts that share records on a server share the buckets. So that not each request writes there, a host takes a
    twelfth of a minute's requests at once, and drops what it didn't use until the bucket has got as many: all hosts
    together admit no more than one would. Beside records in a file the one server counts by itself, so that no request
    waits for whoever writes to the file.
    """

    def __init__(self, workspace: Workspace, now: Callable[[], float] = time.monotonic) -> None:
        self._workspace, self._limits, self._now = workspace, workspace.settings.server, now
        self._capacity = self._limits.rate_per_minute
        self._shared = isinstance(workspace.records, RemoteDatabase)
        self._most = max(1, self._capacity // 12)
        self._shares: dict[tuple[str, str], _Share] = {}
        self._lock = threading.Lock()

    def admit(self, principal: Principal) -> None:
        """Count one request. Raises: HIVE-433 where the bucket is empty; as `take_requests`."""
        key = (principal.tenant, principal.user)
        with self._lock:
            now = self._now()
            share = self._shares.pop(key, None) or _Share(0, now, self._capacity, now)
            self._shares[key] = share
            while len(self._shares) > MAX_BUCKETS:
                del self._shares[next(iter(self._shares))]
            share.bucket, share.at = self._filled(share, now), now
            share.requests = share.requests if now < share.until else 0
            admitted = share.requests >= 1 or (share.bucket >= 1 and not self._shared)
            if share.requests:
                share.requests -= 1
            elif admitted:
                share.bucket -= 1
        if not admitted and share.bucket >= 1:  # as far as is known here
            taken, bucket = proofs.take_requests(self._workspace, principal, self._capacity, self._most)
            admitted = taken >= 1
            with self._lock:
                share.requests += taken - admitted
                share.bucket, share.at = bucket, self._now()
                share.until = share.at + self._seconds(self._most)
        if not admitted:
            message = f"{principal.user} has asked {self._capacity} times within a minute"
            raise _too_many(message, math.ceil(self._seconds(1 - share.bucket)))

    def left(self, principal: Principal) -> RequestsLeft:
        """Return what the principal may still ask for now, as far as this host knows."""
        with self._lock:
            now = self._now()
            share = self._shares.get((principal.tenant, principal.user)) or _Share(0, now, self._capacity, now)
            left = self._filled(share, now) + (share.requests if now < share.until else 0)
        left = min(left, self._capacity)
        return RequestsLeft(self._capacity, int(left), math.ceil(self._seconds(self._capacity - left)))

    def _filled(self, share: _Share, now: float) -> float:
        return min(self._capacity, share.bucket + (now - share.at) * self._capacity / 60)

    def _seconds(self, requests: float) -> float:
        """Return how long a bucket takes to get so many."""
        return requests * 60 / self._capacity

    def require_room(self, principal: Principal) -> None:
        """Raises: HIVE-433 where the principal has as many runs under way as they may have."""
        most = self._limits.concurrent_runs
        if RunStore(self._workspace).count(AT_WORK, tenant=principal.tenant, user=principal.user) >= most:
            raise _too_many(f"{principal.user} has {most} runs under way", 2)


@dataclass
class _Gate:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PLACES))
    asked: int = 0
    """Those that have a place or wait for one."""


class Places:
    """The threads of each principal, so that whoever asks for much waits for himself. For one event loop."""

    def __init__(self) -> None:
        self.threads = CapacityLimiter(THREADS)
        self._gates: dict[tuple[str, str], _Gate] = {}

    async def take(self, principal: Principal, left: Callable[[], Awaitable[bool]] | None = None) -> Callable[[], None]:
        """Wait for a place, and return what gives it back. `left` says whether nobody waits for the answer any more.

        Raises: HIVE-433 where as many wait as may; ClientDisconnect where their client left.
        """
        key = (principal.tenant, principal.user)
        gate = self._gates.setdefault(key, _Gate())
        if gate.asked >= PLACES + LINE:
            raise _too_many(f"{principal.user} has {gate.asked} requests under way", 2)

        def leave() -> None:
            gate.asked -= 1
            if not gate.asked:
                del self._gates[key]

        def give_back() -> None:
            gate.free.release()
            leave()

        gate.asked += 1
        waiting = asyncio.ensure_future(gate.free.acquire())
        try:
            while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
                if left is not None and await left():
                    raise ClientDisconnect
        except BaseException:
            if not waiting.cancel():  # the place was given in the same moment
                gate.free.release()
            leave()
            raise
        return give_back


class Streams:
    """The open streams of each principal. For one event loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[tuple[str, str]] = Counter()

    def require_room(self, principal: Principal) -> None:
        """Raises: HIVE-433 where the principal has as many streams open as they may have."""
        if self._open[principal.tenant, principal.user] >= self._most:
            raise _too_many(f"{principal.user} has {self._most} streams open", 5)

    def begin(self, principal: Principal) -> Callable[[], None]:
        """Count a stream, and return what counts its end. Raises: as `require_room`."""
        self.require_room(principal)
        key = (principal.tenant, principal.user)
        self._open[key] += 1

        def end() -> None:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

        return end


def _too_many(message: str, seconds: int) -> TooMany:
    error = TooMany.of(
        "HIVE-433", message, fix=f"ask again in {seconds} s, or let fewer things run at once", exit_code=1
    )
    error.retry_after = max(1, seconds)
    return error
