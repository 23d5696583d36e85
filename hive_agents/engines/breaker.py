"""Circuit breakers: an engine that is away isn't asked for a while, and then by one request alone."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hive_agents.base import EngineFault

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

REFUSALS = 3
"""Refusals in a row that open a breaker; one silence does: the next request would wait for its whole timeout, too."""


class Unreachable(EngineFault):
    """The engine, or the way to it, refuses connections."""


class TimedOut(EngineFault):
    """The engine didn't answer in time."""


class EngineBreaker:
    """Open for `rest` seconds after an outage; then it is half-open: one request is let through, and decides.

    >>> seconds = [0.0]
    >>> breaker = EngineBreaker(15.0, clock=lambda: seconds[0])
    >>> def ask(error: EngineFault | None = None) -> str:
    ...     try:
    ...         with breaker.attempt(lambda why: EngineFault.of("HIVE-434", why)):
    ...             if error is not None:
    ...                 raise error
    ...     except EngineFault as fault:
    ...         return fault.diagnostics[0].message
    ...     return "answered"
    >>> ask(TimedOut.of("HIVE-434", "silent")), ask(), breaker.state
    ('silent', "it was away a moment ago, and isn't asked for 15 s", 'open')
    >>> seconds[0] = 15.0
    >>> breaker.state, ask(), breaker.state
    ('half-open', 'answered', 'closed')
    """

    STATES = ("closed", "open", "half-open")
    OUTCOMES = ("answered", "failed", "refused", "silent", "cut", "spared")
    """What becomes of requests: they are answered, also by a failure; refused; silent until the deadline; cut off by
    those who asked; or spared, and never sent."""

    def __init__(self, rest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.since: dt.datetime | None = None
        """Since when the engine has been away; None while it answers."""
        self.outcomes: Counter[str] = Counter()
        """Requests so far, by what became of them."""
        self.seconds = 0.0
        """What the requests that were sent took, together."""
        self._rest, self._clock = rest, clock
        self._refusals = 0
        self._until: float | None = None
        self._probing = False
        self._lock = threading.Lock()

    @property
    def state(self) -> str:
        if self._until is None:
            return "closed"
        return "open" if self._until > self._clock() else "half-open"

    @contextmanager
    def attempt(self, fault: Callable[[str], EngineFault], *, heavy: bool = False) -> Iterator[None]:
        """Count a request. A `heavy` one may time out for what it asks: its silence opens nothing.

        Raises: `fault` of a reason, without any request, while the breaker is open or another request decides.
        """
        is_probe = self._entered(fault)
        began = self._clock()
        outcome = "cut"
        try:
            yield
            outcome = "answered"
        except EngineFault as error:
            outcome = "silent" if isinstance(error, TimedOut) else "failed"
            outcome = "refused" if isinstance(error, Unreachable) else outcome
            raise
        finally:
            with self._lock:
                self.outcomes[outcome] += 1
                self.seconds += self._clock() - began
                self._probing = self._probing and not is_probe
                if outcome != "cut" and not (heavy and outcome == "silent"):
                    self._note(outcome)

    def _entered(self, fault: Callable[[str], EngineFault]) -> bool:
        """Return whether the request is the one that decides."""
        with self._lock:
            if self._until is None:
                return False
            remaining = self._until - self._clock()
            if remaining <= 0 and not self._probing:
                self._probing = True
                return True
            self.outcomes["spared"] += 1
        seconds = math.ceil(max(remaining, 1.0))
        error = fault(f"it was away a moment ago, and isn't asked for {seconds} s")
        error.retry_after = seconds
        raise error

    def _note(self, outcome: str) -> None:
        if outcome in ("answered", "failed"):
            self._refusals, self._until, self.since = 0, None, None
            return
        self._refusals += 1
        if outcome == "silent" or self._refusals >= REFUSALS or self._until is not None:
            self._until = self._clock() + self._rest
            self.since = self.since or dt.datetime.now(dt.UTC)


_breakers: dict[tuple[str, str, float], EngineBreaker] = {}


def breakers_of(workspace: Workspace) -> dict[str, EngineBreaker]:
    """Return the breaker of each engine of the settings, by its kind; all searches of this process share them."""
    settings = workspace.settings
    return {
        kind: _breakers.setdefault((str(workspace.root), of.url, of.rest_seconds), EngineBreaker(of.rest_seconds))
        for kind, of in (("opensearch", settings.search), ("pgvector", settings.vectors))
        if of.url
    }
