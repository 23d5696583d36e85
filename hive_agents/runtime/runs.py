"""The runs table: a run is written down before its graph starts, so that whatever dies, it can be resumed."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_agents import audit
from hive_agents.database import connected
from hive_agents.errors import HiveError
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.access import Principal


@dataclass(frozen=True)
class Run:
    run_id: str
    thread_id: str
    graph: str
    input: dict[str, Any]
    status: str
    result: dict[str, Any] | None


def start_run(
    workspace: Workspace,
    graph: str,
    value: dict[str, Any],
    thread_id: str | None = None,
    owner: Principal | None = None,
) -> Run:
    """Write a run down, with a thread of its own unless it goes on with one; without an owner it is the workspace's."""
    run_id = f"r{uuid.uuid4().hex[:10]}"
    run = Run(run_id, thread_id or f"{graph}:{run_id}", graph, value, "running", None)
    tenant, user = (owner.tenant, owner.user) if owner is not None else ("local", "local")
    with connected(workspace.database) as connection:
        connection.execute(
            "INSERT INTO runs (run_id, thread_id, graph, input, status, started_at, tenant, user)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, run.thread_id, graph, json.dumps(value), run.status, audit.now(), tenant, user),
        )
    return run


def find_run(workspace: Workspace, run_id: str, graph: str) -> Run:
    """Raises: HIVE-409 for a run that doesn't exist."""
    if workspace.database.exists():
        with connected(workspace.database) as connection:
            row = connection.execute(
                "SELECT run_id, thread_id, graph, input, status, result FROM runs WHERE run_id = ? AND graph = ?",
                (run_id, graph),
            ).fetchone()
            known = [r[0] for r in connection.execute("SELECT run_id FROM runs WHERE graph = ?", (graph,))]
        if row is not None:
            return Run(row[0], row[1], row[2], json.loads(row[3]), row[4], json.loads(row[5]) if row[5] else None)
    else:
        known = []
    fix = f"runs that can be resumed: {', '.join(known[-5:])}" if known else "there are no runs yet"
    raise HiveError.of("HIVE-409", f"there is no {graph} run {run_id}", fix=fix)


def end_run(workspace: Workspace, run_id: str, status: str, result: dict[str, Any] | None) -> None:
    """Record how a run stands; a run that was stopped, waits or is still running can be resumed."""
    ended_at = None if status == "waiting" else audit.now()
    with connected(workspace.database) as connection:
        connection.execute(
            "UPDATE runs SET status = ?, ended_at = ?, result = ? WHERE run_id = ?",
            (status, ended_at, json.dumps(result) if result is not None else None, run_id),
        )
