"""Runs of the optimizer: in this process with a small budget, as a command, and what they left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.optimizer.run import OptimizeRun
from hive_agents.ranking import build_index
from hive_agents.store.database import connect
from tests.topics import activate, make_topics, write_golden

OPTIMIZE = [sys.executable, "-m", "hive_agents", "optimize"]
QUICK: dict[str, Any] = {"iterations": 2, "seconds": 3_600.0}


def run(workspace: Workspace, *, deploy: bool = True, **settings: Any) -> dict[str, Any]:
    return OptimizeRun.start(workspace, golden=None, deploy=deploy, settings=QUICK | settings).go()


def small(root: Path, queries: list[dict[str, Any]] | None = None) -> Workspace:
    """A workspace whose runs take a second: `naive` is active, and what would be better isn't written yet."""
    workspace = make_topics(root)
    (workspace.configs / "careful.json").unlink()
    write_golden(workspace, queries)
    activate(workspace, "naive")
    build_index(workspace)
    return workspace


def holdout_ids(workspace: Workspace) -> set[str]:
    golden = json.loads((workspace.root / "evals" / "golden.json").read_text())
    return {query["id"] for query in golden["queries"] if query["split"] == "holdout"}


def started_runs(workspace: Workspace) -> list[str]:
    connection = connect(workspace.database)
    try:
        return [row[0] for row in connection.execute("SELECT run_id FROM runs")]
    finally:
        connection.close()
