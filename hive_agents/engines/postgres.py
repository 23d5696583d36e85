"""Connections to the PostgreSQL of `[vectors]`; its failures are HIVE-434."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, finalize

from hive_agents.base import Diagnostic, EngineFault, HiveError
from hive_agents.engines.breaker import EngineBreaker, TimedOut, Unreachable, breakers_of
from hive_agents.store import postgres
from hive_agents.workspace import Workspace, require_trust
from hive_agents.workspace.credentials import login_fix, login_options, resolve
from hive_agents.workspace.settings import keys

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

_CONNECTIONS = 8
_STARTING_SECONDS = 2  # libpq's minimum of connect_timeout
_FIX = "start it, or mend vectors.url in hive.toml; `hive doctor` tries it"
_FIXES = {
    "42501": "let the schema of vectors.namespace belong to the user of vectors.url",
    "0A000": "install pgvector on the server (on Debian the package postgresql-15-pgvector for PostgreSQL 15)",
    "58P01": "install pgvector on the server (on Debian the package postgresql-15-pgvector for PostgreSQL 15)",
    "25006": "name the primary in vectors.url: this server can't be written",
    "53100": "free some space on the server's disk, then run the command again: it goes on where it stopped",
    "57014": "raise vectors.timeout_seconds, or set vectors.search to hnsw",
}
"""Fixes by SQLSTATE."""
_shared: WeakValueDictionary[tuple[Any, ...], Database] = WeakValueDictionary()
_sharing = threading.Lock()
_NO_ANSWER = "57014"
_NO_TABLES = ("42P01", "3F000")


class Database:
    """Connections to one database, kept open and shared between threads; made by `open_database`.

    A query takes at most `timeout_seconds`, by the server's clock and by ours; `breaker` decides whether it is asked.
    """

    def __init__(
        self, workspace: Workspace, settings: keys.VectorSettings, breaker: EngineBreaker | None = None
    ) -> None:
        self.settings = settings
        self._workspace = workspace
        self._breaker = breaker or EngineBreaker(settings.rest_seconds)
        self._idle: list[psycopg.Connection[Any]] = []
        self.close = finalize(self, _close, self._idle)
        """Close the idle connections; called when the object is collected, at the latest."""
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_CONNECTIONS)

    @property
    def shown(self) -> str:
        """Host, port and database, without user and options."""
        from psycopg.conninfo import conninfo_to_dict

        info = conninfo_to_dict(self.settings.url)
        port = f":{info['port']}" if info.get("port") else ""
        return f"{info.get('host', 'localhost')}{port}/{info.get('dbname', '')}"

    def rows(self, query: Composed, values: Mapping[str, Any], local: Mapping[str, str] | None = None) -> list[Any]:
        """Return a query's rows; `local` are server settings for this query only.

        An idle connection that was cut is replaced. Raises: HIVE-434.
        """
        from psycopg import Error

        with self._places, self.attempt():
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is not None:
                try:
                    return self._fetch(idle, query, values, local)
                except Error as error:
                    if not idle.closed or error.sqlstate == _NO_ANSWER:
                        raise self.fault(error) from error
            fresh = self.connect()
            try:
                return self._fetch(fresh, query, values, local)
            except Error as error:
                raise self.fault(error) from error

    def attempt(self) -> AbstractContextManager[None]:
        """Return a context for one request. Raises: HIVE-434 while the breaker is open."""
        return self._breaker.attempt(lambda why: self.unusable(why, _FIX))

    def connect(self, *, hurried: bool = True) -> psycopg.Connection[Any]:
        """Return a new connection in autocommit mode; `hurried` bounds each statement. Raises: HIVE-434, 421."""
        import psycopg

        password = resolve(self._workspace, self.settings.password_ref) if self.settings.password_ref else None
        login: dict[str, Any] = {"password": password.reveal()} if password else {}
        patience = self.settings.timeout_seconds
        limits = f"-c jit=off -c statement_timeout={round(patience * 1000) if hurried else 0}"
        try:
            return psycopg.connect(
                self.settings.url,
                autocommit=True,
                prepare_threshold=None,  # the best plan depends on the mask
                application_name="hive",
                connect_timeout=max(_STARTING_SECONDS, round(patience)),
                tcp_user_timeout=round(patience * 1000) if hurried else 0,
                keepalives_idle=30,
                options=limits,
                **login,
                **login_options(self.settings.url),
            )
        except psycopg.Error as error:
            raise self.fault(error) from error

    def _fetch(
        self,
        connection: psycopg.Connection[Any],
        query: Composed,
        values: Mapping[str, Any],
        local: Mapping[str, str] | None,
    ) -> list[Any]:
        import psycopg

        try:
            with _watched(connection, self.settings.timeout_seconds):
                if local:
                    with connection.pipeline(), connection.transaction():
                        for name, value in local.items():
                            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
                        cursor = connection.execute(query, values, binary=True)
                    rows = cursor.fetchall()
                else:
                    rows = connection.execute(query, values, binary=True).fetchall()
        except BaseException as error:
            if isinstance(error, psycopg.Error) and not connection.closed:
                self._keep(connection)
            else:
                connection.close()
            raise
        self._keep(connection)
        return rows

    def _keep(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            self._idle.append(connection)

    def fault(self, error: psycopg.Error) -> EngineFault:
        """Return HIVE-434 with one line of the server's or the driver's message."""
        from psycopg.errors import ConnectionTimeout, OperationalError

        if error.sqlstate in _NO_TABLES:
            return NoCopy.of_state(self)
        why = error.diag.message_primary or next(iter(str(error).strip().splitlines()), type(error).__name__)
        if error.sqlstate == _NO_ANSWER:
            why = f"no answer within {self.settings.timeout_seconds:g} s"
        wrong_login, kind = login_fix(str(error)), EngineFault
        # A timeout by the server's clock has the server's message.
        if isinstance(error, ConnectionTimeout) or (error.sqlstate == _NO_ANSWER and not error.diag.message_primary):
            kind = TimedOut
        elif isinstance(error, OperationalError) and error.sqlstate is None and wrong_login is None:
            kind = Unreachable
        return self.unusable(why, wrong_login or _FIXES.get(error.sqlstate or "", _FIX), kind)

    def unusable(self, why: str, fix: str, kind: type[EngineFault] = EngineFault) -> EngineFault:
        return kind([_unusable(self, why, fix)])


class NoCopy(EngineFault):
    """The database has no complete copy of this state of the index."""

    @classmethod
    def of_state(cls, database: Database) -> NoCopy:
        why = "it has no complete copy of this state of the index"
        fix = "run `hive index`, on each host whose documents changed; two workspaces need two vectors.namespace"
        return cls([_unusable(database, why, fix)])


def _unusable(database: Database, why: str, fix: str) -> Diagnostic:
    message = f"the vectors in PostgreSQL at {database.shown} can't be used: {why}"
    return Diagnostic("HIVE-434", message, "hive.toml", "vectors.url", fix)


def open_database(workspace: Workspace) -> Database:
    """Return the database of the settings, the same object for the same settings.

    Nothing is connected yet. Raises: HIVE-411 without psycopg, HIVE-431 where the workspace isn't trusted.
    """
    settings = workspace.settings.vectors
    require_trust(workspace, "vectors")
    try:
        import psycopg  # noqa: F401 - so that a missing extra is reported first
    except ImportError:
        fix = "pip install 'hive-agents[postgres]'"
        raise HiveError.of("HIVE-411", "vectors.url needs psycopg, which is not installed", fix=fix) from None
    # A forked process must not share connections.
    key = (workspace.root, settings.model_dump_json(), os.getpid())
    with _sharing:
        database = _shared.get(key)
        if database is None:
            database = _shared[key] = Database(workspace, settings, breakers_of(workspace)["pgvector"])
        return database


def _close(connections: list[psycopg.Connection[Any]]) -> None:
    while connections:
        connections.pop().close()


@contextmanager
def _watched(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Close the connection a second after the server's own timeout: the server or the network doesn't respond."""
    from psycopg.errors import Error, QueryCanceled

    with postgres.cut_after(seconds + 1, connection) as is_cut:
        try:
            yield
        except Error as error:
            if is_cut.is_set():
                raise QueryCanceled from error
            raise
