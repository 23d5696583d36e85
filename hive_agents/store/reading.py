"""The documents that agents' runs have read, from their ledger of effects."""

from __future__ import annotations

import json

from hive_agents.store.database import connected
from hive_agents.workspace import Workspace


def documents_read(workspace: Workspace, run_id: str) -> dict[str, frozenset[str]]:
    """Return the ids of the documents that a run's tool calls, or the notes that it began with, have shown it, by the
    key of these."""
    kinds = "kind IN ('tool', 'notes')"
    query = f"SELECT key, result FROM effects WHERE run_id = ? AND {kinds} AND result LIKE '%\"documents\": [%'"
    with connected(workspace.records) as connection:
        rows = connection.execute(query, (run_id,)).fetchall()
    return {
        key.removeprefix(f"{run_id}/"): frozenset(documents)
        for key, result in rows
        if isinstance(documents := json.loads(result).get("documents"), list)
    }
