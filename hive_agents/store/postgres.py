"""A PostgreSQL database that several hosts share, as SQLite's connections are used.

The records of a workspace are read and written by one SQL, SQLite's. What PostgreSQL says in another way is translated
here, so that whoever keeps records knows of one database only.

Writers take turns by advisory locks that a transaction holds until it is committed. One without a name is alone, as in
SQLite's file. Those of different names, mostly of different runs, write side by side, and beside none that is alone.
Whoever gives an event its number takes the turn of events, so numbers become visible in their order.
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hive_agents.credentials import login_fix, login_options, resolve
from hive_agents.errors import HiveError
from hive_agents.store.elsewhere import moved
from hive_agents.store.schema import INDEX_TABLES, MIGRATIONS
from hive_agents.trust import require_trusted_setting
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    import psycopg

LOCK_SECONDS = 10
IDLE_SECONDS = 30
"""For so long a transaction may rest between two statements."""
_PAUSE = 0.05
_CONNECT_SECONDS = 5
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)
MOVED = "HM001"
"""The SQLSTATE by which a schema refuses that was moved away."""
FUNCTIONS = """
    CREATE FUNCTION instr(whole text, part text) RETURNS integer LANGUAGE sql IMMUTABLE AS
        $$ SELECT strpos(whole, part) $$;
    CREATE FUNCTION json_valid(value text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM value::json; RETURN value IS NOT NULL; EXCEPTION WHEN others THEN RETURN false; END $$;
    CREATE FUNCTION json_extract(value text, path text) RETURNS text LANGUAGE sql IMMUTABLE AS
        $$ SELECT CASE found WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE found END
           FROM (SELECT value::json #>> string_to_array(substr(path, 3), '.') AS found) AS looked_up $$;
    CREATE FUNCTION json_each(list text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE AS
        $$ SELECT json_array_elements_text(list::json) $$;
    CREATE TABLE audit_lines (seq bigint PRIMARY KEY, line text NOT NULL);
"""


class NamedRow:
    """A selected row, by position and by name, as `sqlite3.Row` is."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, key: int | str) -> Any:
        return self._values[self._names.index(key) if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def keys(self) -> list[str]:
        return list(self._names)


@dataclass(frozen=True)
class ServerState:
    """`ahead` says by how many seconds the server's clock is; `most` is how many `connections` it allows."""

    release: str
    schema: int
    workspace: str | None
    ahead: float
    connections: int
    most: int


class PostgresConnection:
    """A connection that takes SQLite's SQL and gives its rows; `raw` is psycopg's own, in autocommit mode.

    Raises: what psycopg raises, which `explained` tells; HIVE-431 where the settings aren't trusted, HIVE-421 for a
    password that isn't there.
    """

    def __init__(self, place: RemoteDatabase) -> None:
        self.row_factory: Any = None
        self.text_factory: Any = str
        self.has_checkpoints = False
        self._place = place
        self._number: int | None = None
        self.raw = opened(place)
        try:
            with other_answers():
                self._migrate()
                self._require_own()
        except BaseException:
            self.raw.close()
            raise

    @property
    def in_transaction(self) -> bool:
        return bool(self.raw.info.transaction_status)

    def execute(self, sql: str, values: Any = (), /) -> PostgresCursor:
        """Run one statement."""
        given = tuple(int(value) if isinstance(value, bool) else value for value in values)
        cursor = self.raw.execute(translated(sql), given)
        return PostgresCursor(cursor, rows=self.row_factory is not None, all_columns="SELECT *" in sql)

    def executemany(self, sql: str, values: Any, /) -> None:
        """Run one statement for each row, without a way to the server and back for each."""
        with self.raw.cursor() as cursor:
            cursor.executemany(translated(sql), [[int(v) if isinstance(v, bool) else v for v in row] for row in values])

    def begin(self, turn: str, *, beside: str | None = None, long: bool = False) -> None:
        """Begin a transaction as soon as it is its turn to write, and nobody has the turn that it goes on `beside`.

        A `long` one may rest between two statements. Raises: what psycopg raises where it waits for too long.
        """
        try:
            cursor = self.raw.execute("; ".join(self._beginning(turn, beside)).encode(), prepare=False)
            while cursor.nextset():
                pass
            self._number = _number_in(cursor)
        except BaseException:
            self.raw.rollback()
            raise
        if long:
            self.raw.execute(b"SET LOCAL idle_in_transaction_session_timeout = 0")

    def commit(self) -> None:
        """Commit what was begun; where the server's answer is lost, ask it whether it has.

        The connection is another one then, without the locks that the lost one held.

        Raises: what psycopg raises where nothing was committed, or nobody can be asked.
        """
        from psycopg import OperationalError

        try:
            self.raw.execute(b"COMMIT", prepare=False)
        except OperationalError:
            if not self._was_committed():
                raise

    def _was_committed(self) -> bool:
        """Return whether the transaction is committed; False, too, where the server stays out of reach."""
        import psycopg

        process, until = self.raw.info.backend_pid, time.monotonic() + LOCK_SECONDS
        self.raw.close()
        while time.monotonic() < until:
            with suppress(psycopg.Error):
                raw = opened(self._place)
                try:
                    # A COMMIT that is still on its way would count later, when nobody reckons with it any more.
                    end = b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s"
                    own = b" AND CAST(CAST(backend_xid AS text) AS bigint) = %s & 4294967295"
                    raw.execute(end + own, (process, self._number))
                    row = raw.execute(b"SELECT txid_status(%s)", (self._number,)).fetchone()
                    if row is not None and row[0] != "in progress":
                        self.raw, raw = raw, self.raw
                        return bool(row[0] == "committed")
                finally:
                    raw.close()
            time.sleep(_PAUSE)
        return False

    def take(self, turn: str) -> None:
        """Take one more turn, until the transaction is over."""
        self.raw.execute(self._locking(turn).encode(), prepare=False)

    def at_once(
        self, turn: str, statements: Sequence[tuple[str, Sequence[Any]]], *, beside: str, waking: bool
    ) -> list[list[Any]]:
        """Do a whole transaction with one way to the server and back before its COMMIT; return what statements gave."""
        with self.raw.pipeline():
            beginning = [self.raw.execute(one.encode(), prepare=False) for one in self._beginning(turn, beside)]
            sent = [self.execute(*statement) for statement in statements]
            if waking:
                self.notify()
        self._number = _number_in(beginning[-1])
        self.commit()
        return [cursor.fetchall() for cursor in sent]

    def _beginning(self, turn: str, beside: str | None) -> list[str]:
        # What many share comes first: whoever has a turn of its own waits for nobody who is alone.
        shared = f"SELECT pg_advisory_xact_lock_shared({lock_number(self._place, beside)})" if beside else ""
        return ["BEGIN", *filter(None, [shared]), self._locking(turn), "SELECT txid_current()"]

    def _locking(self, turn: str) -> str:
        return f"SELECT pg_advisory_xact_lock({lock_number(self._place, turn)})"

    @contextmanager
    def held(self, of: str) -> Iterator[None]:
        """Hold a lock for a while, waiting for it as long as for any.

        It is asked for again and again: a statement that waits has a snapshot, and whoever holds the lock may build an
        index beside other transactions, which waits until snapshots are gone.
        """
        from psycopg.errors import LockNotAvailable

        until = time.monotonic() + LOCK_SECONDS
        while not self.holds(of):
            if time.monotonic() > until:
                raise LockNotAvailable(of)
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            self.raw.execute(f"SELECT pg_advisory_unlock({lock_number(self._place, of)})".encode())

    def holds(self, of: str) -> bool:
        """Take a lock for as long as the connection lasts; False where another has it."""
        row = self.raw.execute(f"SELECT pg_try_advisory_lock({lock_number(self._place, of)})".encode()).fetchone()
        return bool(row and row[0])

    def time(self) -> float:
        """Return what the server's clock says, in seconds since 1970."""
        row = self.raw.execute(b"SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])

    def state(self) -> ServerState:
        """Return what `hive doctor` tells of the server; tries to write.

        Raises: what psycopg raises where nothing can be written.
        """
        with self.raw.transaction():
            self.raw.execute(b"UPDATE schema_version SET version = version")
        query = b"""
            SELECT current_setting('server_version'), current_setting('max_connections')::int,
                (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int
        """
        row = self.raw.execute(query).fetchone()
        assert row is not None
        before = time.time()
        ahead = self.time() - (before + time.time()) / 2
        return ServerState(str(row[0]).split()[0], self._version(), self._owner(), ahead, row[2], row[1])

    def notify(self) -> None:
        """Wake those who listen to this schema, when the transaction is committed."""
        self.raw.execute(b"SELECT pg_notify(%s, '')", (self._place.schema,))

    def listen(self) -> None:
        """Be told of what `notify` says from now on, see `heard`."""
        self.raw.execute(f'LISTEN "{self._place.schema}"'.encode())

    def heard(self) -> bool:
        """Return whether anything was told since the last look; without waiting."""
        return bool([*self.raw.notifies(timeout=0)])

    def close(self) -> None:
        self.raw.close()

    def __del__(self) -> None:
        if "raw" in vars(self):  # a thread that ends leaves its own
            self.raw.close()

    def lost(self) -> bool:
        """Return whether the server has closed it, as far as this side has heard."""
        if self.raw.closed:
            return True
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN | select.POLLHUP)
        # Whatever a server says unasked: mostly that it ends the connection, of which the end itself may come later.
        return bool(poll.poll(0))

    def _migrate(self) -> None:
        """Bring the schema to the newest state; hosts that start at the same time wait for each other.

        Raises: HIVE-407 for a schema that a newer release wrote.
        """
        newest = len(MIGRATIONS)
        if self._version() == newest:
            return
        # The lock comes first: a transaction that had begun to wait wouldn't see the schema that another has made.
        with self.held("schema"), self.raw.transaction():
            version = self._version()
            if version > newest:
                message = f"{self._place.name} was written by a newer release (schema {version})"
                raise HiveError.of("HIVE-407", message, fix="upgrade hive-agents on this host", exit_code=3)
            if not version:
                self.raw.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._place.schema}"'.encode())
                self.raw.execute(FUNCTIONS.encode())
                self.raw.execute(b"CREATE TABLE schema_version (version integer NOT NULL)")
                self.raw.execute(b"INSERT INTO schema_version VALUES (0)")
            self.raw.execute(b"SET LOCAL hive.migrating = 'on'")
            for statement in statements(version):
                self.raw.execute(statement.encode())
            self.raw.execute(b"UPDATE schema_version SET version = %s", (newest,))

    def _require_own(self) -> None:
        """Raise HIVE-430 for a schema that belongs to another workspace; one that belongs to none is this one's now."""
        own = Workspace(self._place.root).settings.storage.workspace
        if self._owner() is None and own:
            with self.held("schema"):
                self.raw.execute(b"ALTER TABLE schema_version ADD COLUMN IF NOT EXISTS workspace text")
                self.raw.execute(b"UPDATE schema_version SET workspace = %s WHERE workspace IS NULL", (own,))
        found = self._owner() or ""
        if found != own:
            message = f'{self._place.name} holds the records of the workspace "{found}", and hive.toml names '
            fix = f'if this is a host of it, write workspace = "{found}" under [storage]; else another namespace'
            raise HiveError.of("HIVE-430", message + (f'"{own}"' if own else "none"), file="hive.toml", fix=fix)

    def _owner(self) -> str | None:
        # A schema that an earlier release made has no such column.
        row = self.raw.execute(b"SELECT to_json(v) ->> 'workspace' FROM schema_version AS v").fetchone()
        return row[0] if row else None

    def _version(self) -> int:
        found = self.raw.execute(b"SELECT to_regclass('schema_version')").fetchone()
        if found is None or found[0] is None:
            return 0
        row = self.raw.execute(b"SELECT version FROM schema_version").fetchone()
        return int(row[0]) if row else 0


class PostgresCursor:
    """What a statement gave; with `all_columns` without `rowid`, which SQLite gives only where it is asked for."""

    def __init__(self, cursor: psycopg.Cursor[Any], *, rows: bool, all_columns: bool = False) -> None:
        self._cursor = cursor
        names = [column.name for column in cursor.description or ()]
        self._left_out = names.index("rowid") if all_columns and "rowid" in names else None
        self._names = [name for n, name in enumerate(names) if n != self._left_out] if rows else None

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        with other_answers():
            return self._shown(self._cursor.fetchone())

    def fetchall(self) -> list[Any]:
        with other_answers():
            return [self._shown(row) for row in self._cursor.fetchall()]

    def __iter__(self) -> Iterator[Any]:
        return map(self._shown, self._cursor)

    def _shown(self, row: Any) -> Any:
        if row is not None and self._left_out is not None:
            row = (*row[: self._left_out], *row[self._left_out + 1 :])
        return row if self._names is None or row is None else NamedRow(self._names, row)


class other_answers:
    """Raise psycopg's DatabaseError where the server's answers are none of a PostgreSQL's."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (ValueError, TypeError, LookupError, OverflowError)):
            from psycopg import DatabaseError

            raise DatabaseError(f"it gives other answers than PostgreSQL: {error}") from error


def opened(place: RemoteDatabase, *, names_from: str | None = None) -> psycopg.Connection[Any]:
    """Return psycopg's own connection, which finds names in the place's schema, or in those that are given.

    A host that is frozen or unplugged in its turn to write loses it after a while, and a server that is gone without a
    word is given up as soon.
    """
    import psycopg

    workspace = Workspace(place.root)
    require_trusted_setting(workspace, "storage")
    reference = workspace.settings.storage.password_ref
    given: dict[str, Any] = {"password": resolve(workspace, reference).reveal()} if reference else {}
    options = {
        "search_path": place.schema if names_from is None else names_from,
        # Which a database's owner could have set to something else.
        "standard_conforming_strings": "on",
        "extra_float_digits": "1",
        "client_encoding": "UTF8",
        "lock_timeout": f"{LOCK_SECONDS}s",
        "synchronous_commit": "on",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "tcp_keepalives_idle": IDLE_SECONDS // 3,
        "tcp_keepalives_interval": IDLE_SECONDS // 6,
        "tcp_keepalives_count": 4,
    }
    raw: psycopg.Connection[Any] = psycopg.connect(
        place.url,
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        application_name="hive-agents",
        keepalives_idle=IDLE_SECONDS // 3,
        keepalives_interval=IDLE_SECONDS // 6,
        keepalives_count=4,
        options=" ".join(f"-c {name}={value}" for name, value in options.items()),
        **given,
        **login_options(place.url),
    )
    _require_answer(raw)
    _adapt(raw)
    return raw


def _require_answer(raw: psycopg.Connection[Any]) -> None:
    """Raise what psycopg raises where the server lets in and then says nothing, or something without an end."""
    from psycopg import OperationalError

    with cut_after(_CONNECT_SECONDS, raw) as is_cut:
        try:
            raw.execute(b"SELECT 1")
        except OperationalError as error:
            raw.close()
            if is_cut.is_set():
                raise OperationalError(f"it lets in, and answers nothing within {_CONNECT_SECONDS} s") from error
            raise


@contextmanager
def cut_after(seconds: float, raw: psycopg.Connection[Any]) -> Iterator[threading.Event]:
    """Cut the connection if what is done inside takes longer; the event says whether it was cut."""
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()  # before whoever waits can see it
        with suppress(Exception), socket.socket(fileno=os.dup(raw.fileno())) as way:
            way.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield is_cut
    finally:
        timer.cancel()


def _number_in(cursor: psycopg.Cursor[Any]) -> int | None:
    row = cursor.fetchone()
    return int(row[0]) if row else None


def lock_number(place: RemoteDatabase, of: str) -> int:
    """Return the number of an advisory lock: one for each schema of a database and each use."""
    return zlib.crc32(place.schema.encode()) << 31 | zlib.crc32(of.encode()) >> 1


@lru_cache(maxsize=2000)
def translated(sql: str) -> bytes:
    """Return SQLite's SQL as psycopg and PostgreSQL take it.

    >>> translated("SELECT user FROM runs WHERE a LIKE '%?' AND control IS ? LIMIT ?").decode()
    'SELECT "user" FROM runs WHERE a LIKE \\'%%?\\' AND control IS NOT DISTINCT FROM %s LIMIT %s'
    >>> translated("INSERT OR IGNORE INTO turns VALUES (?) RETURNING n").decode()
    'INSERT INTO turns VALUES (%s) ON CONFLICT DO NOTHING RETURNING n'
    """
    sql, ignoring = re.subn(r"^\s*INSERT OR IGNORE\b", "INSERT", sql)
    if ignoring:
        head, returning, tail = sql.partition(" RETURNING ")
        sql = f"{head} ON CONFLICT DO NOTHING{returning}{tail}"
    sql = re.sub(r"\bIS \?", "IS NOT DISTINCT FROM ?", sql)
    sql = re.sub(r"\bIN \(\)", "IN (NULL)", sql)
    return "".join(map(_token, _TOKEN.findall(sql))).encode()


def _token(token: str) -> str:
    if token == "?":
        return "%s"
    return '"user"' if token == "user" else token.replace("%", "%%")


def statements(version: int) -> Iterator[str]:
    """Yield what brings the records from that version of the schema to the newest, in PostgreSQL's SQL."""
    for script in MIGRATIONS[version:]:
        for statement in filter(str.strip, script.split(";")):
            found = re.search(r"\b(?:TABLE|ON|INDEX) (\w+)", re.sub(r"INDEX \w+ ON", "ON", statement))
            if found is None or found[1] not in INDEX_TABLES:
                yield _defined(statement)


def _defined(statement: str) -> str:
    keyed = re.sub(r"WITHOUT ROWID\s*$", "", statement)
    if keyed == statement and "CREATE TABLE" in statement:
        # The order of insertion, which SQLite keeps by itself.
        keyed = re.sub(r"\)\s*$", ", rowid bigint GENERATED ALWAYS AS IDENTITY)", statement)
    for ours, theirs in _TYPES.items():
        keyed = re.sub(ours, theirs, keyed)
    return keyed


_TYPES = {
    r"\bINTEGER PRIMARY KEY AUTOINCREMENT": "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    r"\bINTEGER\b": "bigint",
    r"\bREAL\b": "double precision",
    r"\bBLOB\b": "bytea",
    r"\bTEXT\b": 'text COLLATE "C"',
    r"\buser\b": '"user"',
}


_REFUSALS = {
    "password": ("HIVE-403", "correct the password: `hive credentials set NAME`, with password_ref under [storage]"),
    "does not exist": ("HIVE-403", "create that database or user on the server, or correct [storage] url"),
    "connection slots": ("HIVE-402", "raise the server's max_connections, or run fewer hosts; then try again"),
    "too many": (
        "HIVE-402",
        "raise the limit of connections, or run fewer hosts; then try again",
    ),
    "permission denied": ("HIVE-403", "grant the user CONNECT on the database, and CREATE to make the schema"),
}
"""What a server's refusal of a connection says, and what helps."""


def explained(error: psycopg.Error, place: RemoteDatabase) -> HiveError:
    """Return the diagnostic of a failure: HIVE-402 where trying again may help, HIVE-403 where not.

    HIVE-409 is a value that the database can't hold, and HIVE-407 all else.
    """
    import psycopg
    from psycopg import errors

    told = str(error).strip().partition("\n")[0]
    if error.sqlstate == MOVED:
        return moved(told, place.name)
    if isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)):
        fix = "wait until the other process has finished, then run the command again"
        return HiveError.of("HIVE-402", "the database is locked by another process", file=place.name, fix=fix)
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        fix = "run the command again: nothing of it was recorded"
        message = f"this host was silent for {IDLE_SECONDS} s in its turn to write, and lost it"
        return HiveError.of("HIVE-402", message, file=place.name, fix=fix)
    if isinstance(error, (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
        fix = f"let the database's user create and write tables in schema {place.schema}"
        return HiveError.of("HIVE-403", f"cannot write the database: {told}", file=place.name, fix=fix)
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        fix = "free some space on the database's host, then run the command again; nothing was lost"
        return HiveError.of("HIVE-403", f"the database can't write: {told}", file=place.name, fix=fix)
    if isinstance(error, psycopg.OperationalError) and (proof := login_fix(str(error))) is not None:
        return HiveError.of("HIVE-403", f"the server didn't prove which one it is: {told}", file=place.name, fix=proof)
    for words, (code, fix) in _REFUSALS.items():
        if isinstance(error, psycopg.OperationalError) and words in str(error):
            return HiveError.of(code, f"the database refuses: {told}", file=place.name, fix=fix)
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        fix = "start the server or correct [storage] url, then run the command again; what was recorded is kept"
        return HiveError.of("HIVE-402", f"the database can't be reached: {told}", file=place.name, fix=fix)
    if isinstance(error, psycopg.DataError):
        fix = "leave out the character NUL, or whatever the message names"
        return HiveError.of("HIVE-409", f"the database can't hold this value: {told}", file=place.name, fix=fix)
    fix = "restore the schema from a backup; docs/scale.md says how"
    return HiveError.of("HIVE-407", f"the database is damaged: {told}", file=place.name, fix=fix)


def _adapt(raw: psycopg.Connection[Any]) -> None:
    """Text is text, also where PostgreSQL can't tell a parameter's type; sums are numbers of Python."""
    from psycopg.adapt import Loader
    from psycopg.types.string import StrDumper

    class Number(Loader):
        def load(self, data: Any) -> int | float:
            text = bytes(data).decode()
            return float(text) if "." in text or "N" in text else int(text)

    raw.adapters.register_dumper(str, StrDumper)
    raw.adapters.register_loader("numeric", Number)
