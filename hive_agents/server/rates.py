"""Limits of each principal: requests in a minute, threads at work for them, and runs under way."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from anyio import CapacityLimiter

from hive_agents.base import TooMany
from hive_agents.runs import RunStore
from hive_agents.server.shapes import OPENAI

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace
    from hive_agents.workspace.settings import ServerSettings

MAX_BUCKETS = 10_000
"""Principals with a bucket; the least recent ones are dropped, and begin with a full bucket again."""
AT_WORK = ("queued", "running")
PLACES = 8
"""Threads that work for one principal at once."""
THREADS = 5 * PLACES
"""Threads that work for all principals at once. Those that say who calls, or whether the host is well, are others."""
LINE = 32
"""What else of one principal may wait for a place."""


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


class Rates:
    """A token bucket for each principal: it holds `rate_per_minute` requests, and fills up within a minute."""

    def __init__(self, limits: ServerSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._now = limits, now
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        self._lock = threading.Lock()

    def admit(self, principal: Principal) -> None:
        """Count one request. Raises: HIVE-433 where the bucket is empty."""
        capacity, now = float(self._limits.rate_per_minute), self._now()
        key = (principal.tenant, principal.user)
        with self._lock:
            tokens, updated = self._buckets.pop(key, (capacity, now))
            tokens = min(capacity, tokens + (now - updated) * capacity / 60)
            admitted = tokens >= 1
            self._buckets[key] = (tokens - admitted, now)
            while len(self._buckets) > MAX_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
        if not admitted:
            message = f"{principal.user} has asked {int(capacity)} times within a minute"
            raise _too_many(message, math.ceil((1 - tokens) * 60 / capacity))

    def left(self, principal: Principal) -> RequestsLeft:
        """Return what the principal may still ask for now."""
        capacity, now = float(self._limits.rate_per_minute), self._now()
        with self._lock:
            tokens, updated = self._buckets.get((principal.tenant, principal.user), (capacity, now))
        tokens = min(capacity, tokens + (now - updated) * capacity / 60)
        return RequestsLeft(int(capacity), int(tokens), math.ceil((capacity - tokens) * 60 / capacity))

    def require_room(self, workspace: Workspace, principal: Principal) -> None:
        """Raises: HIVE-433 where the principal has as many runs under way as they may have."""
        most = self._limits.concurrent_runs
        if RunStore(workspace).count(AT_WORK, tenant=principal.tenant, user=principal.user) >= most:
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

    async def take(self, principal: Principal) -> Callable[[], None]:
        """Wait for a place, and return what gives it back. Raises: HIVE-433 where as many wait as may."""
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
        try:
            await gate.free.acquire()
        except BaseException:
            leave()
            raise
        return give_back


def _too_many(message: str, seconds: int) -> TooMany:
    error = TooMany.of(
        "HIVE-433", message, fix=f"ask again in {seconds} s, or let fewer things run at once", exit_code=1
    )
    error.retry_after = max(1, seconds)
    return error
