"""The steps of an agent's run, as recorded: turns of a model, calls of tools, judgements, and what each took."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_SHOWN = {"model": "model", "tool": "tool", "synthetic": "tool", "judge": "judge"}
"""What a recorded effect is to somebody who looks at the run; the others are bookkeeping."""


@dataclass(frozen=True)
class RunStep:
    """A step. `step` is also that of the messages that it made; `seconds` is its work, without waiting for people;
    `started_at` is to the second. `ok` is None while it is under way, and of one that was cut off."""

    step: str
    node: str | None
    kind: str
    name: str
    ok: bool | None
    attempts: int
    tokens: int
    usd: float
    seconds: float
    started_at: str


def steps_of(workspace: Workspace, run_id: str) -> list[RunStep]:
    """Return the steps of a run in the order in which they began."""
    query = (
        "SELECT substr(key, ?), node_id, kind, name, status, attempts, tokens, usd, seconds, started_at, result"
        " FROM effects WHERE run_id = ? ORDER BY rowid"
    )
    with connected(workspace.records) as connection:
        rows = connection.execute(query, (len(run_id) + 2, run_id)).fetchall()
    return [
        RunStep(key.removesuffix("/model"), node, _SHOWN[kind], name, _ok(status, result), *taken)
        for key, node, kind, name, status, *taken, result in rows
        if kind in _SHOWN and (node is not None or kind == "judge")
    ]


def _ok(status: str, result: str | None) -> bool | None:
    if status != "done":
        return None
    found = json.loads(result) if result else None
    return not (isinstance(found, dict) and found.get("is_error"))
