"""A small cache of the most recently used values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A cache of the values of the `limit` most recently used keys; safe to share between threads.

    >>> squares: Recent[int, int] = Recent(2)
    >>> [squares.get(n, lambda: n * n) for n in (1, 2, 3, 3)], len(squares)
    ([1, 4, 9, 9], 2)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value of `key`, else that of `make`; all threads get the same object."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()  # not under the lock: it may take long, or wait for another cache
        with self._lock:
            value = self._values.setdefault(key, value)
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._values)
