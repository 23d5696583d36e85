"""How a database is opened, kept open, told from another one, changed, and what its failures mean."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

from hive_agents.errors import Busy, HiveError, NewerRelease
from hive_agents.files import locked, unlinked
from hive_agents.store.elsewhere import moved
from hive_agents.store.schema import MIGRATIONS, SEALS
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

BUSY_SECONDS = 10.0
CLOCK_SECONDS = 60.0
_PAUSE = 0.1
T = TypeVar("T")
C = TypeVar("C", covariant=True)
DatabasePlace = Path | RemoteDatabase
"""Where a database is: a file of SQLite's, or a server's."""
ALL = "records"
"""The turn of a transaction that is alone."""
KEPT = 4
"""Connections that a thread keeps open in between, each to another file: those used last."""
IDLE = 8
"""Connections to servers that a process keeps open in between."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a new connection in autocommit mode, with the newest schema; transactions are explicit.

    Raises: HIVE-402 locked, HIVE-403 not writable, HIVE-407 corrupt.
    """
    with database_errors(path):
        file = unlinked(path)
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
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


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    # SQLite doesn't wait for a lock while it changes the journal mode.
    with locked(path.with_name("migration.lock"), "preparing the database", BUSY_SECONDS):
        connection.execute("PRAGMA journal_mode = WAL")
    path.chmod(0o600)
    connection.execute("BEGIN EXCLUSIVE")
    with _rolled_back(connection):
        # Read again under the lock: another process may have migrated meanwhile.
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        seals = connection.execute(SEALS).fetchall()
        for name, _ in seals:
            connection.execute(f"DROP TRIGGER {name}")
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        for _, sql in seals:
            connection.execute(sql)
        connection.execute("COMMIT")


class Cursor(Protocol):
    """What a statement gave, from whichever database."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class RecordsConnection(Protocol):
    """A connection to the records, which take SQLite's SQL on whichever database.

    `text_factory` reads text that may be damaged; a server's never is.
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
    """A `with` block that has a connection to itself, for short work.

    It is kept open in between, a file's by the thread and a server's by the process, and `opened`, by default by
    `connect`, anew where the file was replaced or the server has closed it.

    With `rows`, selected rows are known by their names, too. A use inside another one gets a connection of its own.

    Raises: as `connect`; the database's errors in the body become diagnostics, too.
    """

    # No generator: a run enters hundreds of these.
    __slots__ = ("_kept", "_opened", "_place", "_rows")

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
        if isinstance(place, RemoteDatabase):
            return cast(C, self._served(place))
        found, file = _local.kept.pop(str(place), None), file_identity(place)
        if found is not None and found.file != file:
            _close(found)
            found = None
        if found is None:
            connection = (self._opened or connect)(place)
            found = _Kept(connection, file or file_identity(place))
        self._kept = found
        connection = found.connection
        if found.waits is _local.at_once:
            found.waits = not found.waits
            connection.execute(f"PRAGMA busy_timeout = {int(found.waits * BUSY_SECONDS * 1_000)}")
        connection.row_factory = sqlite3.Row if self._rows else None
        return cast(C, connection)

    def _served(self, place: RemoteDatabase) -> PostgresConnection:
        if _local.at_once:
            raise Busy.of("HIVE-402", "a server is not waited for here")  # `briefly` goes on in a thread
        found = _idle.taken(str(place))
        while found is not None and (found.file != (0, 0, os.getpid()) or found.connection.lost()):
            _close(found)
            found = _idle.taken(str(place))
        if found is None:
            found = _Kept(connect_to(place), (0, 0, os.getpid()))
        self._kept = found
        served: PostgresConnection = found.connection
        served.row_factory = self._rows or None
        return served

    @property
    def file(self) -> tuple[int, int, int] | None:
        """Which file it is, as `file_identity` tells."""
        return self._kept.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        key, connection, kept = str(self._place), self._kept.connection, _local.kept
        if error is not None:
            connection.close()
            if (told := _explained(error, self._place)) is not None:
                raise told from error
        elif connection.in_transaction:  # it was left open
            connection.close()
        elif isinstance(self._place, RemoteDatabase):
            _idle.keep(key, self._kept)
        elif key in kept:  # an inner use has its own
            connection.close()
        else:
            kept[key] = self._kept
            if len(kept) > KEPT:
                _close(kept.pop(next(iter(kept))))


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
    """Close the connection that this thread keeps open, of a server all that nobody uses; the next use opens one."""
    while (found := _idle.taken(str(place)) or _local.kept.pop(str(place), None)) is not None:
        _close(found)


async def briefly(work: Callable[[], T]) -> T:
    """Return what short work on databases gives, without letting the event loop wait for another writer.

    It is done here, and once more in a thread where somebody else is writing at that moment. So it has to begin with
    the transaction that may fail. A thread for each would cost more than the work, and writers in many threads wait
    for each other.

    Raises: HIVE-402 after as long a wait as ever, and what the work raises.
    """
    try:
        _local.at_once = True
        try:
            return work()
        finally:
            _local.at_once = False
    except Busy:
        return await asyncio.to_thread(work)


@dataclass
class _Kept:
    """`waits` says whether the connection waits for other writers."""

    connection: Any
    file: tuple[int, int, int] | None
    waits: bool = True


class _Local(threading.local):
    """What a thread keeps; `at_once` while it may not wait for other writers."""

    def __init__(self) -> None:
        self.kept: dict[str, _Kept] = {}
        self.at_once = False


class _Idle:
    """Connections to servers that no thread of this process uses just then.

    A host has a hundred threads, most of which wait; a server has a hundred connections for all hosts.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: list[tuple[str, _Kept]] = []

    def taken(self, key: str) -> _Kept | None:
        """Return the one to that server that was used last, None where there is none."""
        with self._guard:
            for place in range(len(self._kept) - 1, -1, -1):
                if self._kept[place][0] == key:
                    return self._kept.pop(place)[1]
        return None

    def keep(self, key: str, kept: _Kept) -> None:
        """Keep it for the next use, of whichever thread; of too many, the one that rested longest is closed."""
        with self._guard:
            self._kept.append((key, kept))
            closed = self._kept.pop(0) if len(self._kept) > IDLE else None
        if closed is not None:
            _close(closed[1])


def _close(kept: _Kept) -> None:
    if kept.file is not None and kept.file[2] != os.getpid():
        _inherited.append(kept)  # to close it in a child would drop the parent's locks
    else:
        kept.connection.close()


_local, _idle = _Local(), _Idle()
_inherited: list[_Kept] = []


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

    Without a `turn` nobody else writes meanwhile. Transactions of different turns go side by side on a server, and wait
    for those of their own turn and for those without one; SQLite has one turn for all. A server ends a transaction in
    which nothing was said for half a minute, so that a frozen host keeps nobody waiting, unless it is `long`.
    """

    __slots__ = ("_connection", "_long", "_turn")

    def __init__(self, connection: RecordsConnection, turn: str | None = None, *, long: bool = False) -> None:
        self._connection, self._turn, self._long = connection, turn, long

    def __enter__(self) -> None:
        if isinstance(self._connection, sqlite3.Connection):
            self._connection.execute("BEGIN IMMEDIATE")
        else:
            served, turn = cast("PostgresConnection", self._connection), self._turn
            served.begin(turn or ALL, beside=ALL if turn else None, long=self._long)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            with _rolled_back(self._connection):
                if isinstance(self._connection, sqlite3.Connection):
                    self._connection.execute("COMMIT")
                else:
                    cast("PostgresConnection", self._connection).commit()
        elif self._connection.in_transaction:
            with suppress(Exception):  # where the connection is lost, the server rolls back
                self._connection.execute("ROLLBACK")


def take_turn(connection: RecordsConnection, turn: str) -> None:
    """Inside a transaction on a server, wait for one more turn. Whoever has it waits for nothing else any more."""
    if not isinstance(connection, sqlite3.Connection):
        cast("PostgresConnection", connection).take(turn)


def written_at_once(
    connection: RecordsConnection, turn: str, statements: Sequence[tuple[str, Sequence[Any]]], *, waking: bool = False
) -> list[list[Any]]:
    """Return the rows that each statement of a whole transaction gives.

    On a server they are sent together, so that others wait for their turn no longer than the server works; with
    `waking` those who listen there are woken.
    """
    if not isinstance(connection, sqlite3.Connection):
        return cast("PostgresConnection", connection).at_once(turn, statements, beside=ALL, waking=waking)
    with transaction(connection, turn):
        return [connection.execute(*statement).fetchall() for statement in statements]


def last_number(connection: RecordsConnection, table: str, column: str) -> int:
    """Return the highest number that a table has given to a row, 0 where it gave none."""
    if isinstance(connection, sqlite3.Connection):
        found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    else:  # the sequence doesn't know of numbers that were given by hand
        sequence = f"pg_sequence_last_value(pg_get_serial_sequence('{table}', '{column}'))"
        found = connection.execute(f"SELECT greatest({sequence}, max({column})) FROM {table}").fetchone()
    return int(found[0] or 0) if found else 0


def clock_of(place: DatabasePlace) -> Callable[[], float]:
    """Return the clock that all writers of a database go by, in seconds since 1970: a server's own, or this host's."""
    return time.time if isinstance(place, Path) else _ServerClock(place)


class _ServerClock:
    """Asks the server now and then; in between this host's clock that never jumps counts on."""

    def __init__(self, place: RemoteDatabase) -> None:
        self._place = place

    def __call__(self) -> float:
        ahead, asked = _clocks.get(self._place, (0.0, -math.inf))
        now = time.monotonic()
        if now - asked > CLOCK_SECONDS:
            with connected(self._place) as connection:
                ahead = cast("PostgresConnection", connection).time() - time.monotonic()
            _clocks[self._place] = ahead, now
        return time.monotonic() + ahead


_clocks: dict[RemoteDatabase, tuple[float, float]] = {}


@contextmanager
def exclusive(workspace: Workspace, what: str, timeout: float = 30.0) -> Iterator[None]:
    """`Workspace.exclusive` for what all hosts share: one at a time, on whichever host.

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
    """Commit a change of nothing, waiting so long for other writers: only a commit finds out that the disk is full.

    Raises: HIVE-402, HIVE-403, HIVE-407.
    """
    if isinstance(place, RemoteDatabase):
        with connected(place) as connection:
            connection.execute("UPDATE schema_version SET version = version")
        return
    with closing(connect(place)) as connection, database_errors(place):
        connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1_000)}")
        with transaction(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version}")


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
        if (told := _explained(error, place)) is not None:
            raise told from error
        raise


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's failures into diagnostics that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error, path) from error


def _explained(error: BaseException, place: DatabasePlace) -> HiveError | None:
    """Return the diagnostic of a database's failure, None for another's."""
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
