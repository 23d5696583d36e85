"""The threshold in force for a goal type: what was certified, what expired, and what a person has let in."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from hive_agents import audit
from hive_agents.approvals.people import same_person
from hive_agents.database import connect, database_errors, transaction
from hive_agents.errors import HiveError
from hive_agents.judging import drift
from hive_agents.judging.decisions import SECURITY
from hive_agents.workspace import Workspace

GLOBAL = "*"
"""The goal type under which the threshold of all types together is stored."""

ESCALATE_ALL = 1.01


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold in force. `status`: certified, default, insufficient, expired, or drift (escalates all)."""

    value: float
    status: str
    expires_at: str | None = None


def default_threshold(workspace: Workspace) -> float:
    """What holds until something was certified: `judge.llm_confidence_threshold` of the settings."""
    return workspace.settings.judge.llm_confidence_threshold


def standing(
    workspace: Workspace,
    goal_types: Iterable[str] = (),
    judge_hash: str | None = None,
    *,
    now: dt.datetime | None = None,
) -> dict[str, Threshold]:
    """The thresholds that hold, as one look at the database shows them: of `goal_types`, of every type that was ever
    calibrated or audited, of `security`, which has a floor of its own, and of all types together under `*`.

    A type's threshold is its own, else the global one, else the settings'. While its drift alarm stands it is 1.01,
    above every confidence. A certificate of another judge, or one older than 90 days, has expired: its threshold
    stays where it is above the default.
    """
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        newest = connection.execute(
            "SELECT goal_type, threshold, expires_at, certificate FROM calibrations WHERE id IN"
            " (SELECT max(id) FROM calibrations WHERE status = 'certified' GROUP BY goal_type)"
        ).fetchall()
        calibrated = connection.execute("SELECT DISTINCT goal_type FROM calibrations").fetchall()
        alarms = drift.states_in(connection)
    at = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    default = default_threshold(workspace)
    certified = {name: _held(value, expires_at, json.loads(certificate), judge_hash, at, default)
                 for name, value, expires_at, certificate in newest}  # fmt: skip
    everywhere = certified.pop(GLOBAL, None) or Threshold(default, "default")
    found = {GLOBAL: everywhere}
    for name in {SECURITY, *goal_types, *alarms, *(row[0] for row in calibrated)} - {GLOBAL}:
        own = certified.get(name)
        if name in alarms and alarms[name].alarmed:
            found[name] = Threshold(ESCALATE_ALL, "drift")
        elif name != SECURITY:
            found[name] = own or everywhere
        else:
            # Never below the others, and what the others show never takes it below the default.
            least = max(everywhere.value, 0.0 if own else default)
            found[name] = replace(own or everywhere, value=max(own.value if own else 0.0, least))
    return found


def threshold_for(
    workspace: Workspace, goal_type: str, judge_hash: str | None = None, *, now: dt.datetime | None = None
) -> Threshold:
    """The threshold that holds for one goal type; see `standing`."""
    return standing(workspace, [goal_type], judge_hash, now=now)[goal_type]


def in_force(workspace: Workspace, goal_type: str) -> tuple[float, str, dict[str, Any]] | None:
    """The newest certified (threshold, expiry, certificate) of a goal type."""
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        row = connection.execute(
            "SELECT threshold, expires_at, certificate FROM calibrations"
            " WHERE goal_type = ? AND status = 'certified' ORDER BY id DESC LIMIT 1",
            (goal_type,),
        ).fetchone()
    return (row[0], row[1], json.loads(row[2])) if row is not None else None


def awaiting(workspace: Workspace) -> dict[int, str]:
    """The calibrations that wait for a second person: number → goal type."""
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        rows = connection.execute("SELECT id, goal_type FROM calibrations WHERE status = 'awaiting_approval'")
        return dict(rows.fetchall())


def apply_threshold(workspace: Workspace, calibration_id: int, by: str) -> Threshold:
    """Put a lower threshold in force that waited for a second person.

    Raises: HIVE-409 when it does not wait, or `by` is the one who calibrated.
    """
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        with transaction(connection):
            row = connection.execute(
                "SELECT goal_type, threshold, expires_at, certificate FROM calibrations"
                " WHERE id = ? AND status = 'awaiting_approval'",
                (calibration_id,),
            ).fetchone()
            if row is None:
                raise HiveError.of("HIVE-409", f"calibration {calibration_id} does not wait for approval")
            if same_person(json.loads(row[3])["by"], by):
                raise HiveError.of("HIVE-409", "a lower threshold needs a second person", fix="ask somebody else")
            # The entry first: a threshold in force that the log doesn't know would look like a forgery.
            audit.append(
                workspace, "judge.threshold", goal_type=row[0], threshold=row[1], calibration=calibration_id, by=by
            )
            connection.execute("UPDATE calibrations SET status = 'certified' WHERE id = ?", (calibration_id,))
            drift.forget(connection, [row[0]])
    return Threshold(row[1], "certified", row[2])


def refuse_thresholds(workspace: Workspace, calibration_ids: Iterable[int]) -> None:
    """A person refused these: they will not come into force, unless a later calibration asks again."""
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        with transaction(connection):
            connection.executemany(
                "UPDATE calibrations SET status = 'rejected' WHERE id = ? AND status = 'awaiting_approval'",
                [(number,) for number in calibration_ids],
            )


def _held(
    value: float, expires_at: str, certificate: dict[str, Any], judge_hash: str | None, at: str, default: float
) -> Threshold:
    if (judge_hash is not None and judge_hash not in certificate["judge_hashes"].values()) or expires_at <= at:
        return Threshold(max(value, default), "expired", expires_at)
    return Threshold(value, "certified", expires_at)
