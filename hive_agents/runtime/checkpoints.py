"""LangGraph's checkpoints in `.hive/checkpoints.db`, written by whoever holds the thread's lease.

A lease is asked just before a write, for it is in another database: a worker that lost it in that instant may leave a
checkpoint, and what it leads to is refused by the ledger.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.errors import Damaged, HiveError
from hive_agents.files import unlinked
from hive_agents.runs import Lease
from hive_agents.store import BUSY_SECONDS, database_errors
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@contextmanager
def checkpointer(workspace: Workspace) -> Iterator[SqliteSaver]:
    """A saver whose stored bytes are plain data, whoever wrote them; for looking at threads that nobody works on."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            path.chmod(0o600)
            saver = SqliteSaver(connection, serde=_serializer())
            saver.setup()
            yield saver
        finally:
            connection.close()


@asynccontextmanager
async def async_checkpointer(workspace: Workspace, lease: Lease | None = None) -> AsyncIterator[AsyncSqliteSaver]:
    """The same for a worker on a thread.

    With a lease its writes raise LeaseLost (HIVE-425) as soon as another worker has it.
    """
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    class Fenced(AsyncSqliteSaver):
        async def aput(self, *what: Any, **named: Any) -> Any:
            _require(lease)
            return await super().aput(*what, **named)

        async def aput_writes(self, *what: Any, **named: Any) -> None:
            _require(lease)
            await super().aput_writes(*what, **named)

    path = unlinked(workspace.state / "checkpoints.db")
    with _set_aside_if_damaged(path):
        async with aiosqlite.connect(path, timeout=BUSY_SECONDS) as connection:
            path.chmod(0o600)
            # As in hive.db: a killed process loses nothing, and a step needs no wait for the disk.
            await connection.execute("PRAGMA synchronous = NORMAL")
            saver = Fenced(connection, serde=_serializer())
            await saver.setup()
            yield saver


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


def _require(lease: Lease | None) -> None:
    if lease is not None:
        lease.check()
