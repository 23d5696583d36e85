"""How far work is, for whoever reads lines instead of looking at a bar."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Step:
    what: str
    done: int
    total: int
    started: float
    done_before: int


@contextmanager
def told_now_and_then(
    say: Callable[[str], None], *, first: float = 1.0, every: float = 10.0
) -> Iterator[Callable[[str, int, int], None]]:
    """A callback (what, done, total); `say` gets a line after `first` seconds, and then one `every` so many."""
    step: list[_Step] = []
    ended = threading.Event()

    def report(what: str, done: int, total: int) -> None:
        if not step or step[0].what != what:
            step[:] = [_Step(what, done, total, time.monotonic(), done)]
        else:
            step[0].done, step[0].total = done, total

    def tell() -> None:
        wait = first
        while not ended.wait(wait):
            wait = every
            if step:
                say(line_of(step[0], time.monotonic()))

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield report
    finally:
        ended.set()
        teller.join()


def line_of(step: _Step, now: float) -> str:
    """Return what is done, how much of it, and how long it will still take at the pace so far.

    >>> line_of(_Step("embedding", 250, 1000, started=0.0, done_before=0), now=60.0)
    'embedding: 250 of 1000 (25 %), about 3 min left'
    """
    if step.total <= 1:
        return f"{step.what}: {duration(now - step.started)} so far"
    line = f"{step.what}: {step.done} of {step.total} ({100 * step.done // step.total} %)"
    made = step.done - step.done_before
    if made <= 0:
        return line
    left = (now - step.started) / made * (step.total - step.done)
    return f"{line}, about {duration(left)} left"


def duration(seconds: float) -> str:
    """Return a span of time in the unit that a person would name.

    >>> duration(7.2), duration(170), duration(5000)
    ('7 s', '3 min', '1 h 23 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
