"""LangGraph's checkpoints in SQLite, in the tables of langgraph-checkpoint-sqlite: either reads the other's files.

That package would bring two more, for vectors and for a thread a connection, of which nothing is used here.
"""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL,
    channel TEXT NOT NULL, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables that are missing, and the column that those of earlier releases haven't got."""
    connection.executescript(_TABLES)
    if not any(name == "task_path" for _, name, *_ in connection.execute("PRAGMA table_info(writes)")):
        connection.execute("ALTER TABLE writes ADD COLUMN task_path TEXT NOT NULL DEFAULT ''")


class SqliteSaver(BaseCheckpointSaver[str]):
    """Reads and writes with `conn`, which has the tables; who calls it commits, and lets one thread in at a time."""

    def __init__(self, conn: sqlite3.Connection, *, serde: SerializerProtocol) -> None:
        super().__init__(serde=serde)
        self.conn = conn

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        of_one_namespace = {"checkpoint_ns": ""} | config["configurable"]
        # Not through `self.list`, which a subclass may guard by the lock that it holds by now.
        return next(SqliteSaver.list(self, {"configurable": of_one_namespace}, limit=1), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        asked = config["configurable"] if config is not None else {}
        conditions = [
            (f"{column} = ?", str(asked[column]))
            for column in ("thread_id", "checkpoint_ns", "checkpoint_id")
            if asked.get(column) is not None
        ]
        if before is not None:
            conditions.append(("checkpoint_id < ?", str(get_checkpoint_id(before))))
        where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
        columns = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
        rows = self.conn.execute(
            f"SELECT {columns} FROM checkpoints WHERE {where} ORDER BY checkpoint_id DESC",
            [value for _, value in conditions],
        )
        left = -1 if limit is None else limit
        for thread, namespace, id, parent, kind, checkpoint, stored in rows:
            if left == 0:
                return
            metadata: CheckpointMetadata = json.loads(stored) if stored is not None else {}
            if filter and any(metadata.get(key) != value for key, value in filter.items()):
                continue
            left -= 1
            place = {"thread_id": thread, "checkpoint_ns": namespace}
            yield CheckpointTuple(
                {"configurable": {**place, "checkpoint_id": id}},
                self.serde.loads_typed((kind, checkpoint)),
                metadata,
                {"configurable": {**place, "checkpoint_id": parent}} if parent else None,
                _writes(self, thread, namespace, id),
            )

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        asked = config["configurable"]
        place = {"thread_id": asked["thread_id"], "checkpoint_ns": asked.get("checkpoint_ns", "")}
        stored = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "ignore")
        id, parent = checkpoint["id"], asked.get("checkpoint_id")
        row = (str(place["thread_id"]), place["checkpoint_ns"], id, parent, *self.serde.dumps_typed(checkpoint), stored)
        self.conn.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return {"configurable": {**place, "checkpoint_id": id}}

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        asked = config["configurable"]
        place = tuple(str(asked[name]) for name in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        # Of a task that runs twice its first results count; an interrupt, its answer and an error are replaced.
        otherwise = "REPLACE" if all(channel in WRITES_IDX_MAP for channel, _ in writes) else "IGNORE"
        columns = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
        self.conn.executemany(
            f"INSERT OR {otherwise} INTO writes ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*place, task_id, task_path, WRITES_IDX_MAP.get(channel, n), channel, *self.serde.dumps_typed(value))
                for n, (channel, value) in enumerate(writes)
            ],
        )

    def delete_thread(self, thread_id: str) -> None:
        self.conn.execute("DELETE FROM checkpoints WHERE thread_id = ?", (str(thread_id),))
        self.conn.execute("DELETE FROM writes WHERE thread_id = ?", (str(thread_id),))

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Return a version that sorts after `current` as text; two that follow the same one differ."""
        before = current if isinstance(current, int) else int((current or "0").partition(".")[0])
        return f"{before + 1:032}.{random.random():016}"


def _writes(saver: SqliteSaver, *checkpoint: str) -> list[tuple[str, str, Any]]:
    rows = saver.conn.execute(
        "SELECT task_id, channel, type, value, task_path, idx FROM writes"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        checkpoint,
    )
    in_order = sorted(rows, key=lambda row: writes_sort_key(row[4], row[0], row[5]))
    return [(task, channel, saver.serde.loads_typed((kind, value))) for task, channel, kind, value, _, _ in in_order]
