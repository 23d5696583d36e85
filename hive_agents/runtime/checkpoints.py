"""LangGraph's checkpoints, written by whoever holds the thread's lease.

They are in `.hive/checkpoints.db`, or with the records on a server. In the file, a lease is asked just before a write,
for it is in another database: a worker that lost it in that instant may leave a checkpoint, and what it leads to is
refused by the ledger. On a server lease and write are one transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hive_agents.errors import Damaged, HiveError
from hive_agents.files import unlinked
from hive_agents.runs import Lease
from hive_agents.store import BUSY_SECONDS, RecordsConnection, briefly, connected, database_errors
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from hive_agents.store import PostgresConnection


@contextmanager
def checkpointer(workspace: Workspace) -> Iterator[BaseCheckpointSaver[str]]:
    """A saver whose stored bytes are plain data, whoever wrote them; for looking at threads that nobody works on."""
    if isinstance(workspace.records, RemoteDatabase):
        from langgraph.checkpoint.postgres import PostgresSaver

        with connected(workspace.records) as records:
            yield PostgresSaver(_prepared(records), serde=_serializer())
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        connection = _opened(path)
        try:
            yield SqliteSaver(connection, serde=_serializer())
        finally:
            connection.close()


@asynccontextmanager
async def async_checkpointer(
    workspace: Workspace, lease: Lease | None = None
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Yield a saver as `checkpointer` does, for the event loop of whoever works on a thread.

    With a lease its writes raise LeaseLost (HIVE-425) as soon as another worker has it.
    """
    if isinstance(workspace.records, RemoteDatabase):
        yield _fenced_on_server()(workspace.records, lease)
        return
    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        yield _fenced()(path, lease)


@cache
def _fenced() -> Callable[[Path, Lease | None], BaseCheckpointSaver[str]]:
    """Return the class, which is made when it is first needed: LangGraph takes long to import."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    class Fenced(_Leased, SqliteSaver):
        """LangGraph's own opens a connection and a thread for each run, and hands that one three jobs a write."""

        def __init__(self, path: Path, lease: Lease | None) -> None:
            super().__init__(None, serde=_serializer())  # type: ignore[arg-type]
            self._path = path
            self._begin_turns(lease)

        def _done(self, work: Callable[[], Any], *, writes: bool) -> Any:
            if writes and self._lease is not None:
                self._lease.check()
            with connected(self._path, opened=_opened) as self.conn:
                self.is_setup = True
                return work()

    return Fenced


@cache
def _fenced_on_server() -> Callable[[RemoteDatabase, Lease | None], BaseCheckpointSaver[str]]:
    """As `_fenced`, for a server."""
    from langgraph.checkpoint.postgres import PostgresSaver

    class Fenced(_Leased, PostgresSaver):
        def __init__(self, place: RemoteDatabase, lease: Lease | None) -> None:
            super().__init__(None, serde=_serializer())  # type: ignore[arg-type]
            self._place = place
            self._begin_turns(lease)

        def _done(self, work: Callable[[], Any], *, writes: bool) -> Any:
            with connected(self._place) as records:
                self.conn = raw = _prepared(records)
                if not writes:
                    return work()
                # Checkpoints of different threads don't wait for each other: the lease's row is what is fenced.
                with raw.transaction():
                    if self._lease is not None:
                        self._lease.require(records, keeping=True)
                    return work()

    return Fenced


if TYPE_CHECKING:
    _Saver = BaseCheckpointSaver[str]
else:
    _Saver = object


class _Leased(_Saver):
    """A saver for a worker, whose graph awaits or has threads: each operation has a connection for as long as it lasts.

    One at a time: LangGraph's savers have one attribute for their connection.
    """

    conn: Any

    def _begin_turns(self, lease: Lease | None) -> None:
        self._lease = lease
        self._turn, self._guard = asyncio.Lock(), threading.Lock()

    def get_tuple(self, config: Any) -> Any:
        return self._work(partial(super().get_tuple, config))

    def list(self, *what: Any, **named: Any) -> Iterator[Any]:
        listed = super().list
        return iter(self._work(lambda: [*listed(*what, **named)]))

    def put(self, *what: Any, **named: Any) -> Any:
        return self._work(partial(super().put, *what, **named), writes=True)

    def put_writes(self, *what: Any, **named: Any) -> None:
        self._work(partial(super().put_writes, *what, **named), writes=True)

    def delete_thread(self, thread_id: str) -> None:
        self._work(partial(super().delete_thread, thread_id), writes=True)

    async def aget_tuple(self, config: Any) -> Any:
        return await self._awaited(partial(self.get_tuple, config))

    async def alist(self, *what: Any, **named: Any) -> AsyncIterator[Any]:
        for found in await self._awaited(partial(self.list, *what, **named)):
            yield found

    async def aput(self, *what: Any, **named: Any) -> Any:
        return await self._awaited(partial(self.put, *what, **named))

    async def aput_writes(self, *what: Any, **named: Any) -> None:
        await self._awaited(partial(self.put_writes, *what, **named))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._awaited(partial(self.delete_thread, thread_id))

    async def _awaited(self, work: Callable[[], Any]) -> Any:
        async with self._turn:
            return await briefly(work)

    def _work(self, work: Callable[[], Any], *, writes: bool = False) -> Any:
        with self._guard:
            try:
                return self._done(work, writes=writes)
            finally:
                self.conn = None  # which is somebody else's from now on

    def _done(self, work: Callable[[], Any], *, writes: bool) -> Any:
        """Do it on a connection; `writes` need the lease."""
        raise NotImplementedError


def _prepared(records: RecordsConnection) -> Any:
    """Return psycopg's connection to a schema that has the tables of checkpoints."""
    from langgraph.checkpoint.postgres import PostgresSaver

    connection = cast("PostgresConnection", records)
    if not connection.has_checkpoints and not _has_tables(connection):
        with connection.held("checkpoints"):
            PostgresSaver(connection.raw).setup()
    connection.has_checkpoints = True
    return connection.raw


def _has_tables(connection: PostgresConnection) -> bool:
    """Return whether the tables are as this release of LangGraph wants them, without a lock."""
    from langgraph.checkpoint.postgres import PostgresSaver

    if connection.execute("SELECT to_regclass('checkpoint_migrations')").fetchone()[0] is None:
        return False
    newest = connection.execute("SELECT max(v) FROM checkpoint_migrations").fetchone()[0]
    return newest is not None and int(newest) >= len(PostgresSaver.MIGRATIONS) - 1


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection to a file of checkpoints that is ready to be used."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    with database_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            path.chmod(0o600)
            # As in hive.db: a killed process loses nothing, and a step needs no wait for the disk.
            connection.execute("PRAGMA synchronous = NORMAL")
            SqliteSaver(connection).setup()
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _set_aside_if_damaged(path: Path) -> Iterator[None]:
    """Move a damaged file out of the way before its diagnostic: the next command begins a new one."""
    try:
        with database_errors(path):
            yield
    except Damaged as damage:
        if damage.diagnostics[0].file != f".hive/{path.name}":  # hive.db, which has a way of its own
            raise
        stamp = f"damaged-{time.strftime('%Y%m%d-%H%M%S')}"
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(path.with_name(f"{path.name}{suffix}.{stamp}"))
        message = f"{damage.diagnostics[0].message}; it was set aside as .hive/{path.name}.{stamp}"
        fix = "run the command again: a run goes on from what else is recorded of it"
        raise HiveError.of("HIVE-407", message, file=f".hive/{path.name}", fix=fix) from damage


def _serializer() -> JsonPlusSerializer:
    """Return a serializer that builds no type from stored bytes but LangGraph's own safe ones: states are JSON.

    Not by LANGGRAPH_STRICT_MSGPACK: it is read when langgraph is imported, which may be long before.
    """
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)
