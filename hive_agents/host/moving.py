"""Moving a workspace's records: from its own file to a server that hosts share, or back.

Other writers wait. The target is marked as half moved until it was compared with the source, so that a move that was
killed can be continued. Changing the settings is left to the caller.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, count, sha256
from hive_agents.runs import Leases, at_work, checkpointer
from hive_agents.store import (
    RecordsConnection,
    audit,
    connected,
    copying,
    database,
    exclusive,
    left_behind,
    moved,
    moved_to,
    own_schema,
    sealing,
    transaction,
)
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.store import Progress

MARK = "records_half_moved"
"""The table that marks a target as half moved, and names the source."""
GONE_SECONDS = 3.0
"""Seconds within which a server notices that a client has ended."""
_REST = "stop `hive serve` and whatever else works on runs, on every host, then run the command again"
_CHECKPOINTS = "checkpoints"
_WRITES = {True: ("checkpoint_writes", "blob", "%s"), False: ("writes", "value", "?")}
"""By whether it is a server: the table of LangGraph's writes, its column of values, and the placeholder of queries."""


@dataclass(frozen=True)
class MovedPart:
    """The equal content of both places: a table, `checkpoints` (`count` is of threads) or `audit`."""

    name: str
    count: int
    sha256: str


@dataclass(frozen=True)
class RecordsMove:
    """The result of a move; `copied` is False where everything was there already."""

    source: str
    target: str
    parts: tuple[MovedPart, ...]
    copied: bool


def where(workspace: Workspace, place: Path | RemoteDatabase | None = None) -> str:
    """Return where records are, in words without a secret; by default those of the workspace."""
    place = place or workspace.records
    return place.name if isinstance(place, RemoteDatabase) else workspace.relative(place)


def record_counts(workspace: Workspace) -> dict[str, int]:
    """Return the numbers of rows of each table, of threads with checkpoints, and of lines of the audit log."""
    with connected(workspace.records) as connection:
        counts = {table.name: table.count(connection) for table in copying.record_tables()}
    with checkpointer(workspace) as saver:
        counts[_CHECKPOINTS] = len(_threads(saver))
    return counts | {"audit": audit.lines_beside(workspace, workspace.records).count(b"\n")}


def move_records(
    workspace: Workspace, target: Path | RemoteDatabase, *, replacing: bool = False, progress: Progress
) -> RecordsMove:
    """Copy all records to another place, compare both, and seal the old one; the settings still name the old one.

    With `replacing`, other records at the target are deleted, but never another audit log.

    Raises: HIVE-402 where living workers hold runs, HIVE-407 for records that a server can't store or whose copy
    differs, and for a schema that others may change, HIVE-409 where the target holds these records already, or others,
    HIVE-413 for another or a broken audit log.
    """
    if isinstance(target, RemoteDatabase):
        target = replace(target, is_target=True)
    source = workspace.records
    if own_schema.is_same_place(source, target):
        # The settings may have named it before the move.
        if not (isinstance(target, RemoteDatabase) and left_behind(workspace.root) and is_empty(target)):
            name = where(workspace)
            fix = "name another place; for another address of this one, run `hive storage setup URL`"
            raise HiveError.of("HIVE-409", f"the records are in {name} already", file=name, fix=fix)
        workspace = _without_server(workspace)
        source = workspace.records
    other = Workspace(workspace.root)
    other.__dict__["records"] = target
    servers = [place for place in (source, target) if isinstance(place, RemoteDatabase)]
    for server in servers:
        own_schema.require_own_schema(server)
    with (
        _answers(),
        exclusive(workspace, "moving the records"),
        connected(source) as here,
        transaction(here, long=True),
    ):
        copying.require_own_objects(here)
        _require_rest(workspace, here)
        copying.require_references(here)
        with audit.held(workspace) as lines, connected(target) as there:
            _require_alone(there)
            for server in servers:  # again, since connecting may have made one
                own_schema.require_own_schema(server)
            copying.require_own_objects(there)
            _require_unbroken(workspace)
            places = _Places(workspace, other, here, there, lines)
            marked = _marked(there)
            parts = places.compared() if marked is None else None
            if parts is None:
                if marked != places.identity and not replacing and (marked or places.is_used()):
                    raise _occupied(workspace, target)
                if (gone := moved_to(here)) is not None:
                    raise moved(gone, where(workspace))  # older records would replace newer ones
                with transaction(there):
                    sealing.unseal(workspace, there)
                _mark(there, places.identity)
                places.copy(progress)
                parts = places.compared()
            if parts is None:
                message = "the copy differs from the records it was made from"
                fix = "run the command again: it goes on from what is equal"
                raise HiveError.of("HIVE-407", message, file=where(workspace, target), fix=fix)
            copied = _marked(there) is not None
            with transaction(there):
                sealing.unseal(workspace, there)
                there.execute(f"DROP TABLE IF EXISTS {MARK}")
            sealing.seal(workspace, here, where(workspace, target))
    return RecordsMove(where(workspace), where(workspace, target), tuple(parts), copied)


@contextmanager
def _answers() -> Iterator[None]:
    """Raise HIVE-407 for answers that make no sense, which a server other than PostgreSQL may give."""
    try:
        yield
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise copying.wrong_answers(f"the records ({error})") from error


def is_empty(place: RemoteDatabase) -> bool:
    """Return whether a server holds no records yet; its schema is made if needed."""
    own_schema.require_own_schema(place)
    with connected(replace(place, is_target=True)) as connection:
        lines = connection.execute("SELECT 1 FROM audit_lines LIMIT 1").fetchone()
        return lines is None and not any(table.count(connection) for table in copying.record_tables())


def set_up_records(workspace: Workspace, target: RemoteDatabase, *, progress: Progress) -> RecordsMove | None:
    """Move the records to a server that has none; return None where this host shares those that are there.

    The settings are left to the caller. Raises: as `move_records`, HIVE-409 where both places hold records.
    """
    source = workspace.records
    same = own_schema.is_same_place(source, target)
    if is_empty(target):
        begun = not same or left_behind(workspace.root)
        return move_records(workspace, target, progress=progress) if begun else None
    elsewhere = isinstance(source, RemoteDatabase) and not same
    if elsewhere or (left_behind(workspace.root) and not _is_known(workspace, target)):
        return move_records(_without_server(workspace) if same else workspace, target, progress=progress)
    return None


def _is_known(workspace: Workspace, target: RemoteDatabase) -> bool:
    """Return whether what is here is only a copy of a file, of the first lines of the server's audit log."""
    here = audit.lines_beside(workspace, workspace.database)
    only_lines = not left_behind(workspace.root, log=False)
    return only_lines and audit.lines_beside(workspace, target).startswith(here)


def _without_server(workspace: Workspace) -> Workspace:
    """Return the workspace as it is without a url under [storage]."""
    found, settings = Workspace(workspace.root), workspace.settings
    storage = settings.storage.model_copy(update={"url": ""})
    found.__dict__["settings"] = settings.model_copy(update={"storage": storage})
    return found


def reopen_records(workspace: Workspace) -> None:
    """Allow writes again to the records that the settings name, though they were moved to another place."""
    with exclusive(workspace, "reopening the records"), connected(workspace.records) as here, transaction(here):
        sealing.unseal(workspace, here)


def _require_rest(workspace: Workspace, connection: RecordsConnection) -> None:
    if others := at_work(workspace, others=True):
        shown = ", ".join(f"process {one.pid or 'unknown'}" for one in others)
        message = f"somebody works in the workspace: {count(len(others), 'living host')} on this machine ({shown})"
        raise HiveError.of("HIVE-402", message, fix=_REST)
    _require_alone(connection)
    held = sorted(Leases(workspace).held())
    if held:
        message = f"living workers hold {len(held)} threads: {', '.join(held[:3])}{' …' if len(held) > 3 else ''}"
        raise HiveError.of("HIVE-402", message, fix=_REST)


def _require_alone(connection: RecordsConnection) -> None:
    """Raise HIVE-402 where other hosts, on whichever machine, have a server's records open."""
    until = time.monotonic() + GONE_SECONDS
    while others := database.others_connected(connection):
        if time.monotonic() > until:
            message = f"other hosts have the records open: {', '.join(others[:8])}{' …' if len(others) > 8 else ''}"
            raise HiveError.of("HIVE-402", message, fix=_REST)
        time.sleep(0.1)  # a process that has just ended is a client for a moment


def _require_unbroken(workspace: Workspace) -> None:
    """Raise HIVE-413 for a broken audit log."""
    verdict = audit.verify(workspace)
    if not verdict.ok:
        raise audit.broken(verdict)


def _occupied(workspace: Workspace, target: Path | RemoteDatabase) -> HiveError:
    fix = "name a database, or set another [storage] namespace, without records; or let them go with --replace"
    message = f"{where(workspace, target)} holds other records"
    return HiveError.of("HIVE-409", message, file=where(workspace, target), fix=fix)


def _marked(connection: RecordsConnection) -> str | None:
    """Return the source of half-moved records; None without any."""
    if isinstance(connection, sqlite3.Connection):
        table = connection.execute("SELECT name FROM sqlite_master WHERE name = ?", (MARK,)).fetchone()
    else:
        table = connection.execute("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (MARK,)).fetchone()
    if table is None:
        return None
    row = connection.execute(f"SELECT source FROM {MARK}").fetchone()
    return str(row[0]) if row else ""


def _mark(connection: RecordsConnection, source: str) -> None:
    with transaction(connection):
        connection.execute(f"CREATE TABLE IF NOT EXISTS {MARK} (source TEXT NOT NULL)")
        connection.execute(f"DELETE FROM {MARK}")
        connection.execute(f"INSERT INTO {MARK} VALUES (?)", (source,))


@dataclass(frozen=True)
class _Places:
    """Source and target of a move, while nobody else writes to the source."""

    workspace: Workspace
    other: Workspace
    here: RecordsConnection
    there: RecordsConnection
    lines: bytes

    @property
    def identity(self) -> str:
        """Identifies the source in the target's mark."""
        place = self.workspace.records
        return sha256(f"{place.url} {place.schema}" if isinstance(place, RemoteDatabase) else str(place))

    def is_used(self) -> bool:
        """Return whether the target holds any record."""
        if any(table.count(self.there) for table in copying.record_tables()):
            return True
        with checkpointer(self.other) as saver:
            return bool(_threads(saver))

    def compared(self) -> list[MovedPart] | None:
        """Return the content of both places; None where they differ."""
        parts = []
        for table in copying.record_tables():
            count, digest = table.count(self.here), table.digest(self.here)
            if (count, digest) != (table.count(self.there), table.digest(self.there)):
                return None
            parts.append(MovedPart(table.name, count, digest))
        if audit.lines_beside(self.other, self.other.records) != self.lines:
            return None
        with checkpointer(self.workspace) as source, checkpointer(self.other) as target:
            threads = _threads(source)
            if threads != _threads(target):
                return None
            whole = hashlib.sha256()
            for thread in threads:
                digest = _thread(source, thread).digest
                if digest != _thread(target, thread).digest:
                    return None
                whole.update(digest.encode())
        parts.append(MovedPart(_CHECKPOINTS, len(threads), whole.hexdigest()))
        return [*parts, MovedPart("audit", self.lines.count(b"\n"), hashlib.sha256(self.lines).hexdigest())]

    def copy(self, progress: Progress) -> None:
        audit.copy_beside(self.other, self.other.records, self.lines)
        if not all(table.is_begun(self.here, self.there) for table in copying.record_tables()):
            copying.clear_records(self.there)
        for table in copying.record_tables():
            table.copy(self.here, self.there, progress)
        with checkpointer(self.workspace) as source, checkpointer(self.other) as target:
            threads = _threads(source)
            for thread in set(_threads(target)) - set(threads):
                target.delete_thread(thread)
            for n, thread in enumerate(threads, start=1):
                content = _thread(source, thread)
                if content.digest != _thread(target, thread).digest:
                    _put(target, thread, content)
                progress(_CHECKPOINTS, n, len(threads))


@dataclass(frozen=True)
class _Thread:
    """The checkpoints of a thread, oldest first, and the rows of their pending writes."""

    checkpoints: tuple[Any, ...]
    writes: tuple[tuple[Any, ...], ...]

    @property
    def digest(self) -> str:
        digest = hashlib.sha256()
        for one in self.checkpoints:
            parent = (one.parent_config or {}).get("configurable", {}).get("checkpoint_id")
            ids = one.config["configurable"]["checkpoint_ns"], one.config["configurable"]["checkpoint_id"], parent
            content = json.dumps([ids, one.checkpoint, one.metadata], sort_keys=True, default=repr)
            digest.update(content.encode("utf-8", "surrogatepass") + b"\n")
        for row in self.writes:
            digest.update(repr([bytes(value) if isinstance(value, memoryview) else value for value in row]).encode())
        return digest.hexdigest()


def _writes(saver: Any) -> tuple[str, str, str]:
    return _WRITES[not isinstance(saver.conn, sqlite3.Connection)]


def _threads(saver: Any) -> list[str]:
    table, _, _ = _writes(saver)
    query = f"SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM {table}"
    return sorted(row[0] for row in saver.conn.execute(query).fetchall())


def _thread(saver: Any, thread: str) -> _Thread:
    table, value, placeholder = _writes(saver)
    # Sorted here: a server would sort by the rules of its locale.
    columns = f"checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, {value}"
    query = f"SELECT {columns} FROM {table} WHERE thread_id = {placeholder}"
    rows = sorted(map(tuple, saver.conn.execute(query, (thread,)).fetchall()), key=lambda row: row[:4])
    checkpoints = sorted(
        saver.list({"configurable": {"thread_id": thread}}),
        key=lambda one: (one.config["configurable"]["checkpoint_ns"], one.config["configurable"]["checkpoint_id"]),
    )
    return _Thread(tuple(checkpoints), tuple(rows))


def _put(saver: Any, thread: str, content: _Thread) -> None:
    saver.delete_thread(thread)
    for one in content.checkpoints:
        namespace = one.config["configurable"]["checkpoint_ns"]
        start = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
        saver.put(one.parent_config or start, one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
    table, value, placeholder = _writes(saver)
    columns = f"thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, {value}"
    insert = f"INSERT INTO {table} ({columns}) VALUES ({', '.join([placeholder] * 9)})"
    for row in content.writes:
        saver.conn.execute(insert, (thread, *row))
    saver.conn.commit()
