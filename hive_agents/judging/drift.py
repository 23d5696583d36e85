"""Drift: does the judge still agree with people as its certificate says?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from hive_agents.goals import goal_type_of
from hive_agents.judging.decisions import STRONGER
from hive_agents.judging.sequential import AVERAGE_RUN, DriftDetector
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DriftState:
    """`alarmed` stays until the type is calibrated again; `new` only for the audit that set it off."""

    goal_type: str
    e_value: float
    alarmed_at: str | None
    new: bool = False

    @property
    def alarmed(self) -> bool:
        return self.alarmed_at is not None


def observe(workspace: Workspace, goal_type: str, agrees: bool) -> DriftState:
    """Enter one blind audit of an automatic decision; the caller opens a ticket when `new` is set.

    A disagreement under an alarm supersedes the thresholds that wait for approval: they were calibrated without it.
    """
    name, stronger, _ = goal_type.partition(STRONGER)
    goal_type, settings = goal_type_of(name) + stronger, workspace.settings.judge
    with connected(workspace.records) as connection:
        with transaction(connection):
            row = connection.execute(
                "SELECT numbers, alarmed_at FROM drift WHERE goal_type = ?", (goal_type,)
            ).fetchone()
            numbers, alarmed_at = row if row is not None else ("[]", None)
            detector = DriftDetector(settings.alpha, settings.average_run or AVERAGE_RUN, numbers=_read(numbers))
            value = detector.observe(not agrees)
            new = alarmed_at is None and detector.alarmed
            alarmed_at = audit.now() if new else alarmed_at
            connection.execute(
                "INSERT INTO drift (goal_type, e_value, alarmed_at, numbers) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (goal_type) DO UPDATE SET e_value = excluded.e_value,"
                " alarmed_at = excluded.alarmed_at, numbers = excluded.numbers",
                (goal_type, value, alarmed_at, json.dumps(detector.numbers)),
            )
            if alarmed_at is not None and not agrees:
                connection.execute("UPDATE calibrations SET status = 'superseded' WHERE status = 'awaiting_approval'")
    if new:
        audit.append(workspace, "judge.drift", goal_type=goal_type, e_value=round(value, 3))
    return DriftState(goal_type, value, alarmed_at, new)


def _read(text: str) -> list[float]:
    """Return a detector's numbers; none where they are damaged, so that it begins anew."""
    try:
        numbers = json.loads(text)
        return [float(number) for number in numbers]
    except (TypeError, ValueError, RecursionError):
        return []


def states(workspace: Workspace) -> dict[str, DriftState]:
    """Return the drift state of every audited goal type."""
    with connected(workspace.records) as connection:
        return states_in(connection)


def states_in(connection: RecordsConnection) -> dict[str, DriftState]:
    """Return the same as `states`, on an open connection."""
    rows = connection.execute("SELECT goal_type, e_value, alarmed_at FROM drift ORDER BY goal_type").fetchall()
    return {row[0]: DriftState(*row) for row in rows}


def forget(connection: RecordsConnection, goal_types: Iterable[str]) -> None:
    """Restart the tests of these types, in the transaction that puts a new certificate in force."""
    connection.executemany("DELETE FROM drift WHERE goal_type = ?", [(name,) for name in goal_types])
