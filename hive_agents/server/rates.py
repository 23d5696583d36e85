"""How often one principal may ask, and how many of their runs may be under way."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hive_agents.errors import TooMany
from hive_agents.runs import RunStore

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.settings import ServerSettings
    from hive_agents.workspace import Workspace

MOST_KNOWN = 10_000
"""Principals that are remembered; those that were quiet for longest are forgotten, and have their whole rate again."""
AT_WORK = ("queued", "running")


class Rates:
    """A bucket for each principal: `rate_per_minute` requests at once, and as many again in the course of a minute."""

    def __init__(self, limits: ServerSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._now = limits, now
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}
        self._lock = threading.Lock()

    def admit(self, principal: Principal) -> None:
        """Count one request. Raises: HIVE-433 where the bucket is empty."""
        most, at = float(self._limits.rate_per_minute), self._now()
        key = (principal.tenant, principal.user)
        with self._lock:
            left, since = self._buckets.pop(key, (most, at))
            left = min(most, left + (at - since) * most / 60)
            admitted = left >= 1
            self._buckets[key] = (left - admitted, at)
            while len(self._buckets) > MOST_KNOWN:
                del self._buckets[next(iter(self._buckets))]
        if not admitted:
            told = f"{principal.user} has asked {int(most)} times within a minute"
            raise _too_many(told, math.ceil((1 - left) * 60 / most))

    def require_room(self, workspace: Workspace, principal: Principal) -> None:
        """Raises: HIVE-433 where as many runs of the principal's are under way as they may have."""
        most = self._limits.concurrent_runs
        if RunStore(workspace).count(AT_WORK, tenant=principal.tenant, user=principal.user) >= most:
            raise _too_many(f"{principal.user} has {most} runs under way", 2)


def _too_many(told: str, seconds: int) -> TooMany:
    error = TooMany.of("HIVE-433", told, fix=f"ask again in {seconds} s, or let fewer things run at once", exit_code=1)
    error.retry_after = max(1, seconds)
    return error
