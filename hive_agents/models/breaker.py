"""Circuit breakers: a model that failed repeatedly isn't called for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hive_agents.models.model import ModelError

FAILURES = 2
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 240.0


class Breaker:
    """After `FAILURES` outages in a row calls fail at once, for a pause that doubles with each further outage.

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
    hive_agents.models.model.ModelError: m failed 3 times in a row and is not asked again for 30 s; the last time: late
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = 0.0
        self._last = ""

    @property
    def open(self) -> bool:
        """Whether calls fail at once, without a request."""
        return self._failures >= FAILURES and self._open_until > self._clock()

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Count a call of the model `name`. Raises: ModelError `unavailable` while the breaker is open."""
        if self.open:
            remaining = self._open_until - self._clock()
            why = f"{name} failed {self._failures} times in a row and is not asked again for {remaining:.0f} s"
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
        self._open_until = self._clock() + min(pause, LONGEST_PAUSE)


_breakers: dict[tuple[str, str], Breaker] = {}


def breaker_of(server: str, model: str) -> Breaker:
    """Return the breaker of a model of a server, which all chains of this process share."""
    return _breakers.setdefault((server, model), Breaker())


def forget_breakers() -> None:
    """Forget past failures; chains that are open keep their breakers."""
    _breakers.clear()


def resting() -> int:
    """Return the number of open breakers in this process."""
    return sum(breaker.open for breaker in list(_breakers.values()))
