"""What a workspace that runs for months needs: old runs and events go, requests that are due are dealt with."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.approvals import ApprovalStore
from hive_agents.database import connected
from hive_agents.errors import HiveError
from hive_agents.events import EventLog
from hive_agents.files import disk_errors
from hive_agents.runs import AGENT_GRAPH, RunStore
from hive_agents.runtime.agent_run import leases_of
from hive_agents.runtime.checkpoints import checkpointer

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

DAY, MINUTE = 86_400.0, 60.0
LIVE = ("queued", "running", "waiting")
_OLD = "SELECT run_id FROM runs WHERE ended_at < ? AND status IN ('done', 'failed', 'stopped') ORDER BY ended_at"
_log = logging.getLogger("hive_agents.host")


@dataclass(frozen=True)
class Pruned:
    """How many went."""

    runs: int = 0
    events: int = 0


def delete_run(workspace: Workspace, run_id: str) -> None:
    """Forget a run: its folder, its checkpoints, its conversations and its row. The event log keeps what it was told.

    Killed in between, it is done again: the row goes last.
    Raises: HIVE-409 (exit code 2) for a run that is unknown or not over, or that somebody works on.
    """
    store = RunStore(workspace)
    row = store.get(run_id)
    lease = leases_of(workspace).acquire(row.thread_id, run_id)
    status = store.get(run_id).status
    if lease is None or status in LIVE:
        if lease is not None:
            lease.release()
        told = f"run {run_id} is {status}" if status in LIVE else f"run {run_id} is being worked on"
        raise HiveError.of("HIVE-409", told, fix=f"stop it first: hive runs stop {run_id}", exit_code=2)
    try:
        _delete_folder(workspace, run_id)
        with checkpointer(workspace) as saver:
            saver.delete_thread(run_id if row.graph == AGENT_GRAPH else row.thread_id)
        store.delete(run_id)
    finally:
        lease.release()


def prune(workspace: Workspace, now: dt.datetime | None = None) -> Pruned:
    """Forget the runs that ended, and the events that happened, `runs.retention_days` ago; 0 keeps all.

    Raises: HIVE-402, HIVE-403, HIVE-407 when the database fails.
    """
    days = workspace.settings.runs.retention_days
    if not days or not workspace.database.exists():
        return Pruned()
    limit = (now or dt.datetime.now(dt.UTC)) - dt.timedelta(days=days)
    with connected(workspace.database) as connection:
        old = [row[0] for row in connection.execute(_OLD, (limit.isoformat(timespec="milliseconds"),))]
    gone = 0
    for run_id in old:
        with suppress(HiveError):  # somebody goes on with it just now
            delete_run(workspace, run_id)
            gone += 1
    log = EventLog(workspace)
    try:
        return Pruned(gone, log.prune(limit))
    finally:
        log.close()


async def keep_house(workspace: Workspace) -> None:
    """Prune once a day, and each minute remind of requests and let those expire that are due."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        await asyncio.to_thread(ApprovalStore(workspace).sweep)
        if loop.time() >= due:
            pruned = await asyncio.to_thread(prune, workspace)
            due = loop.time() + DAY
            if pruned != Pruned():
                _log.info("pruned %d runs and %d events", pruned.runs, pruned.events)
        await asyncio.sleep(MINUTE)


def _delete_folder(workspace: Workspace, run_id: str) -> None:
    """A link in the folder's place goes, and nothing behind it."""
    runs = workspace.state / "runs"
    folder = runs / run_id
    if folder.parent != runs or folder.name in ("", ".", ".."):
        return
    with disk_errors(folder):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
