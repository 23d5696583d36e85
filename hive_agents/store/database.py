"""Connections to databases: opened, pooled, identified, used in transactions, with failures as diagnostics."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from hive_agents.base import Busy, HiveError, NewerRelease
from hive_agents.base.files import atomic, locked, unlinked
from hive_agents.store.moved import moved
from hive_agents.store.schema import MIGRATIONS, SEALS
from hive_agents.workspace import RemoteDatabase, Workspace
from hive_agents.workspace.settings import load_settings

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

BUSY_SECONDS = 10.0
CLOCK_SECONDS = 60.0
_PAUSE = 0.1
_PAGES_AT_ONCE = 1000
"""Pages that a file is shortened by in one transaction, for which other writers wait."""
T = TypeVar("T")
C = TypeVar("C", covariant=True)
DatabasePlace = Path | RemoteDatabase
"""Where a database is: an SQLite file, or on a server."""
ALL = "records"
"""The turn of a transaction that excludes all others."""
KEPT = 4
"""Connections that a thread keeps open between uses, each to another file: the most recent ones.

The thread of an event loop keeps as many again that don't wait for other writers.
"""
IDLE = 8
"""Connections to servers that a process keeps open between uses."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a new connection in autocommit mode, with the newest schema; transactions are explicit.

    Raises: HIVE-402 locked, HIVE-403 not writable, HIVE-407 corrupt.
    """
    with database_errors(path):
        file = unlinked(path)
        make_file(file, _migrated(MIGRATIONS))
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA synchronous = {synchronous(path)}")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version < len(MIGRATIONS):
                _migrate(connection, path)
            elif version > len(MIGRATIONS):
                raise NewerRelease.of(
                    "HIVE-407",
                    f"{path.name} was written by a newer release (schema {version})",
                    file=f".hive/{path.name}",
                    fix="upgrade hive-agents",
                    exit_code=3,
                )
        except BaseException:
            connection.close()
            raise
        return connection


def synchronous(path: Path) -> str:
    """Return when SQLite waits for the disk, by the settings of the workspace whose `.hive` has the file.

    "normal" is at checkpoints of its journal: a killed process loses nothing, a power cut the last transactions. "full"
    is at each transaction.
    """
    try:
        return load_settings(path.parent.parent, os.environ).storage.synchronous
    except HiveError:  # whoever reads the settings for more is told
        return "normal"


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite doesn't wait for a lock while it changes the journal mode.
    with locked(path.with_name("migration.lock"), "preparing the database", BUSY_SECONDS):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first table
        connection.execute("PRAGMA journal_mode = WAL")
    path.chmod(0o600)
    connection.execute("BEGIN EXCLUSIVE")
    with _rolled_back(connection):
        # Read again under the lock: another process may have migrated meanwhile.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        seals = connection.execute(SEALS).fetchall()
        for name, _ in seals:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in [one for script in MIGRATIONS[version:] for one in script.split(";")]:
            if statement.strip():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        for _, sql in seals:
            connection.execute(sql)
        connection.execute("COMMIT")


def make_file(path: Path, prepare: Callable[[sqlite3.Connection], object]) -> None:
    """Make a new file as `prepare` makes one in memory, once in a process: each table on disk would cost more than all.

    Where that can't be done, whoever opens it makes it.
    """
    journals = (path.with_name(f"{path.name}-{end}") for end in ("wal", "journal"))  # of a file that is gone
    if not path.exists() and not any(journal.exists() for journal in journals):
        with suppress(HiveError, FileNotFoundError):
            atomic.atomic_create(path, _image(prepare), mode=0o600)


@cache
def _image(prepare: Callable[[sqlite3.Connection], object]) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first table
        prepare(made)
        image = bytearray(made.serialize())
    image[18:20] = b"\2\2"  # journal_mode = WAL, which memory doesn't have
    return bytes(image)


@cache
def _migrated(migrations: tuple[str, ...]) -> Callable[[sqlite3.Connection], object]:
    scripts = ";".join([*migrations, f"PRAGMA user_version = {len(migrations)}"])
    return lambda made: made.executescript(f"BEGIN; {scripts}; COMMIT")


def give_back(path: Path) -> None:
    """Shorten a file by the pages that it doesn't use, in short transactions between those of other writers.

    A file that was made before this could be done keeps them, and uses them for what comes.
    """
    if not path.exists():
        return
    with database_errors(path), closing(sqlite3.connect(unlinked(path), BUSY_SECONDS, isolation_level=None)) as file:
        file.execute(f"PRAGMA synchronous = {synchronous(path)}")
        unused, last = file.execute("PRAGMA freelist_count").fetchone()[0], None
        while unused and unused != last:
            # It is one step a page, of which `execute` takes the first alone.
            file.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            unused, last = file.execute("PRAGMA freelist_count").fetchone()[0], unused


class Cursor(Protocol):
    """The result of a statement, on either kind of database."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class RecordsConnection(Protocol):
    """A connection to the records, which takes SQLite's SQL on either kind of database.

    `text_factory` is for reading damaged text; a server's never is.
    """

    text_factory: Any

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Any = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Any, /) -> object: ...


class SelectedRow(Protocol):
    """A selected row, by position and by name."""

    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> Any: ...


class connected(Generic[C]):
    """A `with` block with exclusive use of a connection, for short work.

    Connections are pooled, a file's per thread and a server's per process. A new one is made by `opened`, `connect` by
    default, where the file was replaced or the server has closed it.

    With `rows`, selected rows have names, too. A nested use gets another connection, but within `together`.

    Raises: as `connect`; the database's errors in the body become diagnostics, too.
    """

    # No generator: a run enters hundreds of these.
    __slots__ = ("_joined", "_opened", "_place", "_rows", "pooled")

    @overload
    def __init__(
        self: connected[sqlite3.Connection],
        place: Path,
        *,
        rows: bool = False,
        opened: Callable[[Path], sqlite3.Connection] | None = None,
    ) -> None: ...

    @overload
    def __init__(self: connected[RecordsConnection], place: DatabasePlace, *, rows: bool = False) -> None: ...

    def __init__(
        self, place: DatabasePlace, *, rows: bool = False, opened: Callable[[Path], sqlite3.Connection] | None = None
    ) -> None:
        self._place, self._rows, self._opened = place, rows, opened

    def __enter__(self) -> C:
        place = self._place
        joined = _local.together
        self._joined = joined is not None and joined.place == place
        if joined is not None and self._joined:
            self.pooled = joined.pooled
            joined.pooled.connection.row_factory = sqlite3.Row if self._rows else None
            return cast(C, joined.pooled.connection)
        if isinstance(place, RemoteDatabase):
            return cast(C, self._to_server(place))
        pooled, file = _local.pool.pop(str(place), None), file_identity(place)
        if pooled is not None and pooled.file != file:
            _close(pooled)
            pooled = None
        if pooled is None:
            connection = (self._opened or connect)(place)
            if _local.at_once:
                connection.execute("PRAGMA busy_timeout = 0")
            pooled = _Pooled(connection, file or file_identity(place))
        self.pooled = pooled
        connection = pooled.connection
        connection.row_factory = sqlite3.Row if self._rows else None
        return cast(C, connection)

    def _to_server(self, place: RemoteDatabase) -> PostgresConnection:
        if _local.at_once:
            raise Busy.of("HIVE-402", "a server is not waited for here")  # `briefly` goes on in a thread
        pooled = _idle.taken(str(place))
        while pooled is not None and (pooled.file != (0, 0, os.getpid()) or pooled.connection.lost()):
            _close(pooled)
            pooled = _idle.taken(str(place))
        if pooled is None:
            pooled = _Pooled(connect_to(place), (0, 0, os.getpid()))
        self.pooled = pooled
        connection: PostgresConnection = pooled.connection
        connection.row_factory = self._rows or None
        return connection

    @property
    def file(self) -> tuple[int, int, int] | None:
        """The file's `file_identity`."""
        return self.pooled.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        key, connection, pool = str(self._place), self.pooled.connection, _local.pool
        if self._joined:
            connection.row_factory = None
        elif error is not None:
            connection.close()
        if error is not None:
            if (explained := _explained(error, self._place)) is not None:
                raise explained from error
        elif self._joined:
            pass
        elif connection.in_transaction:  # left open by the body
            connection.close()
        elif isinstance(self._place, RemoteDatabase):
            _idle.keep(key, self.pooled)
        elif key in pool:  # put back by a nested use
            connection.close()
        else:
            pool[key] = self.pooled
            if len(pool) > KEPT:
                _close(pool.pop(next(iter(pool))))


def connect_to(place: RemoteDatabase) -> PostgresConnection:
    """Return a new connection to a server's database, with the newest schema.

    Raises: HIVE-411 without the extra, HIVE-402 out of reach, HIVE-403 not writable, HIVE-407 newer or damaged.
    """
    from hive_agents.store.postgres import PostgresConnection

    try:
        import psycopg  # noqa: F401
    except ImportError:
        fix = 'pip install "hive-agents[postgres]"'
        raise HiveError.of("HIVE-411", "a PostgreSQL database needs psycopg", file="hive.toml", fix=fix) from None
    with _explained_errors(place):
        return PostgresConnection(place)


def disconnect(place: DatabasePlace) -> None:
    """Close this thread's pooled connection, to a server all idle ones."""
    key = str(place)
    while (pooled := _idle.taken(key) or _local.pools[0].pop(key, None) or _local.pools[1].pop(key, None)) is not None:
        _close(pooled)


async def briefly(work: Callable[[], T]) -> T:
    """Return the result of short work on databases, without blocking the event loop on another writer.

    The work runs here, and again in a thread if another writer holds the lock, so it has to begin with the transaction
    that may fail. A thread each time would cost more than the work, and writers in many threads wait for each other.

    Raises: HIVE-402 after the usual wait, and what the work raises.
    """
    try:
        _local.at_once = True
        try:
            return work()
        finally:
            _local.at_once = False
    except Busy:
        import asyncio

        return await asyncio.to_thread(work)


@dataclass
class _Pooled:
    """A pooled connection, and the `file_identity` of its file."""

    connection: Any
    file: tuple[int, int, int] | None


@dataclass
class _Together:
    """The connection of a block of `together`, and what undoes its effects in memory."""

    place: DatabasePlace
    pooled: _Pooled
    undoing: list[Callable[[], object]]


def _is_together(connection: RecordsConnection) -> bool:
    return _local.together is not None and _local.together.pooled.connection is connection


class _Local(threading.local):
    """A thread's pools of connections that wait for other writers, and that don't; `at_once` while it may not wait."""

    def __init__(self) -> None:
        self.together: _Together | None = None
        self.pools: tuple[dict[str, _Pooled], dict[str, _Pooled]] = {}, {}
        self.at_once = False

    @property
    def pool(self) -> dict[str, _Pooled]:
        return self.pools[self.at_once]


class _Idle:
    """Idle connections to servers, shared by the threads of this process.

    A host has a hundred threads, most of them idle; a server has a hundred connections for all hosts.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._pool: list[tuple[str, _Pooled]] = []

    def taken(self, key: str) -> _Pooled | None:
        """Return the most recently used connection to that server, None where there is none."""
        with self._guard:
            for position in range(len(self._pool) - 1, -1, -1):
                if self._pool[position][0] == key:
                    return self._pool.pop(position)[1]
        return None

    def keep(self, key: str, pooled: _Pooled) -> None:
        """Add a connection; of too many, the least recently used one is closed."""
        with self._guard:
            self._pool.append((key, pooled))
            oldest = self._pool.pop(0) if len(self._pool) > IDLE else None
        if oldest is not None:
            _close(oldest[1])


def _close(pooled: _Pooled) -> None:
    if pooled.file is not None and pooled.file[2] != os.getpid():
        _inherited.append(pooled)  # closing it in a child would drop the parent's locks
    else:
        pooled.connection.close()


_local, _idle = _Local(), _Idle()
_inherited: list[_Pooled] = []


def file_identity(path: Path) -> tuple[int, int, int] | None:
    """Return device, inode and this process, None for a file that is gone.

    A restored or rebuilt database is another file under the same name, and a process can't use its parent's connection.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, os.getpid()


class transaction:
    """A `with` block that is committed as a whole or not at all; it waits for other writers, then raises HIVE-402.

    Without a `turn` it excludes all other writers. Transactions of different turns run concurrently on a server, and
    wait for those of the same turn and those without one; SQLite has one turn for all. A server ends a transaction that
    is idle for half a minute, so that a frozen host doesn't block others, unless it is `long`.
    """

    __slots__ = ("_connection", "_joined", "_long", "_turn")

    def __init__(self, connection: RecordsConnection, turn: str | None = None, *, long: bool = False) -> None:
        self._connection, self._turn, self._long = connection, turn, long

    def __enter__(self) -> None:
        self._joined = _is_together(self._connection)
        if self._joined:
            assert self._turn is not None, "what excludes all others is no part of another transaction"
            take_turn(self._connection, self._turn)
        elif isinstance(self._connection, sqlite3.Connection):
            self._connection.execute("BEGIN IMMEDIATE")
        else:
            connection, turn = cast("PostgresConnection", self._connection), self._turn
            connection.begin(turn or ALL, beside=ALL if turn else None, long=self._long)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._joined:
            return
        if error is None:
            with _rolled_back(self._connection):
                if isinstance(self._connection, sqlite3.Connection):
                    self._connection.execute("COMMIT")
                else:
                    cast("PostgresConnection", self._connection).commit()
        elif self._connection.in_transaction:
            with suppress(Exception):  # where the connection is lost, the server rolls back
                self._connection.execute("ROLLBACK")


@contextmanager
def together(place: DatabasePlace, turn: str) -> Iterator[RecordsConnection]:
    """A `with` block in which all that this thread reads and writes at a place is one transaction.

    Nothing in it may wait. Further turns are taken where the block comes to them, so in one order everywhere: a run's,
    its conversations', then that of events.
    """
    used: connected[RecordsConnection] = connected(place)
    undoing: list[Callable[[], object]] = []
    try:
        with used as connection, transaction(connection, turn):
            _local.together = _Together(place, used.pooled, undoing)
            try:
                yield connection
            finally:
                _local.together = None
    except BaseException:
        for undo in reversed(undoing):
            undo()
        raise


def undone_by(undo: Callable[[], object]) -> None:
    """Call `undo` where the block of `together` that this is in, if it is in one, comes to nothing."""
    if _local.together is not None:
        _local.together.undoing.append(undo)


def take_turn(connection: RecordsConnection, turn: str) -> None:
    """Wait for one more turn in a transaction on a server. Take it last: holding it while waiting could deadlock."""
    if not isinstance(connection, sqlite3.Connection):
        cast("PostgresConnection", connection).take(turn)


def written_at_once(
    connection: RecordsConnection, turn: str, statements: Sequence[tuple[str, Sequence[Any]]], *, waking: bool = False
) -> list[list[Any]]:
    """Run a whole transaction and return the rows of each statement.

    To a server they are sent together, so that the turn is held no longer than the server works; with `waking` its
    listeners are woken.
    """
    if _is_together(connection):
        take_turn(connection, turn)
        written = [connection.execute(*statement).fetchall() for statement in statements]
        if waking and not isinstance(connection, sqlite3.Connection):
            cast("PostgresConnection", connection).notify()
        return written
    if not isinstance(connection, sqlite3.Connection):
        return cast("PostgresConnection", connection).at_once(turn, statements, beside=ALL, waking=waking)
    if len(statements) == 1:
        return [connection.execute(*statements[0]).fetchall()]  # which SQLite commits by itself
    with transaction(connection, turn):
        return [connection.execute(*statement).fetchall() for statement in statements]


def last_number(connection: RecordsConnection, table: str, column: str) -> int:
    """Return the highest number that a table has given to a row, 0 where it gave none."""
    if isinstance(connection, sqlite3.Connection):
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    else:  # the sequence doesn't know of explicitly inserted numbers
        sequence = f"pg_sequence_last_value(pg_get_serial_sequence('{table}', '{column}'))"
        row = connection.execute(f"SELECT greatest({sequence}, max({column})) FROM {table}").fetchone()
    return int(row[0] or 0) if row else 0


def clock_of(place: DatabasePlace) -> Callable[[], float]:
    """Return the clock that all writers of a database share, in seconds since 1970: the server's, or this host's."""
    return time.time if isinstance(place, Path) else _ServerClock(place)


class _ServerClock:
    """The server's clock, read once in `CLOCK_SECONDS` and continued by this host's monotonic clock."""

    def __init__(self, place: RemoteDatabase) -> None:
        self._place = place

    def __call__(self) -> float:
        ahead, read_at = _clocks.get(self._place, (0.0, -math.inf))
        now = time.monotonic()
        if now - read_at > CLOCK_SECONDS:
            with connected(self._place) as connection:
                ahead = cast("PostgresConnection", connection).time() - time.monotonic()
            _clocks[self._place] = ahead, now
        return time.monotonic() + ahead


_clocks: dict[RemoteDatabase, tuple[float, float]] = {}


@contextmanager
def exclusive(workspace: Workspace, what: str, timeout: float = 30.0) -> Iterator[None]:
    """Hold `Workspace.exclusive`, on all hosts that share the records.

    Raises: HIVE-402 after `timeout` seconds.
    """
    with workspace.exclusive(what, timeout):
        place = workspace.records
        if isinstance(place, Path):
            yield
            return
        connection = connect_to(place)
        try:
            with _explained_errors(place):
                while not connection.holds("exclusive"):
                    if timeout <= 0:
                        message = "another host is changing what all share"
                        raise HiveError.of("HIVE-402", message, file=place.name, fix="run the command again later")
                    time.sleep(_PAUSE)
                    timeout -= _PAUSE
            yield
        finally:
            connection.close()


def require_writable(place: DatabasePlace, seconds: float) -> None:
    """Commit an empty change, waiting `seconds` for other writers: only a commit detects a full disk.

    Raises: HIVE-402, HIVE-403, HIVE-407.
    """
    if isinstance(place, RemoteDatabase):
        from hive_agents.store.postgres import PostgresConnection, cut_after

        with connected(place) as connection:
            assert isinstance(connection, PostgresConnection)
            with cut_after(seconds, connection.raw):  # a server that is frozen lets in, and never answers
                connection.execute("UPDATE schema_version SET version = version")
                connection.require_known()  # another host may have upgraded it since
        return
    with closing(connect(place)) as connection, database_errors(place):
        connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1_000)}")
        with transaction(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version}")


def others_connected(connection: RecordsConnection) -> list[str]:
    """Return the other processes that host a server's records, on whichever machine; none is known of a file."""
    from hive_agents.store.postgres import PostgresConnection

    return connection.others() if isinstance(connection, PostgresConnection) else []


@contextmanager
def _rolled_back(connection: RecordsConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _explained_errors(place: DatabasePlace) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (explained := _explained(error, place)) is not None:
            raise explained from error
        raise


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as diagnostics."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error, path) from error


def _explained(error: BaseException, place: DatabasePlace) -> HiveError | None:
    """Return the diagnostic of a database's error, None for any other error."""
    if isinstance(place, Path):
        return _of_sqlite(error, place) if isinstance(error, sqlite3.Error) else None
    import psycopg

    from hive_agents.store.postgres import explained

    return explained(error, place) if isinstance(error, psycopg.Error) else None


def _of_sqlite(error: sqlite3.Error, path: Path) -> HiveError:
    name = getattr(error, "sqlite_errorname", "") or ""
    file = f".hive/{path.name}"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        fix = "wait until the other process has finished, then run the command again"
        return HiveError.of("HIVE-402", "the database is locked by another process", file=file, fix=fix)
    if name.startswith("SQLITE_FULL"):
        fix = "free some space, then run the command again; nothing was lost"
        return HiveError.of("HIVE-403", "the disk is full", file=file, fix=fix)
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR")):
        fix = "make the workspace's .hive folder writable and check the disk"
        return HiveError.of("HIVE-403", f"cannot open or write the database: {error} ({name})", file=file, fix=fix)
    if name == "SQLITE_CONSTRAINT_TRIGGER":
        return moved(str(error), file)
    fix = "run `hive index`: it sets the damaged file aside and rebuilds the index from the documents"
    if path.name != "hive.db":  # which is the one that `hive index` looks after
        fix = f"move {file}, and {path.name}-wal and -shm where they are, out of .hive, then run the command again"
    return HiveError.of("HIVE-407", f"the database is damaged: {error}", file=file, fix=fix)
