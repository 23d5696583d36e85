"""Give short requests precedence over new work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.25
"""Seconds after which work begins nevertheless."""


class Precedence:
    """Counts short requests in progress; meanwhile at most one question begins in `PATIENCE` seconds.

    So a burst of questions is accepted and acknowledged before the first is computed, since only one thread of the
    interpreter runs at a time. `on_idle` is called when no request is in progress any more, if work had to wait. Not
    thread-safe.
    """

    def __init__(self, on_idle: Callable[[], object], now: Callable[[], float] = time.monotonic) -> None:
        self._on_idle, self._now = on_idle, now
        self._count = 0
        self._since = 0.0
        self._waiting = False

    @contextmanager
    def first(self) -> Iterator[None]:
        """Give the block precedence over new work."""
        if not self._count:
            self._since = self._now()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count and self._waiting:
                self._waiting = False
                self._on_idle()

    def wait(self) -> float:
        """Return how many seconds new work should wait, unless `on_idle` is called before; 0 without requests."""
        seconds = max(0.0, self._since + PATIENCE - self._now()) if self._count else 0.0
        self._waiting = self._waiting or seconds > 0
        return seconds

    def begun(self) -> None:
        """Record that work has begun: the next has to wait again."""
        self._since = self._now()
