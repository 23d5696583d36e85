"""Leases: one worker at a time has a thread, until it releases it, dies, or doesn't renew it in time.

`Hold` keeps a lease for a worker: it renews the lease and passes on controls of the run.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hive_agents.base import HiveError
from hive_agents.base.files import disk_errors, opened, read_bytes
from hive_agents.runs.store import RunStore
from hive_agents.store import RecordsConnection, briefly, clock_of, connected, transaction

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@dataclass
class _Membership:
    """This process in a workspace: its name, the descriptor of its locked file, and the number of its leases."""

    pid: int
    name: str
    file: int
    leases: int = 0


_FIRST_FENCE_BITS = 62
"""The first fence of a thread is random; a number in a table has one bit more for those that follow."""
_memberships: dict[str, _Membership] = {}
_guard = threading.Lock()


def join(workspace: Workspace) -> str:
    """Return this process's name in the workspace and count one lease; its file is locked while the process lives."""
    folder = workspace.state_folder("holders")
    with _guard:
        member = _memberships.get(str(folder))
        if member is None or member.pid != os.getpid() or not (folder / member.name).exists():
            member = _memberships[str(folder)] = _joined(folder)
        member.leases += 1
        return member.name


def leave(workspace: Workspace, name: str) -> None:
    """Count one lease less; after the last one remove the name and its file."""
    folder = workspace.state / "holders"
    with _guard:
        member = _memberships.get(str(folder))
        if member is None or (member.pid, member.name) != (os.getpid(), name):
            return
        member.leases -= 1
        if not member.leases:
            del _memberships[str(folder)]
            (folder / name).unlink(missing_ok=True)
            os.close(member.file)


def is_alive(workspace: Workspace, holder: str) -> bool:
    """Return False if the process is certainly dead."""
    folder = workspace.state / "holders"
    member = _memberships.get(str(folder))
    if member is not None and (member.pid, member.name) == (os.getpid(), holder):
        return True
    return _locked(folder / holder, missing=not isinstance(workspace.records, Path))


@dataclass(frozen=True, order=True)
class HostAtWork:
    """A living process of this machine: when it joined the workspace, as a file time, and its id, "" for an unknown."""

    since: float
    pid: str


def at_work(workspace: Workspace, *, others: bool = False) -> list[HostAtWork]:
    """Return the living processes of this machine in the workspace, oldest first; with `others` all but this one."""
    folder, found = workspace.state / "holders", []
    own = _memberships.get(str(folder)) if others else None
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # its process left meanwhile
            pid = b""
            with suppress(PermissionError):  # of another user
                pid = read_bytes(path)
            member = HostAtWork(path.stat().st_mtime, pid.decode())
            if (own is None or own.name != path.name) and is_alive(workspace, path.name):
                found.append(member)
    return sorted(found)


def _joined(folder: Path) -> _Membership:
    name = uuid.uuid4().hex
    with disk_errors(folder / name):
        _sweep(folder)
        file = opened(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, str(os.getpid()).encode())
    return _Membership(os.getpid(), name, file)


def _locked(path: Path, *, missing: bool = False) -> bool:
    """Return whether a living process has locked the file; `missing` is the answer for a file that doesn't exist, since
    it may be on another host."""
    try:
        file = opened(path, os.O_RDWR)
    except FileNotFoundError:
        return missing
    except OSError:
        return True  # of another user: the lease's expiry decides
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _sweep(folder: Path) -> None:
    """Remove the files of dead processes."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # its process left meanwhile
            # A new file is locked only after it is made.
            if path.stat().st_mtime < time.time() - 60.0 and not _locked(path):
                path.unlink()


class LeaseLost(HiveError):
    """Another worker has the thread now; the earlier one must not write any more."""


@dataclass(eq=False)
class Lease:
    """The right to work on a thread; `fence` rises with each acquisition and identifies stale holders.

    Where nothing is recorded of the thread it begins anywhere: a worker of before its runs were deleted stays stale.
    """

    leases: Leases
    thread_id: str
    run_id: str
    fence: int
    holder: str
    until: float
    """When it ends by `Leases.ticks` unless it was renewed since it was acquired."""
    _released: bool = field(default=False, init=False)

    @property
    def lasts(self) -> bool:
        """Whether at least half of its time is left, so that no other worker can have taken it."""
        return self.leases.ticks() < self.until - self.leases.seconds / 2

    def renew(self) -> bool:
        """Extend it to the full time; return False if another worker has it."""
        return self.leases.extend(self, self.leases.clock() + self.leases.seconds)

    def release(self) -> None:
        """Give it up, unless another worker has it already."""
        if self._released:
            return
        self._released = True
        try:
            self.leases.extend(self, 0.0)
        finally:
            leave(self.leases.workspace, self.holder)

    async def give_back(self) -> None:
        """Give it up from a coroutine; if the database fails, it expires."""
        if self._released:
            return
        self._released = True
        try:
            with suppress(HiveError):
                await briefly(partial(self.leases.extend, self, 0.0))
        finally:
            leave(self.leases.workspace, self.holder)

    def require(self, connection: RecordsConnection, *, keeping: bool = False) -> None:
        """Check the lease inside the transaction of a write that only the holder may make.

        With `keeping`, on a server, the lease can't be taken before that transaction is committed.

        Raises: LeaseLost (HIVE-425).
        """
        query = f"SELECT fence FROM leases WHERE thread_id = ?{' FOR SHARE' if keeping else ''}"
        found = connection.execute(query, (self.thread_id,)).fetchone()
        if found is None or found[0] != self.fence:
            raise self.lost

    def check(self) -> None:
        """Check the lease just before a write to another database. Raises: LeaseLost."""
        with connected(self.leases.workspace.records) as connection:
            self.require(connection)

    @property
    def lost(self) -> LeaseLost:
        fix = "nothing to do: the other worker goes on with it"
        return LeaseLost.of("HIVE-425", f"another worker has taken {self.thread_id}", fix=fix, exit_code=3)


class Leases:
    """The leases of one workspace, among its records.

    A lease ends `seconds` after it was last renewed, and at once when its holder is a dead process of this host.

    The clock is the database server's, or a given one that all holders share. A file has no clock, and the clocks of
    two processes may differ or jump: whoever wants a lease there has to have seen for `seconds`, by its own monotonic
    clock, that it wasn't renewed.
    """

    def __init__(
        self, workspace: Workspace, *, seconds: float | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self.workspace, self.clock = workspace, clock or clock_of(workspace.records)
        self.seconds = workspace.settings.runs.lease_seconds if seconds is None else seconds

    @property
    def is_clock_shared(self) -> bool:
        """Whether all holders go by this clock; this host's may be another than theirs, and may jump."""
        return self.clock is not time.time

    @property
    def ticks(self) -> Callable[[], float]:
        """A clock for what this process itself measures."""
        return self.clock if self.is_clock_shared else time.monotonic

    def acquire(self, thread_id: str, run_id: str) -> Lease | None:
        """Return the lease of a free thread; None while another worker, or another run of this process, has it."""
        return next(iter(self.acquire_each([(thread_id, run_id)])), None)

    def acquire_each(self, wanted: Sequence[tuple[str, str]]) -> list[Lease]:
        """Return the leases of the free ones of these (thread, run) pairs, acquired in one transaction."""
        names = [join(self.workspace) for _ in wanted]
        taken: list[Lease] = []
        try:
            taken = self._taken(wanted, names)
        finally:
            for name in names[len(taken) :]:
                leave(self.workspace, name)
        return taken

    def _taken(self, wanted: Sequence[tuple[str, str]], names: list[str]) -> list[Lease]:
        unused, taken = iter(names), []
        with connected(self.workspace.records) as connection, transaction(connection):
            for thread_id, run_id in wanted:
                query = "SELECT holder, fence, expires_at FROM leases WHERE thread_id = ?"
                found = connection.execute(query, (thread_id,)).fetchone()
                if found is not None and self._held(thread_id, *found):
                    continue
                fence = secrets.randbits(_FIRST_FENCE_BITS) if found is None else int(found[1]) + 1
                until = self.clock() + self.seconds
                lease = Lease(self, thread_id, run_id, fence, next(unused), self.ticks() + self.seconds)
                connection.execute(
                    "INSERT INTO leases (thread_id, run_id, holder, fence, expires_at) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT (thread_id) DO UPDATE SET run_id = excluded.run_id, holder = excluded.holder,"
                    " fence = excluded.fence, expires_at = excluded.expires_at",
                    (thread_id, run_id, lease.holder, fence, until),
                )
                taken.append(lease)
        return taken

    def is_held(self, thread_id: str) -> bool:
        """Return whether a living worker has the thread."""
        with connected(self.workspace.records) as connection:
            query = "SELECT holder, fence, expires_at FROM leases WHERE thread_id = ?"
            found = connection.execute(query, (thread_id,)).fetchone()
        return found is not None and self._held(thread_id, *found)

    @staticmethod
    def forget(connection: RecordsConnection, *thread_ids: str) -> None:
        """Delete what is recorded of threads that are over, in the transaction of their owner."""
        connection.executemany("DELETE FROM leases WHERE thread_id = ?", [(thread_id,) for thread_id in thread_ids])

    def held(self) -> frozenset[str]:
        """Return the threads whose leases living workers hold."""
        with connected(self.workspace.records) as connection:
            query = "SELECT thread_id, holder, fence, expires_at FROM leases WHERE expires_at > 0"
            found = connection.execute(query).fetchall()
        place, named = str(self.workspace.records), {row[0] for row in found}
        for key in [key for key in list(_watched) if key[0] == place and key[1] not in named]:
            _watched.pop(key, None)
        found = [row for row in found if not self._ended(row[0], row[2], row[3])]
        alive = {holder: is_alive(self.workspace, holder) for holder in {row[1] for row in found}}
        return frozenset(row[0] for row in found if alive[row[1]])

    def clear(self, thread_id: str) -> bool:
        """End the lease of a worker that is dead or whose lease has expired; return False if there was none."""
        with connected(self.workspace.records) as connection, transaction(connection):
            query = "SELECT holder, fence, expires_at FROM leases WHERE thread_id = ? AND expires_at > 0"
            found = connection.execute(query, (thread_id,)).fetchone()
            if found is not None and not self._held(thread_id, *found):
                connection.execute("UPDATE leases SET expires_at = 0 WHERE thread_id = ?", (thread_id,))
                return True
        return False

    def extend(self, lease: Lease, until: float) -> bool:
        """Set the end of the lease; return False if another worker has it."""
        update = "UPDATE leases SET expires_at = ? WHERE thread_id = ? AND fence = ?"
        with connected(self.workspace.records) as connection:
            return connection.execute(update, (until, lease.thread_id, lease.fence)).rowcount == 1

    def _held(self, thread_id: str, holder: str, fence: int, expires_at: float) -> bool:
        return not self._ended(thread_id, fence, expires_at) and is_alive(self.workspace, holder)

    def _ended(self, thread_id: str, fence: int, expires_at: float) -> bool:
        """Return whether a lease was released or not renewed in time, as far as this process has seen."""
        if self.is_clock_shared:
            return expires_at <= self.clock()
        key, state = (str(self.workspace.records), thread_id), (fence, expires_at)
        if expires_at <= 0:
            _watched.pop(key, None)
            return True
        now = self.ticks()
        seen, since = _watched.get(key, (state, now))
        if seen != state:
            since = now
        _watched[key] = state, since
        return now - since >= self.seconds


_watched: dict[tuple[str, str], tuple[tuple[int, float], float]] = {}
"""The leases in files that this process has seen held: their last renewal, and when it was first seen."""


LOST = "lost"
WEIGHT = ("drain", "pause", "stop", LOST)
"""The controls of a worker; a later one counts only if it weighs at least as much."""
BEAT = 0.5


async def take(leases: Leases, thread_id: str, run_id: str, wait: float) -> Lease:
    """Return the lease of a thread, as soon as it is free. Raises: HIVE-402 after `wait` seconds.

    It polls, since a thread of the pool that waited could be the one that the holder needs to release the lease.
    """
    until: float | None = None
    while True:
        lease = await taken(partial(leases.acquire, thread_id, run_id))
        if lease is not None:
            return lease
        # From the first look on: after a wait as long as a lease, one that wasn't renewed is free.
        until = time.monotonic() + wait if until is None else until
        if time.monotonic() >= until:
            message = f"another worker is busy with run {run_id} or its conversation (waited {wait:.0f} s)"
            fix = "wait until it has finished, then run the command again"
            raise HiveError.of("HIVE-402", message, path=run_id, fix=fix)
        await asyncio.sleep(min(0.1, max(0.01, until - time.monotonic())))


async def taken(acquire: Callable[[], Lease | None]) -> Lease | None:
    """Return the result of `acquire`, called in a thread; on cancellation its lease is released."""

    def acquired() -> list[Lease]:
        lease = acquire()
        return [] if lease is None else [lease]

    return next(iter(await taken_each(acquired)), None)


async def taken_each(acquire: Callable[[], list[Lease]]) -> list[Lease]:
    """Return the leases of `acquire`, as `taken` does."""
    guard, wanted = threading.Lock(), True
    acquired: list[Lease] = []

    def work() -> list[Lease]:
        nonlocal acquired
        leases = acquire()
        with guard:
            if wanted:
                acquired = leases
                return leases
        let_go(*leases)
        return []

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        with guard:
            wanted = False
        await asyncio.to_thread(let_go, *acquired)
        raise


class Hold:
    """Keeps a lease during an `async with` block, also while the block computes.

    `on_control` is called, from another thread, with "pause" or "stop" when the run's control changes, and with "lost"
    when another worker has the lease.
    """

    def __init__(self, lease: Lease, on_control: Callable[[str], object]) -> None:
        self.lease, self._on_control = lease, on_control
        self._over, self._pause = threading.Event(), min(BEAT, lease.leases.seconds / 3)
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        # Most blocks are shorter than a beat, and need no thread.
        self._start = asyncio.get_running_loop().call_later(self._pause, self._begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.cancel()
        await (self.lease.give_back() if self._thread is None else asyncio.to_thread(self._let_go, self._thread))

    def _let_go(self, beating: threading.Thread) -> None:
        self._over.set()
        beating.join()
        let_go(self.lease)

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._beat, name=f"hold {self.lease.run_id}", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        store, passed_on = RunStore(self.lease.leases.workspace), None
        while not self._over.is_set():
            # While the database is locked, the lease is lost only after its expiry.
            with suppress(HiveError):
                if not self.lease.renew():
                    self._on_control(LOST)
                    return
                control = store.asked(self.lease.run_id)
                if control is not None and control != passed_on:
                    passed_on = control
                    self._on_control(control)
            self._over.wait(self._pause)


def let_go(*leases: Lease) -> None:
    """Release the leases; one for which the database fails expires."""
    for lease in leases:
        with suppress(HiveError):
            lease.release()
