"""A circuit breaker per model: one that failed again and again isn't waited for each time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hive_agents.llm.model import ModelError

FAILURES = 2
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 240.0


class Breaker:
    """After `FAILURES` outages in a row calls fail at once, until a pause is over that doubles with each further one.

    >>> seconds = [0.0]
    >>> breaker = Breaker(clock=lambda: seconds[0])
    >>> def call() -> None:
    ...     with breaker.attempt("m"):
    ...         raise ModelError("timeout", "late")
    >>> def kind() -> str:
    ...     try:
    ...         call()
    ...     except ModelError as error:
    ...         return error.kind
    >>> [kind(), kind(), kind()]
    ['timeout', 'timeout', 'unavailable']
    >>> seconds[0] = 15.0
    >>> [kind(), kind()]
    ['timeout', 'unavailable']
    >>> call()
    Traceback (most recent call last):
        ...
    hive_agents.llm.model.ModelError: m failed 3 times in a row and is not asked again for 30 s; the last time: late
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._closed_until = 0.0
        self._last = ""

    @property
    def open(self) -> bool:
        """Whether the model isn't asked now."""
        return self._failures >= FAILURES and self._closed_until > self._clock()

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """One call of the model `name`. Raises: ModelError `unavailable` where it isn't to be made now."""
        if self.open:
            left = self._closed_until - self._clock()
            why = f"{name} failed {self._failures} times in a row and is not asked again for {left:.0f} s"
            raise ModelError("unavailable", f"{why}; the last time: {self._last}")
        try:
            yield
        except ModelError as error:
            if error.kind in ("timeout", "server"):
                self._failed(error)
            else:
                self._failures = 0
            raise
        else:
            self._failures = 0

    def _failed(self, error: ModelError) -> None:
        self._failures, self._last = self._failures + 1, error.message
        pause = FIRST_PAUSE * 2.0 ** max(0, self._failures - FAILURES)
        self._closed_until = self._clock() + min(pause, LONGEST_PAUSE)


_breakers: dict[tuple[str, str], Breaker] = {}


def breaker_of(server: str, model: str) -> Breaker:
    """Return the one of this process for a model of a server, which all chains share."""
    return _breakers.setdefault((server, model), Breaker())


def forget_breakers() -> None:
    """Let what failed before count no more: models that are opened from now on are asked."""
    _breakers.clear()


def resting() -> int:
    """Return how many models of this process failed again and again, and aren't asked now."""
    return sum(breaker.open for breaker in list(_breakers.values()))
