"""LangGraph's checkpoints in `.hive/checkpoints.db`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from hive_agents.database import BUSY_SECONDS, database_errors
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


@contextmanager
def checkpointer(workspace: Workspace) -> Iterator[SqliteSaver]:
    """A saver that builds no type from stored bytes but those of the graphs' own state."""
    # LangGraph reads it when it is imported: unregistered types then stay plain data.
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = workspace.state / "checkpoints.db"
    with database_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            path.chmod(0o600)
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver
        finally:
            connection.close()


@asynccontextmanager
async def async_checkpointer(workspace: Workspace) -> AsyncIterator[AsyncSqliteSaver]:
    """The same for graphs whose nodes await."""
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    path = workspace.state / "checkpoints.db"
    with database_errors(path):
        async with aiosqlite.connect(path, timeout=BUSY_SECONDS) as connection:
            path.chmod(0o600)
            # As in hive.db: a killed process loses nothing, and a step needs no wait for the disk.
            await connection.execute("PRAGMA synchronous = NORMAL")
            saver = AsyncSqliteSaver(connection)
            await saver.setup()
            yield saver
