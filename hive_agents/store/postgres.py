"""A PostgreSQL database that several hosts share, behind the interface of SQLite's connections.

Records are read and written in SQLite's SQL, which is translated here, so that other modules know one dialect only.

Writers take turns by advisory locks that a transaction holds until it is committed. One without a turn excludes all
others, as in an SQLite file. Those of different turns, mostly of different runs, write concurrently. Numbering an event
takes the turn of events, so that numbers become visible in order.
"""

from __future__ import annotations

import os
import platform
import re
import select
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hive_agents.base import HiveError, NewerRelease
from hive_agents.store.moved import left_behind, moved, still_here
from hive_agents.store.schema import INDEX_TABLES, MIGRATIONS
from hive_agents.workspace import RemoteDatabase, Workspace, require_trust
from hive_agents.workspace.credentials import login_fix, login_options, resolve

if TYPE_CHECKING:
    import psycopg

_NAME_BYTES = 63
"""What a server keeps of a client's name."""
LOCK_SECONDS = 10
IDLE_SECONDS = 30
"""How long a transaction may be idle between two statements."""
_PAUSE = 0.05
_CONNECT_SECONDS = 5
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)
_pooled: set[str] = set()
"""Addresses behind which this process has found a pooler that keeps a session's connection."""
MOVED = "HM001"
"""The SQLSTATE of writes to a schema whose records were moved away."""
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
    """`ahead` is the lead of the server's clock in seconds; `most` is the limit of `connections`."""

    release: str
    schema: int
    workspace: str | None
    ahead: float
    connections: int
    most: int


@dataclass(frozen=True)
class SchemaRights:
    """What a user may do at first contact; `lacking` is what is in the way, "" where nothing is, `grant` what helps."""

    user: str
    release: str
    has_schema: bool
    lacking: str
    grant: str

    def refusal(self, place: RemoteDatabase) -> HiveError:
        """Return HIVE-403 for what is lacking."""
        return HiveError.of("HIVE-403", f"cannot make tables there: {self.lacking}", file=place.name, fix=self.grant)


def rights_on(raw: psycopg.Connection[Any], place: RemoteDatabase) -> SchemaRights:
    """Return what the user of a connection may do with the place's schema, which is only looked at."""
    query = b"""
        SELECT current_user::text, current_database()::text, current_setting('server_version'),
            pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
            to_regnamespace(%(schema)s) IS NOT NULL, has_database_privilege(current_database(), 'CREATE'),
            (SELECT has_schema_privilege(oid, 'CREATE') AND has_schema_privilege(oid, 'USAGE') FROM pg_namespace
                WHERE nspname = %(schema)s)
    """
    row = raw.execute(query, {"schema": place.schema}).fetchone()
    assert row is not None
    user, database, release, is_read_only, has_schema, may_make, may_use = row
    lacking, grant = "", ""
    if is_read_only:
        lacking = "the server is read-only, as a standby is"
        grant = "name the primary; or all servers, and end the url with ?target_session_attrs=read-write"
    elif has_schema and not may_use:
        lacking = f"schema {place.schema} is there, and {user} may not make tables in it"
        grant = f'let its owner or a superuser run: ALTER SCHEMA "{place.schema}" OWNER TO "{user}";'
    elif not has_schema and not may_make:
        lacking = f"there is no schema {place.schema} in database {database}, and {user} may not make one"
        grant = f'let the database\'s owner run there: CREATE SCHEMA "{place.schema}" AUTHORIZATION "{user}";'
    return SchemaRights(user, str(release).split()[0], has_schema, lacking, grant)


class PostgresConnection:
    """A connection that takes SQLite's SQL; `raw` is psycopg's connection, in autocommit mode.

    Raises: psycopg's errors, for `explained`; HIVE-431 where the settings aren't trusted, HIVE-421 for a missing
    password.
    """

    def __init__(self, place: RemoteDatabase) -> None:
        self.row_factory: Any = None
        self.text_factory: Any = str
        self.has_checkpoints = False
        self._place = place
        self._number: int | None = None
        self._answered, self._is_long = time.monotonic(), False
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
        parameters = tuple(int(value) if isinstance(value, bool) else value for value in values)
        with self._noting_silence():
            cursor = self.raw.execute(translated(sql), parameters)
        return PostgresCursor(cursor, rows=self.row_factory is not None, all_columns="SELECT *" in sql)

    @contextmanager
    def _noting_silence(self) -> Iterator[None]:
        """Raise psycopg's error for an idle transaction also where the server's reason was lost with the connection."""
        from psycopg import OperationalError, errors

        idle = time.monotonic() - self._answered
        silent = self.in_transaction and not self._is_long and idle >= IDLE_SECONDS
        try:
            yield
        except OperationalError as error:
            if silent and error.sqlstate is None:
                raise errors.IdleInTransactionSessionTimeout(str(error)) from error
            raise
        finally:
            self._answered = time.monotonic()

    def executemany(self, sql: str, values: Any, /) -> None:
        """Run one statement for each row, without a round trip for each."""
        with self._noting_silence(), self.raw.cursor() as cursor:
            cursor.executemany(translated(sql), [[int(v) if isinstance(v, bool) else v for v in row] for row in values])

    def begin(self, turn: str, *, beside: str | None = None, long: bool = False) -> None:
        """Begin a transaction, waiting for its turn and for a share of the turn `beside`.

        A `long` one may be idle between statements. Raises: psycopg's error after too long a wait.
        """
        try:
            cursor = self.raw.execute("; ".join(self._beginning(turn, beside)).encode(), prepare=False)
            while cursor.nextset():
                pass
            self._number = _number_in(cursor)
            self._answered, self._is_long = time.monotonic(), long
        except BaseException:
            self.raw.rollback()
            raise
        if long:
            self.raw.execute(b"SET LOCAL idle_in_transaction_session_timeout = 0")

    def commit(self) -> None:
        """Commit the transaction; where the answer is lost, ask the server whether it was committed.

        The connection is a new one then, without the locks of the lost one.

        Raises: psycopg's error where nothing was committed, or the server is out of reach.
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

        until = time.monotonic() + LOCK_SECONDS
        self.raw.close()
        while time.monotonic() < until:
            with suppress(psycopg.Error):
                raw = opened(self._place)
                try:
                    # A COMMIT still in transit could take effect after this method has returned False. Behind a
                    # pooler the transaction's process isn't known, only its number.
                    end = b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    same = b" WHERE CAST(CAST(backend_xid AS text) AS bigint) = %s & 4294967295"
                    raw.execute(end + same, (self._number,))
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
        """Run a whole transaction with one round trip before its COMMIT; return the rows of each statement."""
        with self.raw.pipeline():
            beginning = [self.raw.execute(sql.encode(), prepare=False) for sql in self._beginning(turn, beside)]
            sent = [self.execute(*statement) for statement in statements]
            if waking:
                self.notify()
        self._number = _number_in(beginning[-1])
        self.commit()
        return [cursor.fetchall() for cursor in sent]

    def _beginning(self, turn: str, beside: str | None) -> list[str]:
        # The shared lock comes first: the holder of a turn must not wait for one that excludes all.
        shared = f"SELECT pg_advisory_xact_lock_shared({lock_number(self._place, beside)})" if beside else ""
        return ["BEGIN", *filter(None, [shared]), self._locking(turn), "SELECT txid_current()"]

    def _locking(self, turn: str) -> str:
        return f"SELECT pg_advisory_xact_lock({lock_number(self._place, turn)})"

    @contextmanager
    def held(self, of: str) -> Iterator[None]:
        """Hold a session lock, waiting for it `LOCK_SECONDS`.

        It is polled: a waiting statement has a snapshot, and the lock's holder may build an index concurrently, which
        waits until all snapshots are gone.
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
        """Take a lock for as long as the connection lasts; return False where another holds it."""
        row = self.raw.execute(f"SELECT pg_try_advisory_lock({lock_number(self._place, of)})".encode()).fetchone()
        return bool(row and row[0])

    def time(self) -> float:
        """Return the server's time, in seconds since 1970."""
        row = self.raw.execute(b"SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])

    def state(self) -> ServerState:
        """Return the server's state for `hive doctor`, after a test write.

        Raises: psycopg's error where the database can't be written.
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
        """Wake this schema's listeners when the transaction is committed."""
        self.raw.execute(b"SELECT pg_notify(%s, '')", (self._place.schema,))

    def listen(self) -> None:
        """Receive the notices of `notify` from now on, see `heard`."""
        name = _listener(self._place, _process())
        self.raw.execute(b"SELECT set_config('application_name', %s, false)", [name])
        self.raw.execute(f'LISTEN "{self._place.schema}"'.encode())

    def heard(self) -> bool:
        """Return whether a notice has arrived since the last call, without waiting."""
        return bool([*self.raw.notifies(timeout=0)])

    def close(self) -> None:
        self.raw.close()

    def __del__(self) -> None:
        if "raw" in vars(self):  # a finished thread leaves its connections open
            self.raw.close()

    def lost(self) -> bool:
        """Return whether the server is known to have closed the connection."""
        if self.raw.closed:
            return True
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN | select.POLLHUP)
        # An unsolicited message mostly announces the end of the connection, which may follow later.
        return bool(poll.poll(0))

    def _migrate(self) -> None:
        """Bring the schema to the newest state; hosts that start at the same time wait for each other.

        Raises: HIVE-407 for a schema that a newer release wrote.
        """
        newest = len(MIGRATIONS)
        if self.require_known() == newest:
            return
        # The lock precedes the transaction, whose snapshot wouldn't show the schema that another host has made.
        with self.held("schema"), self.raw.transaction():
            version = self.require_known()
            if not version:
                if not self._place.is_target and left_behind(self._place.root):
                    raise still_here(self._place.name)
                rights = rights_on(self.raw, self._place)
                if rights.lacking:
                    raise rights.refusal(self._place)
                if not rights.has_schema:
                    self.raw.execute(f'CREATE SCHEMA "{self._place.schema}"'.encode())
                self.raw.execute(FUNCTIONS.encode())
                self.raw.execute(b"CREATE TABLE schema_version (version integer NOT NULL)")
                self.raw.execute(b"INSERT INTO schema_version VALUES (0)")
            self.raw.execute(b"SET LOCAL hive.migrating = 'on'")
            for statement in statements(version):
                self.raw.execute(statement.encode())
            self.raw.execute(b"UPDATE schema_version SET version = %s", (newest,))

    def _require_own(self) -> None:
        """Raise HIVE-430 for a schema that belongs to another workspace; claim one that belongs to none."""
        own = Workspace(self._place.root).settings.storage.workspace
        if self._owner() is None and own:
            with self.held("schema"):
                self.raw.execute(b"ALTER TABLE schema_version ADD COLUMN IF NOT EXISTS workspace text")
                self.raw.execute(b"UPDATE schema_version SET workspace = %s WHERE workspace IS NULL", (own,))
        owner = self._owner() or ""
        if owner != own:
            message = f'{self._place.name} holds the records of the workspace "{owner}", and hive.toml names '
            fix = f'if this is a host of it, write workspace = "{owner}" under [storage]; else another namespace'
            raise HiveError.of("HIVE-430", message + (f'"{own}"' if own else "none"), file="hive.toml", fix=fix)

    def _owner(self) -> str | None:
        # A schema that an earlier release made has no such column.
        row = self.raw.execute(b"SELECT to_json(v) ->> 'workspace' FROM schema_version AS v").fetchone()
        return row[0] if row else None

    def require_known(self) -> int:
        """Return the version of the schema. Raises: HIVE-407 for one that a newer release wrote."""
        version = self._version()
        if version > len(MIGRATIONS):
            message = f"{self._place.name} was written by a newer release (schema {version})"
            raise NewerRelease.of("HIVE-407", message, fix="upgrade hive-agents on this host", exit_code=3)
        return version

    def others(self) -> list[str]:
        """Return the other processes that listen to this schema, as hosts do, such as "4711@host-b"."""
        query = b"""
            SELECT DISTINCT substr(application_name, length(%s) + 1) FROM pg_stat_activity
            WHERE datname = current_database() AND left(application_name, length(%s)) = %s AND application_name <> %s
        """
        begin = _listener(self._place, "")
        rows = self.raw.execute(query, [begin, begin, begin, _listener(self._place, _process())]).fetchall()
        return sorted(str(row[0]) for row in rows)

    def _version(self) -> int:
        query = b"SELECT to_regclass('schema_version') IS NOT NULL, to_regclass('records_half_moved') IS NOT NULL"
        is_there, is_half_moved = self.raw.execute(query).fetchone() or (False, False)
        if is_half_moved and not self._place.is_target:
            raise still_here(self._place.name)
        if not is_there:
            return 0
        row = self.raw.execute(b"SELECT version FROM schema_version").fetchone()
        return int(row[0]) if row else 0


class PostgresCursor:
    """The result of a statement; with `all_columns` without `rowid`, which SQLite's * doesn't include."""

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
    """A `with` block that raises psycopg's DatabaseError for answers that can't be PostgreSQL's."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (ValueError, TypeError, LookupError, ArithmeticError)):
            from psycopg import DatabaseError

            raise DatabaseError(f"it gives other answers than PostgreSQL: {error}") from error


def opened(place: RemoteDatabase, *, names_from: str | None = None) -> psycopg.Connection[Any]:
    """Return psycopg's connection with the place's schema, or `names_from`, as search path.

    A host that is frozen or unplugged during its turn loses the turn after a while, and a server that vanishes is given
    up after the same time.
    """
    import psycopg

    workspace = Workspace(place.root)
    require_trust(workspace, "storage")
    reference = place.password_ref
    if reference is None:
        reference = workspace.settings.storage.password_ref
    password: dict[str, Any] = {"password": resolve(workspace, reference).reveal()} if reference else {}
    # They are set by a statement: a pooler takes no options as the connection begins.
    session = {
        "search_path": place.schema if names_from is None else names_from,
        # The database's owner could have set other defaults.
        "standard_conforming_strings": "on",
        "extra_float_digits": "1",
        "lock_timeout": f"{LOCK_SECONDS}s",
        "synchronous_commit": "on",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "tcp_keepalives_idle": f"{IDLE_SECONDS // 3}",
        "tcp_keepalives_interval": f"{IDLE_SECONDS // 6}",
        "tcp_keepalives_count": "4",
    }
    connect: Callable[[], psycopg.Connection[Any]] = partial(
        psycopg.connect,
        place.url,
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        application_name="hive-agents",
        keepalives_idle=IDLE_SECONDS // 3,
        keepalives_interval=IDLE_SECONDS // 6,
        keepalives_count=4,
        tcp_user_timeout=IDLE_SECONDS * 1_000,
        client_encoding="UTF8",
        **password,
        **login_options(place.url),
    )
    raw = connect()
    try:
        # A pooler shows a number of its own for the server's process.
        if _begin_session(raw, session) != raw.info.backend_pid and place.url not in _pooled:
            with closing(connect()) as other:
                if _begin_session(other, session) == _begin_session(raw, session):
                    message = "a pooler gives a session's connection to other clients between its statements"
                    fix = "let it keep one for each session (PgBouncer: pool_mode = session), or name the server itself"
                    raise HiveError.of("HIVE-403", message, file=place.name, fix=fix)
            _pooled.add(place.url)
    except BaseException:
        raw.close()
        raise
    _adapt(raw)
    return raw


def _listener(place: RemoteDatabase, process: str) -> str:
    """Return the name of a process that listens among the server's clients, as far as the server keeps it."""
    return f"hive-agents {place.schema} {process}".encode("ascii", "replace")[:_NAME_BYTES].decode()


def _process() -> str:
    return f"{os.getpid()}@{platform.node()}"


def _begin_session(raw: psycopg.Connection[Any], settings: dict[str, str]) -> int:
    """Set the session's settings; return the number of the server's process. Raises: psycopg's error, also where the
    server accepts the connection and then doesn't answer, or without end."""
    from psycopg import OperationalError

    names = b", ".join([b"pg_catalog.set_config(%s, %s, false)"] * len(settings))
    values = [part for setting in settings.items() for part in setting]
    with cut_after(_CONNECT_SECONDS, raw) as is_cut:
        try:
            with other_answers():
                row: Any = raw.execute(b"SELECT pg_catalog.pg_backend_pid(), " + names, values).fetchone()
                return int(row[0])
        except OperationalError as error:
            if is_cut.is_set():
                raise OperationalError(f"it lets in, and answers nothing within {_CONNECT_SECONDS} s") from error
            raise


@contextmanager
def cut_after(seconds: float, raw: psycopg.Connection[Any]) -> Iterator[threading.Event]:
    """Cut the connection if the body takes longer; yield the event that is set then."""
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()  # before the body can notice
        with suppress(Exception), socket.socket(fileno=os.dup(raw.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

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
    """Return the number of the advisory lock of a schema and a use."""
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
    """Yield the statements that migrate the records from a version to the newest, in PostgreSQL's SQL."""
    for script in MIGRATIONS[version:]:
        for statement in filter(str.strip, script.split(";")):
            target = re.search(r"\b(?:TABLE|ON|INDEX|INTO) (\w+)", re.sub(r"INDEX \w+ ON", "ON", statement))
            if target is None or target[1] not in INDEX_TABLES:
                yield _ported(statement)


def _ported(statement: str) -> str:
    ported = re.sub(r"WITHOUT ROWID\s*$", "", statement)
    if ported == statement and "CREATE TABLE" in statement:
        # The order of insertion, which SQLite keeps by itself.
        ported = re.sub(r"\)\s*$", ", rowid bigint GENERATED ALWAYS AS IDENTITY)", statement)
    for sqlite, postgres in _TYPES.items():
        ported = re.sub(sqlite, postgres, ported)
    return ported


_TYPES = {
    r"\bINTEGER PRIMARY KEY AUTOINCREMENT": "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    r"\bINTEGER\b": "bigint",
    r"\bREAL\b": "double precision",
    r"\bBLOB\b": "bytea",
    r"\bTEXT\b": 'text COLLATE "C"',
    r"\buser\b": '"user"',
}


_MISSING = re.compile(r'(role|database) "([^"]+)" does not exist')
_REFUSALS = {
    "password": ("HIVE-403", "correct the password: `hive credentials set NAME`, with password_ref under [storage]"),
    "does not exist": ("HIVE-403", "create that database or user on the server, or correct [storage] url"),
    "pg_hba.conf": ("HIVE-403", "let the server's pg_hba.conf admit this user from this host, by scram-sha-256"),
    "connection is bad: invalid ": ("HIVE-409", "correct the address: postgresql://user@host:5432/database"),
    "authentication failed": ("HIVE-403", "name a user whom the server lets in from this host, by its pg_hba.conf"),
    "connection slots": ("HIVE-402", "raise the server's max_connections, or run fewer hosts; then try again"),
    "too many": (
        "HIVE-402",
        "raise the limit of connections, or run fewer hosts; then try again",
    ),
    "permission denied": ("HIVE-403", "grant the user CONNECT on the database, and CREATE to make the schema"),
}
"""Texts of refused connections, with the diagnostic's code and fix."""


def explained(error: psycopg.Error, place: RemoteDatabase) -> HiveError:
    """Return the diagnostic of an error: HIVE-402 where a retry may help, HIVE-403 where not.

    HIVE-409 is for a value that the database can't hold, HIVE-407 for all else.
    """
    import psycopg
    from psycopg import errors

    message_line = str(error).strip().partition("\n")[0]
    if error.sqlstate == MOVED:
        return moved(message_line, place.name)
    if isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)):
        fix = "wait until the other process has finished, then run the command again"
        return HiveError.of("HIVE-402", "the database is locked by another process", file=place.name, fix=fix)
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        fix = "run the command again: nothing of it was recorded"
        message = f"this host was silent for {IDLE_SECONDS} s in its turn to write, and lost it"
        return HiveError.of("HIVE-402", message, file=place.name, fix=fix)
    if isinstance(error, (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
        fix = f"let the database's user create and write tables in schema {place.schema}"
        return HiveError.of("HIVE-403", f"cannot write the database: {message_line}", file=place.name, fix=fix)
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
        fix = "free some space on the database's host, then run the command again; nothing was lost"
        return HiveError.of("HIVE-403", f"the database can't write: {message_line}", file=place.name, fix=fix)
    if isinstance(error, psycopg.OperationalError) and (proof := login_fix(str(error))) is not None:
        return HiveError.of(
            "HIVE-403", f"the server didn't prove which one it is: {message_line}", file=place.name, fix=proof
        )
    if isinstance(error, psycopg.OperationalError) and (named := _MISSING.search(str(error))) is not None:
        user = urlsplit(place.url).username or named[2]
        does = f"CREATE ROLE \"{user}\" LOGIN PASSWORD '…'" if named[1] == "role" else f'CREATE DATABASE "{named[2]}"'
        owned = "" if named[1] == "role" else f' OWNER "{user}"'
        fix = f"correct the address; or let a superuser run: {does}{owned};"
        return HiveError.of("HIVE-403", f"the database refuses: {message_line}", file=place.name, fix=fix)
    for words, (code, fix) in _REFUSALS.items():
        if isinstance(error, psycopg.OperationalError) and words in str(error):
            return HiveError.of(code, f"the database refuses: {message_line}", file=place.name, fix=fix)
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        fix = "start the server or correct [storage] url, then run the command again; what was recorded is kept"
        return HiveError.of("HIVE-402", f"the database can't be reached: {message_line}", file=place.name, fix=fix)
    if isinstance(error, psycopg.DataError):
        fix = "leave out the character NUL, or whatever the message names"
        return HiveError.of("HIVE-409", f"the database can't hold this value: {message_line}", file=place.name, fix=fix)
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # libpq can't read the address
        fix = "correct the address: postgresql://user@host:5432/database?option=value"
        return HiveError.of("HIVE-409", f"no address of a PostgreSQL: {message_line}", file=place.name, fix=fix)
    fix = "restore the schema from a backup; docs/scale.md says how"
    return HiveError.of("HIVE-407", f"the database is damaged: {message_line}", file=place.name, fix=fix)


def _adapt(raw: psycopg.Connection[Any]) -> None:
    """Send str as text, even where a parameter's type is unknown, and load numeric sums as Python numbers."""
    from psycopg.adapt import Loader
    from psycopg.types.string import StrDumper

    class Number(Loader):
        def load(self, data: Any) -> int | float:
            text = bytes(data).decode()
            return float(text) if "." in text or "N" in text else int(text)

    raw.adapters.register_dumper(str, StrDumper)
    raw.adapters.register_loader("numeric", Number)
