"""The thresholds in force for goal types, and the approval of lower ones."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hive_agents.access import same_person
from hive_agents.base import HiveError
from hive_agents.goals import goal_type_of
from hive_agents.judging import drift
from hive_agents.judging.decisions import ESCALATE_ALL, SECURITY, STRONGER, decides
from hive_agents.store import audit, connected, transaction
from hive_agents.workspace import Workspace

T = TypeVar("T")
GLOBAL = "*"
"""The goal type under which the threshold of all types together is stored."""

_WAITS = "status = 'awaiting_approval' AND NOT EXISTS (SELECT 1 FROM drift WHERE alarmed_at > calibrations.at)"


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold in force, with the confidences below it that are certified by themselves.

    `status`: certified, default, expired, damaged, or missed and drift, which escalate all.
    """

    value: float
    status: str
    expires_at: str | None = None
    bins: tuple[float, ...] = ()

    def decides(self, confidence: float) -> bool:
        return decides(confidence, self.value, self.bins)


def default_threshold(workspace: Workspace) -> float:
    """Return the threshold before any calibration: `judge.llm_confidence_threshold` of the settings."""
    return workspace.settings.judge.llm_confidence_threshold


def standing(
    workspace: Workspace,
    goal_types: Iterable[str] = (),
    judge_hash: str | None = None,
    *,
    stronger: bool = False,
    now: dt.datetime | None = None,
) -> dict[str, Threshold]:
    """Return the thresholds in force, from one read of the database: of `goal_types`, of every type that was ever
    calibrated or audited, of `security`, which has a floor of its own, and of all types together under `*`.

    With `stronger` they are those of the judge that is asked where the first isn't sure enough.

    A type's threshold is its own, else the global one, else the settings'. During its drift alarm, and once the type is
    shown to miss its target, it is 1.01, above every confidence. A certificate of another judge, or one older than 90
    days, has expired: its threshold is kept where it is above the default, and so is that of a damaged one.
    """
    goal_types = [goal_type_of(name) for name in goal_types]
    with connected(workspace.records) as connection:
        newest = connection.execute(
            "SELECT goal_type, threshold, expires_at, certificate, status FROM calibrations WHERE id IN"
            " (SELECT max(id) FROM calibrations WHERE status IN ('certified', 'missed') GROUP BY goal_type)"
        ).fetchall()
        calibrated = connection.execute("SELECT DISTINCT goal_type FROM calibrations").fetchall()
        alarms = _of_stage(drift.states_in(connection).items(), stronger)
    at = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    default = default_threshold(workspace)
    certified = {name: Threshold(ESCALATE_ALL, "missed") if status == "missed"
                 else _in_force(value, expires_at, certificate_of(certificate), judge_hash, at, default)
                 for name, (value, expires_at, certificate, status)
                 in _of_stage(((name, rest) for name, *rest in newest), stronger).items()}  # fmt: skip
    overall = certified.pop(GLOBAL, None) or Threshold(default, "default")
    thresholds = {GLOBAL: overall}
    known = _of_stage(((name, None) for (name,) in calibrated), stronger)
    for name in {SECURITY, *goal_types, *alarms, *known} - {GLOBAL}:
        specific = certified.get(name)
        if name in alarms and alarms[name].alarmed:
            thresholds[name] = Threshold(ESCALATE_ALL, "drift")
        elif name != SECURITY:
            thresholds[name] = specific or overall
        else:
            # Never below the global threshold; without its own certificate, never below the default either.
            least = max(overall.value, 0.0 if specific else default)
            mine = specific or overall
            bins = tuple(at for at in mine.bins if overall.decides(at))
            thresholds[name] = replace(mine, value=max(specific.value if specific else 0.0, least), bins=bins)
    return thresholds


def threshold_for(
    workspace: Workspace, goal_type: str, judge_hash: str | None = None, *, now: dt.datetime | None = None
) -> Threshold:
    """Return the threshold in force for one goal type, which `STRONGER` may follow; see `standing`."""
    stronger, name = goal_type.endswith(STRONGER), goal_type_of(goal_type.removesuffix(STRONGER))
    return standing(workspace, [name], judge_hash, stronger=stronger, now=now)[name]


def _of_stage(named: Iterable[tuple[str, T]], stronger: bool) -> dict[str, T]:
    """Return, by goal type, what belongs to the judge that is asked first, or to the stronger one."""
    return {name.removesuffix(STRONGER): one for name, one in named if name.endswith(STRONGER) is stronger}


def was_certified(workspace: Workspace, goal_type: str) -> bool:
    """Return whether a goal type ever had a threshold of its own in force."""
    with connected(workspace.records) as connection:
        sql = "SELECT 1 FROM calibrations WHERE goal_type = ? AND status = 'certified'"
        return connection.execute(sql, (goal_type,)).fetchone() is not None


def awaiting(workspace: Workspace) -> dict[int, str]:
    """Return the calibrations that wait for a second person: number → goal type. Those
    older than a drift alarm are left out."""
    with connected(workspace.records) as connection:
        rows = connection.execute(f"SELECT id, goal_type FROM calibrations WHERE {_WAITS}")
        return dict(rows.fetchall())


def apply_threshold(workspace: Workspace, calibration_id: int, by: str) -> Threshold:
    """Put a lower threshold that waits for a second person in force.

    Raises: HIVE-409 when it does not wait, `by` is the one who calibrated, or drift was found since.
    """
    with connected(workspace.records) as connection:
        with transaction(connection):
            row = connection.execute(
                f"SELECT goal_type, threshold, expires_at, certificate FROM calibrations WHERE id = ? AND {_WAITS}",
                (calibration_id,),
            ).fetchone()
            if row is None:
                why = f"calibration {calibration_id} does not wait for approval"
                raise HiveError.of("HIVE-409", why, fix="calibrate again")
            certificate = certificate_of(row[3])
            if certificate is None or not _sound(row[1]):
                raise HiveError.of("HIVE-409", f"calibration {calibration_id} is damaged", fix="calibrate again")
            if same_person(certificate["by"], by):
                raise HiveError.of("HIVE-409", "a lower threshold needs a second person", fix="ask somebody else")
            # The entry first: a threshold in force that the log doesn't know would look like a forgery.
            audit.append(
                workspace, "judge.threshold", goal_type=row[0], threshold=row[1], calibration=calibration_id, by=by
            )
            connection.execute("UPDATE calibrations SET status = 'certified' WHERE id = ?", (calibration_id,))
            drift.forget(connection, [row[0]])
    return Threshold(row[1], "certified", row[2])


def refuse_thresholds(workspace: Workspace, calibration_ids: Iterable[int]) -> None:
    """Reject calibrations: they don't come into force, unless a later calibration asks again."""
    with connected(workspace.records) as connection:
        with transaction(connection):
            connection.executemany(
                "UPDATE calibrations SET status = 'rejected' WHERE id = ? AND status = 'awaiting_approval'",
                [(number,) for number in calibration_ids],
            )


def certificate_of(text: Any) -> dict[str, Any] | None:
    """Return the certificate of a calibration; None where it is damaged."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    sound = isinstance(value, dict) and isinstance(value.get("by"), str) and isinstance(value.get("judge_hashes"), dict)
    sound = sound and isinstance(value.get("bins", []), list)
    return value if sound else None


def _sound(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= ESCALATE_ALL


def _in_force(
    value: Any, expires_at: Any, certificate: dict[str, Any] | None, judge_hash: str | None, at: str, default: float
) -> Threshold:
    if certificate is None or not _sound(value) or not isinstance(expires_at, str):
        return Threshold(max(value, default) if _sound(value) else ESCALATE_ALL, "damaged")
    if (judge_hash is not None and judge_hash not in certificate["judge_hashes"].values()) or expires_at <= at:
        return Threshold(max(value, default), "expired", expires_at)
    bins = tuple(float(at) for at in certificate.get("bins", ()) if _sound(at))
    return Threshold(value, "certified", expires_at, bins)
