"""LangGraph's checkpoints, written only by the holder of the thread's lease.

They are in `.hive/checkpoints.db`, or with the records on a server. For the file, the lease is checked just before each
write, since it is in another database: a worker that loses it in between may write a checkpoint, but the ledger refuses
the steps that follow. On a server the check and the write are one transaction.

What a repeated step makes again is not written alone, but with the next checkpoint: a process that dies before has lost
no more than one that dies in the middle of the step, whose effects are in the ledger.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hive_agents.base import Damaged, HiveError
from hive_agents.base.files import unlinked
from hive_agents.runs.leases import Lease
from hive_agents.store import RecordsConnection, briefly, connected, database, database_errors
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from hive_agents.store import postgres


@contextmanager
def checkpointer(workspace: Workspace) -> Iterator[BaseCheckpointSaver[str]]:
    """Yield a saver for reading threads without a lease; it builds no types from stored bytes but safe ones."""
    if isinstance(workspace.records, RemoteDatabase):
        from langgraph.checkpoint.postgres import PostgresSaver

        with connected(workspace.records) as records:
            yield PostgresSaver(_prepared(records), serde=_serializer())
        return
    from hive_agents.runs.checkpoint_tables import SqliteSaver

    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        connection = _opened(path)
        try:
            yield SqliteSaver(connection, serde=_serializer())
        finally:
            connection.close()


def forget_threads(workspace: Workspace, *thread_ids: str) -> None:
    """Delete the checkpoints of threads whose leases the caller holds, in one transaction."""
    if isinstance(workspace.records, RemoteDatabase):
        _fenced_on_server()(workspace.records, None).forget(*thread_ids)
        return
    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        _fenced()(path, None).forget(*thread_ids)


async def on_its_own(graph: Any, value: Any) -> Any:
    """Return the state of a compiled graph that a step of a run calls: it runs by itself, with its own checkpoints or
    none, and not as a part of the run's graph."""
    from langchain_core.runnables.config import var_child_runnable_config

    token = var_child_runnable_config.set(None)
    try:
        return await graph.ainvoke(value)
    finally:
        var_child_runnable_config.reset(token)


@asynccontextmanager
async def async_checkpointer(
    workspace: Workspace, lease: Lease | None = None
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """Yield a saver for a worker's event loop.

    With a lease, its writes raise LeaseLost (HIVE-425) once another worker holds it.
    """
    if isinstance(workspace.records, RemoteDatabase):
        on_server = _fenced_on_server()(workspace.records, lease)
        yield on_server
        await on_server.aflush()
        return
    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        in_file = _fenced()(path, lease)
        yield in_file
        await in_file.aflush()


@cache
def _fenced() -> Callable[[Path, Lease | None], _Leased]:
    """Return the class of savers, made on first use: LangGraph takes long to import."""
    from hive_agents.runs.checkpoint_tables import SqliteSaver

    class Fenced(_Leased, SqliteSaver):
        def __init__(self, path: Path, lease: Lease | None) -> None:
            super().__init__(None, serde=_serializer())  # type: ignore[arg-type]
            self._path = path
            self._begin_turns(lease)

        def _done(self, work: Callable[[], Any], *, writes: bool) -> Any:
            if writes and self._lease is not None:
                self._lease.check()
            with connected(self._path, opened=_opened) as self.conn:
                if not writes:
                    return work()
                with self.conn:
                    return work()

    return Fenced


@cache
def _fenced_on_server() -> Callable[[RemoteDatabase, Lease | None], _Leased]:
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
                # Only the lease's row is locked, so that checkpoints of different threads don't wait for each other.
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
    """A saver for a worker's coroutines and threads, with a connection for each operation.

    Operations are serialised: LangGraph's savers keep their connection in an attribute. `_due` are writes that are
    made with the next ones.
    """

    conn: Any

    def _begin_turns(self, lease: Lease | None) -> None:
        self._lease = lease
        self._turn, self._guard = asyncio.Lock(), threading.Lock()
        self._due: tuple[_DueWrite, ...] = ()

    def get_tuple(self, config: Any) -> Any:
        with self._guard:
            if any(due.place == _place(config) for due in self._due):
                self._write(self._due)
            return self._work(partial(super().get_tuple, config), writes=False)

    def list(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        listed = super().list
        with self._guard:
            self._write(self._due)
            return iter(self._work(lambda: [*listed(*args, **kwargs)], writes=False))

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place, id = _place(config), config["configurable"].get("checkpoint_id")
        work = partial(super().put, config, checkpoint, metadata, new_versions)
        with self._guard:
            # The writes that led to this checkpoint are in it.
            others = [due for due in self._due if (due.place, due.writes_of) != (place, id) or id is None]
            self._add((*others, _DueWrite(place, work)), at_once=not _is_repeated(place, checkpoint, metadata))
        return {"configurable": {"thread_id": place[0], "checkpoint_ns": place[1], "checkpoint_id": checkpoint["id"]}}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        due = _DueWrite(
            _place(config),
            partial(super().put_writes, config, writes, task_id, task_path),
            config["configurable"]["checkpoint_id"],
        )
        with self._guard:
            # An interrupt, its answer, and an error have no checkpoint that follows.
            self._add((*self._due, due), at_once=any(channel in _special() for channel, _ in writes))

    def delete_thread(self, thread_id: str) -> None:
        with self._guard:
            self._due = tuple(due for due in self._due if due.place[0] != thread_id)
            self._work(partial(super().delete_thread, thread_id), writes=True)

    def forget(self, *thread_ids: str) -> None:
        """Delete threads in one transaction."""
        delete = super().delete_thread
        with self._guard:
            self._work(lambda: [delete(thread_id) for thread_id in thread_ids], writes=True)

    async def aflush(self) -> None:
        """Write what is due."""
        await self._awaited(self._flush)

    def _flush(self) -> None:
        with self._guard:
            self._write(self._due)

    async def aget_tuple(self, config: Any) -> Any:
        return await self._awaited(partial(self.get_tuple, config))

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for checkpoint in await self._awaited(partial(self.list, *args, **kwargs)):
            yield checkpoint

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return await self._awaited(partial(self.put, *args, **kwargs))

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await self._awaited(partial(self.put_writes, *args, **kwargs))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._awaited(partial(self.delete_thread, thread_id))

    async def _awaited(self, work: Callable[[], Any]) -> Any:
        async with self._turn:
            return await briefly(work)

    def _add(self, due: tuple[_DueWrite, ...], *, at_once: bool) -> None:
        if at_once:
            self._write(due)
        else:
            self._due = due

    def _write(self, due: tuple[_DueWrite, ...]) -> None:
        """Write these in one transaction. After an error `_due` is as before, since the caller may repeat its call."""
        if due:
            self._work(lambda: [each.work() for each in due], writes=True)
            self._due = ()

    def _work(self, work: Callable[[], Any], *, writes: bool) -> Any:
        try:
            return self._done(work, writes=writes)
        finally:
            self.conn = None  # the connection is another operation's from now on

    def _done(self, work: Callable[[], Any], *, writes: bool) -> Any:
        """Return the result of `work` with `conn` set; `writes` need the lease."""
        raise NotImplementedError


class _DueWrite(NamedTuple):
    """A write to a (thread, namespace); `writes_of` is the checkpoint whose tasks made it, None for a checkpoint."""

    place: tuple[str, str]
    work: Callable[[], Any]
    writes_of: str | None = None


def _place(config: Any) -> tuple[str, str]:
    return str(config["configurable"]["thread_id"]), str(config["configurable"].get("checkpoint_ns", ""))


def _is_repeated(place: tuple[str, str], checkpoint: Any, metadata: Any) -> bool:
    """Return whether a step that is repeated from the checkpoint before makes this one without any work.

    Such are the first ones of a nested graph, the one after any graph's start, and a nested graph's last: its result is
    in its parent's next checkpoint.
    """
    _, namespace = place
    step = metadata.get("step", 1)
    goes_on = any(channel.startswith("branch:to:") for channel in checkpoint["channel_values"])
    return step == 0 or (namespace != "" and (step < 0 or not goes_on))


@cache
def _special() -> frozenset[str]:
    from langgraph.checkpoint.base import WRITES_IDX_MAP

    return frozenset(WRITES_IDX_MAP)


def _prepared(records: RecordsConnection) -> Any:
    """Return psycopg's connection, after making the tables of checkpoints where they are missing."""
    from langgraph.checkpoint.postgres import PostgresSaver

    connection = cast("postgres.PostgresConnection", records)
    if not connection.has_checkpoints and not _has_tables(connection):
        with connection.held("checkpoints"):
            PostgresSaver(connection.raw).setup()
    connection.has_checkpoints = True
    return connection.raw


def _has_tables(connection: postgres.PostgresConnection) -> bool:
    """Return whether the tables are up to date for this release of LangGraph, without a lock."""
    from langgraph.checkpoint.postgres import PostgresSaver

    if connection.execute("SELECT to_regclass('checkpoint_migrations')").fetchone()[0] is None:
        return False
    newest = connection.execute("SELECT max(v) FROM checkpoint_migrations").fetchone()[0]
    return newest is not None and int(newest) >= len(PostgresSaver.MIGRATIONS) - 1


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection to a file of checkpoints, with its tables."""
    from hive_agents.runs.checkpoint_tables import make_tables

    with database_errors(path):
        database.make_file(path, make_tables)
        connection = sqlite3.connect(path, timeout=database.BUSY_SECONDS, check_same_thread=False)
        try:
            path.chmod(0o600)
            connection.execute(f"PRAGMA synchronous = {database.synchronous(path)}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # counts only before the first table
            make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _set_aside_if_damaged(path: Path) -> Iterator[None]:
    """Rename a damaged file before raising its diagnostic, so that the next command makes a new one."""
    try:
        with database_errors(path):
            yield
    except Damaged as damage:
        if damage.diagnostics[0].file != f".hive/{path.name}":  # hive.db, whose damage is handled elsewhere
            raise
        stamp = f"damaged-{time.strftime('%Y%m%d-%H%M%S')}"
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(path.with_name(f"{path.name}{suffix}.{stamp}"))
        message = f"{damage.diagnostics[0].message}; it was set aside as .hive/{path.name}.{stamp}"
        fix = "run the command again: a run goes on from what else is recorded of it"
        raise HiveError.of("HIVE-407", message, file=f".hive/{path.name}", fix=fix) from damage


def _serializer() -> JsonPlusSerializer:
    """Return a serializer that builds only LangGraph's safe types from stored bytes: states are JSON.

    LANGGRAPH_STRICT_MSGPACK won't do: it is read when langgraph is imported, which may be earlier.
    """
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None)


def load_graph(name: str, checkpointer: Any = None) -> Any:
    """Return the compiled graph `name`, with a checkpointer if one is given.

    Raises: HIVE-411 where the package isn't installed with its entry points.
    """
    graph = _installed(name)
    return graph if checkpointer is None else graph.builder.compile(checkpointer=checkpointer)


@cache
def _installed(name: str) -> Any:
    try:
        (found,) = distribution("hive-agents").entry_points.select(group="hive_agents.graphs", name=name)
    except (PackageNotFoundError, ValueError):
        raise HiveError.of("HIVE-411", f'no graph "{name}" is installed', fix="install hive-agents with pip") from None
    return found.load()
