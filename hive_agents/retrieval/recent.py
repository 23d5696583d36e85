"""A small memory of what was made last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """What was made for the `limit` most recently used keys; one object serves all threads.

    >>> squares: Recent[int, int] = Recent(2)
    >>> [squares.get(n, lambda: n * n) for n in (1, 2, 3, 3)], len(squares)
    ([1, 4, 9, 9], 2)
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return what is kept for `key`, else what `make` makes; all threads get the same object."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()  # not under the lock: it may take long, or wait for another memory
        with self._lock:
            made = self._kept.setdefault(key, made)
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return made

    def __len__(self) -> int:
        return len(self._kept)
