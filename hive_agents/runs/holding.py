"""A worker's hold on a run: the lease, renewed as long as it works, and what is asked of it meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from hive_agents.errors import HiveError
from hive_agents.runs.leases import Lease, Leases
from hive_agents.runs.store import RunStore

LOST = "lost"
WEIGHT = ("drain", "pause", "stop", LOST)
"""What a worker may be asked; what is asked later counts only where it weighs as much."""
BEAT = 0.5


def take(leases: Leases, thread_id: str, run_id: str, wait: float) -> Lease:
    """The lease of a thread, as soon as it is free. Raises: HIVE-402 after `wait` seconds."""
    until = time.monotonic() + wait
    while True:
        lease = leases.acquire(thread_id, run_id)
        if lease is not None:
            return lease
        if time.monotonic() >= until:
            told = f"another process is working on run {run_id} (waited {wait:.0f} s)"
            fix = "wait until it has finished, then run the command again"
            raise HiveError.of("HIVE-402", told, path=run_id, fix=fix)
        time.sleep(min(0.1, max(0.01, until - time.monotonic())))


async def taken(acquire: Callable[[], Lease | None]) -> Lease | None:
    """What `acquire` comes to in a thread; a lease for which nobody waits any more is let go of."""

    def acquired() -> list[Lease]:
        lease = acquire()
        return [] if lease is None else [lease]

    return next(iter(await taken_each(acquired)), None)


async def taken_each(acquire: Callable[[], list[Lease]]) -> list[Lease]:
    """`taken` for several leases at once."""
    guard, wanted = threading.Lock(), True
    got: list[Lease] = []

    def work() -> list[Lease]:
        nonlocal got
        leases = acquire()
        with guard:
            if wanted:
                got = leases
                return leases
        _release_each(leases)
        return []

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        with guard:
            wanted = False
        await asyncio.to_thread(_release_each, got)
        raise


class Hold:
    """Holds a lease while an `async with` block lasts, whatever the block computes.

    `on_asked` is called, from another thread, with "pause" or "stop" when somebody asks for that, and with "lost"
    when another worker has the lease.
    """

    def __init__(self, lease: Lease, on_asked: Callable[[str], object]) -> None:
        self.lease, self._on_asked = lease, on_asked
        self._over, self._pause = threading.Event(), min(BEAT, lease.leases.seconds / 3)
        self._thread = threading.Thread(target=self._beat, name=f"hold {lease.run_id}", daemon=True)

    async def __aenter__(self) -> Self:
        # Most blocks are shorter than a beat, and need no thread.
        self._start = asyncio.get_running_loop().call_later(self._pause, self._thread.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.cancel()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        let_go(self.lease)

    def _beat(self) -> None:
        store, told = RunStore(self.lease.leases.workspace), None
        while not self._over.is_set():
            # A database that is locked for a while costs the lease only when it has run out.
            with suppress(HiveError):
                if not self.lease.renew():
                    self._on_asked(LOST)
                    return
                asked = store.asked(self.lease.run_id)
                if asked is not None and asked != told:
                    told = asked
                    self._on_asked(asked)
            self._over.wait(self._pause)


def _release_each(leases: list[Lease]) -> None:
    for lease in leases:
        let_go(lease)


def let_go(lease: Lease) -> None:
    """Release it; where the database fails, it runs out by itself."""
    with suppress(HiveError):
        lease.release()
