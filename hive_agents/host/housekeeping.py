"""Housekeeping of a workspace: prune old runs and events, process due requests, decide the canary."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.access import forget_expired
from hive_agents.agents import Effects
from hive_agents.approvals import ApprovalStore
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, disk_errors, read_bytes
from hive_agents.events import EventLog
from hive_agents.gate import decide_canary
from hive_agents.host.dispatcher import KINDS
from hive_agents.memory import AcceptedNotes, forget_queen, run_folder
from hive_agents.runs import RunStore, checkpointer, leases_of
from hive_agents.store import connected, transaction
from hive_agents.supervision.queen import ActionLog

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

DAY, MINUTE = 86_400.0, 60.0
STRIDE = dt.timedelta(days=2)
LIVE = ("queued", "running", "waiting")
_OLD = "SELECT run_id FROM runs WHERE ended_at < ? AND status IN ('done', 'failed', 'stopped') ORDER BY ended_at"
_log = logging.getLogger("hive_agents.host")


@dataclass(frozen=True)
class Pruned:
    """How many runs and events were deleted."""

    runs: int = 0
    events: int = 0


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
        for owner in (row.user, f"thread:{row.thread_id}"):
            notes = AcceptedNotes(workspace, tenant=row.tenant, agent_id=row.agent or row.graph, of=owner)
            if notes.path.exists():
                notes.remove(run_id=run_id)
        _delete_folder(run_folder(workspace, run_id))
        with checkpointer(workspace) as saver:
            saver.delete_thread(KINDS[row.graph].checkpoints(row) if row.graph in KINDS else row.thread_id)
        store.withdraw(run_id, f"run {run_id} was deleted")
        store.delete(run_id, also=Effects.forget)
    finally:
        lease.release()


def prune(workspace: Workspace, now: dt.datetime | None = None) -> Pruned:
    """Delete ended runs, events, and the queen's messages and actions older than `runs.retention_days`; 0 keeps all.

    Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
    """
    days = workspace.settings.runs.retention_days
    if not days or not workspace.records.exists():
        return Pruned()
    limit = (now or dt.datetime.now(dt.UTC)) - dt.timedelta(days=days)
    moment = limit.isoformat(timespec="milliseconds")
    with connected(workspace.records) as connection:
        old = [row[0] for row in connection.execute(_OLD, (moment,))]
    deleted = 0
    for run_id in old:
        with suppress(HiveError):  # it was resumed meanwhile
            delete_run(workspace, run_id)
            deleted += 1
    with connected(workspace.records) as connection, transaction(connection):
        forget_queen(connection, moment)
        ActionLog.forget(connection, moment)
    log = EventLog(workspace)
    try:
        return Pruned(deleted, log.prune(limit))
    finally:
        log.close()


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
            await asyncio.to_thread(decide_canary, workspace)
        if loop.time() >= due:
            now = await asyncio.to_thread(steady_now, workspace, dt.datetime.now(dt.UTC))
            pruned = await asyncio.to_thread(prune, workspace, now)
            due = loop.time() + DAY
            if pruned != Pruned():
                _log.info("pruned %d runs and %d events", pruned.runs, pruned.events)
            with suppress(HiveError):  # the next check of a token reports it
                await asyncio.to_thread(forget_expired, workspace, (now - STRIDE).timestamp())
        await asyncio.sleep(MINUTE)


def _delete_folder(folder: Path) -> None:
    with disk_errors(folder):
        if folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
