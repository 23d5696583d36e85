"""Leases: a thread belongs to one worker at a time, until it lets go, dies, or is silent for too long.

Whoever works holds its lease (`Hold`), renews it meanwhile, and hears what is asked of the worker.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
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

from hive_agents.errors import HiveError
from hive_agents.files import disk_errors, opened
from hive_agents.runs.store import RunStore
from hive_agents.store import RecordsConnection, clock_of, connected, transaction

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@dataclass
class _Mine:
    """`name` is this process's in one folder, `file` keeps its lock, `leases` counts what hangs on it."""

    pid: int
    name: str
    file: int
    leases: int = 0


_mine: dict[str, _Mine] = {}
_guard = threading.Lock()


def join(workspace: Workspace) -> str:
    """This process's name in the workspace, for one lease more; the lock behind it dies with the process."""
    folder = workspace.state_folder("holders")
    with _guard:
        found = _mine.get(str(folder))
        if found is None or found.pid != os.getpid() or not (folder / found.name).exists():
            found = _mine[str(folder)] = _made(folder)
        found.leases += 1
        return found.name


def leave(workspace: Workspace, name: str) -> None:
    """One lease less; after the last one nothing is left of the name."""
    folder = workspace.state / "holders"
    with _guard:
        found = _mine.get(str(folder))
        if found is None or (found.pid, found.name) != (os.getpid(), name):
            return
        found.leases -= 1
        if not found.leases:
            del _mine[str(folder)]
            (folder / name).unlink(missing_ok=True)
            os.close(found.file)


def is_alive(workspace: Workspace, holder: str) -> bool:
    """False where the process is certainly dead."""
    folder = workspace.state / "holders"
    found = _mine.get(str(folder))
    if found is not None and (found.pid, found.name) == (os.getpid(), holder):
        return True
    return _locked(folder / holder, missing=not isinstance(workspace.records, Path))


def at_work_since(workspace: Workspace) -> list[float]:
    """When each living process of this machine that works in the workspace began to, as file times, oldest first."""
    folder, found = workspace.state / "holders", []
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # somebody leaves just now
            began = path.stat().st_mtime
            if is_alive(workspace, path.name):
                found.append(began)
    return sorted(found)


def _made(folder: Path) -> _Mine:
    name = uuid.uuid4().hex
    with disk_errors(folder / name):
        _sweep(folder)
        file = opened(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
    return _Mine(os.getpid(), name, file)


def _locked(path: Path, *, missing: bool = False) -> bool:
    """Return whether a living process holds the file; `missing` is what a file that isn't here says: another host's
    may be."""
    try:
        file = opened(path, os.O_RDWR)
    except FileNotFoundError:
        return missing
    except OSError:
        return True  # another user's: its expiry decides
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _sweep(folder: Path) -> None:
    """Remove what dead processes left."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # somebody leaves just now
            # A file that was just made is locked a moment later.
            if path.stat().st_mtime < time.time() - 60.0 and not _locked(path):
                path.unlink()


class LeaseLost(HiveError):
    """Another worker has the thread now: whoever had it before writes no more."""


@dataclass(eq=False)
class Lease:
    """The right to work on a thread; `fence` rises with each worker that gets it, so that an earlier one is told."""

    leases: Leases
    thread_id: str
    run_id: str
    fence: int
    holder: str
    until: float
    """When it ends unless it is renewed, as far as this worker knows."""
    _released: bool = field(default=False, init=False)

    @property
    def lasts(self) -> bool:
        """Whether at least half of its time is left, so that nobody can have taken it."""
        return self.leases.clock() < self.until - self.leases.seconds / 2

    def renew(self) -> bool:
        """Hold it for the full time again; False where another worker has it."""
        return self.leases.extend(self, self.leases.clock() + self.leases.seconds)

    def release(self) -> None:
        """Let go, unless another worker has it."""
        if self._released:
            return
        self._released = True
        try:
            self.leases.extend(self, 0.0)
        finally:
            leave(self.leases.workspace, self.holder)

    def require(self, connection: RecordsConnection, *, keeping: bool = False) -> None:
        """Called inside the transaction of a write that only the holder may make.

        With `keeping`, on a server, nobody takes the lease before that is committed, though others write meanwhile.

        Raises: LeaseLost (HIVE-425).
        """
        query = f"SELECT fence FROM leases WHERE thread_id = ?{' FOR SHARE' if keeping else ''}"
        found = connection.execute(query, (self.thread_id,)).fetchone()
        if found is None or found[0] != self.fence:
            raise self.lost

    def check(self) -> None:
        """`require` for a write that is in another database: what this one says just before it. Raises: LeaseLost."""
        with connected(self.leases.workspace.records) as connection:
            self.require(connection)

    @property
    def lost(self) -> LeaseLost:
        fix = "nothing to do: the other worker goes on with it"
        return LeaseLost.of("HIVE-425", f"another worker has taken {self.thread_id}", fix=fix, exit_code=3)


class Leases:
    """The leases of one workspace, among its records.

    A lease ends `seconds` after it was last renewed, and at once where a process of this host held it that is dead.
    The clock is the database's.
    """

    def __init__(
        self, workspace: Workspace, *, seconds: float = 30.0, clock: Callable[[], float] | None = None
    ) -> None:
        self.workspace, self.seconds, self.clock = workspace, seconds, clock or clock_of(workspace.records)

    def acquire(self, thread_id: str, run_id: str) -> Lease | None:
        """Return the lease of a thread that nobody has; None while another worker, or another run of ours, has it."""
        return next(iter(self.acquire_each([(thread_id, run_id)])), None)

    def acquire_each(self, wanted: Sequence[tuple[str, str]]) -> list[Lease]:
        """Return the leases of those threads, each with its run, that nobody has, taken in one transaction."""
        names = [join(self.workspace) for _ in wanted]
        taken: list[Lease] = []
        try:
            taken = self._taken(wanted, names)
        finally:
            for name in names[len(taken) :]:
                leave(self.workspace, name)
        return taken

    def _taken(self, wanted: Sequence[tuple[str, str]], names: list[str]) -> list[Lease]:
        left, taken = iter(names), []
        with connected(self.workspace.records) as connection, transaction(connection):
            for thread_id, run_id in wanted:
                query = "SELECT holder, fence, expires_at FROM leases WHERE thread_id = ?"
                found = connection.execute(query, (thread_id,)).fetchone()
                if found is not None and self._held(found[0], found[2]):
                    continue
                fence, until = 1 if found is None else int(found[1]) + 1, self.clock() + self.seconds
                lease = Lease(self, thread_id, run_id, fence, next(left), until)
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
            query = "SELECT holder, expires_at FROM leases WHERE thread_id = ?"
            found = connection.execute(query, (thread_id,)).fetchone()
        return found is not None and self._held(found[0], found[1])

    def held(self) -> frozenset[str]:
        """Return the threads that living workers have."""
        with connected(self.workspace.records) as connection:
            query = "SELECT thread_id, holder FROM leases WHERE expires_at > ?"
            found = connection.execute(query, (self.clock(),)).fetchall()
        alive = {holder: is_alive(self.workspace, holder) for holder in {row[1] for row in found}}
        return frozenset(thread for thread, holder in found if alive[holder])

    def clear(self, thread_id: str) -> None:
        """Take away the lease of a worker that is dead or silent; what was let go of is nobody's fault."""
        with connected(self.workspace.records) as connection, transaction(connection):
            query = "SELECT holder, expires_at FROM leases WHERE thread_id = ? AND expires_at > 0"
            found = connection.execute(query, (thread_id,)).fetchone()
            if found is not None and not self._held(*found):
                connection.execute("UPDATE leases SET expires_at = 0 WHERE thread_id = ?", (thread_id,))

    def extend(self, lease: Lease, until: float) -> bool:
        """Let the lease last until then; False where another worker has it."""
        update = "UPDATE leases SET expires_at = ? WHERE thread_id = ? AND fence = ?"
        with connected(self.workspace.records) as connection:
            return connection.execute(update, (until, lease.thread_id, lease.fence)).rowcount == 1

    def _held(self, holder: str, expires_at: float) -> bool:
        return expires_at > self.clock() and is_alive(self.workspace, holder)


LOST = "lost"
WEIGHT = ("drain", "pause", "stop", LOST)
"""What a worker may be asked; what is asked later counts only where it weighs as much."""
BEAT = 0.5


async def take(leases: Leases, thread_id: str, run_id: str, wait: float) -> Lease:
    """Return the lease of a thread, as soon as it is free. Raises: HIVE-402 after `wait` seconds.

    No thread of the pool is kept while this waits: whoever has the lease may need one to let go of it.
    """
    until = time.monotonic() + wait
    while True:
        lease = await taken(partial(leases.acquire, thread_id, run_id))
        if lease is not None:
            return lease
        if time.monotonic() >= until:
            told = f"another worker is busy with run {run_id} or its conversation (waited {wait:.0f} s)"
            fix = "wait until it has finished, then run the command again"
            raise HiveError.of("HIVE-402", told, path=run_id, fix=fix)
        await asyncio.sleep(min(0.1, max(0.01, until - time.monotonic())))


async def taken(acquire: Callable[[], Lease | None]) -> Lease | None:
    """Return what `acquire` comes to in a thread; a lease for which nobody waits any more is let go of."""

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
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        # Most blocks are shorter than a beat, and need no thread.
        self._start = asyncio.get_running_loop().call_later(self._pause, self._begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.cancel()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        let_go(self.lease)

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._beat, name=f"hold {self.lease.run_id}", daemon=True)
        self._thread.start()

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
