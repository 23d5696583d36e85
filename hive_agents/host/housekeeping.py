"""Housekeeping of a workspace: prune old runs and events, process due requests, decide the canary."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.access import proofs
from hive_agents.agents import Effects
from hive_agents.approvals import ApprovalStore
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, disk_errors, read_bytes
from hive_agents.copilot import forget_unused_files
from hive_agents.events import EventLog
from hive_agents.gate import canary
from hive_agents.host.dispatcher import KINDS, kind_of
from hive_agents.judging import DecisionLog
from hive_agents.memory import AcceptedNotes, conversation, run_folder
from hive_agents.runs import RunRow, RunStore, checkpoints, leases_of
from hive_agents.store import connected, database, transaction
from hive_agents.supervision.queen import ActionLog

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

DAY, MINUTE = 86_400.0, 60.0
STRIDE = dt.timedelta(days=2)
LIVE = ("queued", "running", "waiting")
AT_ONCE = 50
"""Runs that are deleted in one transaction, for which other writers wait."""
_OLD = "SELECT run_id FROM runs WHERE ended_at < ? AND status IN ('done', 'failed', 'stopped') ORDER BY ended_at"
_log = logging.getLogger("hive_agents.host")


@dataclass(frozen=True)
class Pruned:
    """How many runs, events and decisions of judges were deleted."""

    runs: int = 0
    events: int = 0
    decisions: int = 0


def delete_run(workspace: Workspace, run_id: str) -> None:
    """Delete a run: its folder, checkpoints, conversations and row; its requests are withdrawn, its events stay.

    The row is deleted last, so that the deletion can be repeated if the process is killed.

    Raises: HIVE-409 (exit code 2) for a run that is unknown, queued, running or waiting, or that somebody works on;
    HIVE-114 where its folder, or the one of all runs, is a link.
    """
    store = RunStore(workspace)
    row = store.get(run_id)
    lease = leases_of(workspace).acquire(row.thread_id, run_id)
    status = store.get(run_id).status
    if lease is None or status in LIVE:
        if lease is not None:
            lease.release()
        message, fix = f"run {run_id} is {status}", f"stop it first: hive runs stop {run_id}"
        if status not in LIVE:
            message, fix = f"run {run_id} is {status}, but its thread is being worked on", "try again in a moment"
        raise HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
    try:
        _delete_files(workspace, row)
        _delete_records(workspace, [row])
    finally:
        lease.release()


def prune(workspace: Workspace, now: dt.datetime | None = None) -> Pruned:
    """Delete ended runs, events, the queen's messages and actions, and files of unused conversations older than
    `runs.retention_days`, and decisions older than `judge.retention_days` that are no evidence; 0 keeps all. Give back
    what the databases don't need any more.

    Each transaction is short, so that runs and requests go on meanwhile.

    Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
    """
    if not workspace.records.exists():
        return Pruned()
    now, settings = now or dt.datetime.now(dt.UTC), workspace.settings
    runs = events = decisions = 0
    if days := settings.runs.retention_days:
        limit = now - dt.timedelta(days=days)
        moment = limit.isoformat(timespec="milliseconds")
        runs = _prune_runs(workspace, moment)
        with connected(workspace.records) as connection, transaction(connection):
            conversation.forget_queen(connection, moment)
            ActionLog.forget(connection, moment)
            forget_unused_files(connection, moment)
        log = EventLog(workspace)
        try:
            events = log.prune(limit)
        finally:
            log.close()
    if days := settings.judge.retention_days:
        decisions = DecisionLog(workspace).prune(now - dt.timedelta(days=days))
    for file in (workspace.database, workspace.state / "checkpoints.db"):
        database.give_back(file)
    return Pruned(runs, events, decisions)


def _prune_runs(workspace: Workspace, before: str) -> int:
    """Delete the runs that ended before a moment, `AT_ONCE` at a time; return their number."""
    store, leases, deleted = RunStore(workspace), leases_of(workspace), 0
    with connected(workspace.records) as connection:
        old = [row[0] for row in connection.execute(_OLD, (before,))]
    for start in range(0, len(old), AT_ONCE):
        rows = store.of(*old[start : start + AT_ONCE])
        held = leases.acquire_each([*{row.thread_id: row.run_id for row in rows}.items()])
        try:
            free, gone = {lease.thread_id for lease in held}, []
            for row in store.of(*(row.run_id for row in rows)):
                if row.thread_id in free and row.status not in LIVE:  # it may have been resumed meanwhile
                    with suppress(HiveError):  # a link is in its folder's place
                        _delete_files(workspace, row)
                        gone.append(row)
            _delete_records(workspace, gone)
            deleted += len(gone)
        finally:
            for lease in held:
                lease.release()
    return deleted


def _delete_files(workspace: Workspace, row: RunRow) -> None:
    for owner in (row.user, f"thread:{row.thread_id}"):
        notes = AcceptedNotes(workspace, tenant=row.tenant, agent_id=row.agent or row.graph, of=owner)
        if notes.path.exists():
            notes.remove(run_id=row.run_id)
    _delete_folder(run_folder(workspace, row.run_id))


def _delete_records(workspace: Workspace, rows: Sequence[RunRow]) -> None:
    """Delete what the databases have of runs whose threads are held; their rows go last, in one transaction."""
    threads = (kind_of(one.graph).checkpoints(one) if one.graph in KINDS else one.thread_id for one in rows)
    checkpoints.forget_threads(workspace, *threads)
    store, ids = RunStore(workspace), [row.run_id for row in rows]
    store.withdraw(*ids, why="its run was deleted")
    store.delete(*ids, also=Effects.forget)


def steady_now(workspace: Workspace, wall: dt.datetime) -> dt.datetime:
    """Return the time for deletions by age: the wall clock's, but at most `STRIDE` after that of the last call.

    The first call goes by the newest event. So a clock that is wrong for a while deletes nothing too early, and after a
    long pause pruning catches up gradually.
    """
    path = workspace.state / "house.time"
    try:
        last = dt.datetime.fromisoformat(read_bytes(path).decode("ascii"))
    except (OSError, ValueError):
        last = _newest(workspace) or wall
    now = min(wall, last + STRIDE)
    atomic_write(path, now.isoformat().encode(), mode=0o600)
    return now


def _newest(workspace: Workspace) -> dt.datetime | None:
    if not workspace.records.exists():
        return None
    with connected(workspace.records) as connection:
        (at,) = connection.execute("SELECT max(time) FROM events").fetchone()
    return None if at is None else dt.datetime.fromisoformat(at).astimezone(dt.UTC)


async def keep_house(workspace: Workspace) -> None:
    """Until cancelled, remind of requests, expire due ones and decide the canary each minute; prune each day."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await asyncio.to_thread(ApprovalStore(workspace).sweep)
        with suppress(HiveError):  # the next search reports it
            await asyncio.to_thread(canary.decide_canary, workspace)
        if loop.time() >= due:
            now = await asyncio.to_thread(steady_now, workspace, dt.datetime.now(dt.UTC))
            pruned = await asyncio.to_thread(prune, workspace, now)
            due = loop.time() + DAY
            if pruned != Pruned():
                _log.info("pruned %d runs, %d events, %d decisions", pruned.runs, pruned.events, pruned.decisions)
            with suppress(HiveError):  # the next check of a token reports it
                await asyncio.to_thread(proofs.forget_expired, workspace, (now - STRIDE).timestamp())
        await asyncio.sleep(MINUTE)


def _delete_folder(folder: Path) -> None:
    with disk_errors(folder):
        if folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
