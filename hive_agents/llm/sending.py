"""When a request to a model goes out: whoever keeps accounts has to know it before an answer comes, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[int], object]
"""Gets 1 when a request is out, and -1 for one that turned out to be free: it was refused, or never left."""

_TELL: ContextVar[Tell | None] = ContextVar("hive_sending", default=None)


@contextmanager
def sending(tell: Tell) -> Iterator[Callable[[], None]]:
    """Tell of each request that is made within; yields what takes back all of them, where they cost nothing.

    >>> out = []
    >>> with sending(out.append) as take_back:
    ...     sent()
    ...     take_back()
    >>> out
    [1, -1]
    """
    count = 0

    def counted(number: int) -> None:
        nonlocal count
        count += number
        tell(number)

    def take_back() -> None:
        if count:
            counted(-count)

    token = _TELL.set(counted)
    try:
        yield take_back
    finally:
        _TELL.reset(token)


def sent(number: int = 1) -> None:
    """Tell whoever listens that a request is out."""
    tell = _TELL.get()
    if tell is not None:
        tell(number)
