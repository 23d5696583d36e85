"""What goes before new work: requests that only have to be taken in, or to be told how things stand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.25
"""Seconds after which work begins all the same."""


class Precedence:
    """Counts what is in hand. While there is any, questions aren't begun more often than once in `PATIENCE` seconds.

    A burst of questions is taken in at once in this way, and each asker hears of it, before the first is computed:
    the interpreter does one thing at a time. Where work was held back, `over` is called as soon as nothing is in hand
    any more. For one event loop.
    """

    def __init__(self, over: Callable[[], object], now: Callable[[], float] = time.monotonic) -> None:
        self._over, self._now = over, now
        self._count = 0
        self._since = 0.0
        self._held = False

    @contextmanager
    def first(self) -> Iterator[None]:
        """What happens inside goes before new work."""
        if not self._count:
            self._since = self._now()
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count and self._held:
                self._held = False
                self._over()

    def wait(self) -> float:
        """Return how many seconds new work should wait, unless `over` is called before; 0 where nothing is in hand."""
        seconds = max(0.0, self._since + PATIENCE - self._now()) if self._count else 0.0
        self._held = self._held or seconds > 0
        return seconds

    def begun(self) -> None:
        """Some work has begun all the same: the next waits as long again."""
        self._since = self._now()
