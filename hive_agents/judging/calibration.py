"""Calibration: thresholds learned from audits, with the certificate that each rests on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hive_agents import audit
from hive_agents.database import connect, database_errors, transaction
from hive_agents.errors import HiveError
from hive_agents.formats import Format
from hive_agents.judging import drift
from hive_agents.judging.audits import human_agreement
from hive_agents.judging.certify import (
    ALPHA,
    DELTA,
    Recommendation,
    Stratum,
    certify,
    empirical_threshold,
    lower_bound,
    minimum_n,
)
from hive_agents.judging.decision_log import SECURITY, THRESHOLD_REASONS, Decision, DecisionLog
from hive_agents.workspace import Workspace

GLOBAL = "*"
"""The goal type under which the threshold of all types together is stored."""

DEFAULT_THRESHOLD = 0.8
ESCALATE_ALL = 1.01
VALID_DAYS = 90
OWN_FROM = 45

Status = Literal["certified", "insufficient", "expired"]


class Accuracy(Format):
    """Accepted results at one confidence (rounded to .1), and how many of them people accepted too."""

    confidence: float
    n: int
    correct: int
    lower95: float


class Rate(Format):
    n: int
    k: int
    rate: float


class Guarantee(Format):
    """With confidence 1 - delta, people disagree with at most alpha of what the threshold lets through."""

    alpha: float
    delta: float
    n: int
    coverage: float


class CalibrationMetrics(Format):
    """What a calibration found. A type without enough audits of its own has the global threshold.

    `awaiting_approval` names the types whose new threshold is lower than the one in force: it takes
    effect when a second person agrees.
    """

    status: Status
    recommended_threshold: float | None
    previous: float
    needed_audits: int
    threshold_by_goal_type: dict[str, float]
    accept_accuracy_by_confidence: list[Accuracy]
    retry_success_rate: Rate | None
    guarantee: Guarantee | None
    empirical_threshold: float | None = None
    rejected: int = 0
    undecided: int = 0
    awaiting_approval: dict[str, int] = {}
    warnings: list[str] = []


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold in force. `status`: certified, default, insufficient, expired, or drift (escalates all)."""

    value: float
    status: str
    expires_at: str | None = None


def calibrate(
    workspace: Workspace,
    *,
    alpha: float = ALPHA,
    delta: float = DELTA,
    by: str = "user:local",
    floor: float = 0.0,
    now: dt.datetime | None = None,
) -> CalibrationMetrics:
    """Learn the thresholds from the decision log, store them with their certificates, and log each change.

    Only decisions of the judge as it is now count: a new model, prompt or rubric has another hash. The
    guarantee holds for each goal type by itself, not for all of them at once.
    """
    at = now or dt.datetime.now(dt.UTC)
    rows = [row for row in DecisionLog(workspace).rows() if row.proposal is not None and row.proposal[0] != "escalate"]
    newest = {row.goal_type: row.judge_hash for row in rows}
    current = [row for row in rows if newest[row.goal_type] == row.judge_hash]
    before = {name: threshold_for(workspace, name, judge, now=at) for name, judge in newest.items()}
    everywhere = [threshold_for(workspace, GLOBAL, judge, now=at) for judge in (None, *newest.values())]
    before[GLOBAL] = next((found for found in everywhere if found.status == "expired"), everywhere[0])
    pooled = certify(_strata(current, pooled=True), alpha=alpha, delta=delta)
    overall = _no_lower(pooled.threshold, before[GLOBAL], floor)
    found: dict[str, tuple[Recommendation | None, float]] = {GLOBAL: (pooled, overall)}
    for name in sorted(newest):
        own = [row for row in current if row.goal_type == name]
        result = certify(_strata(own), alpha=alpha, delta=delta) if _labelled(own) >= OWN_FROM else None
        value = max(floor, result.threshold) if result and result.threshold is not None else None
        if value is None:
            # Too little of its own: what all types show together, but never a pooled lowering of a certified one.
            certified = name == SECURITY or _in_force(workspace, name) is not None
            value = max(overall, min(before[name].value, 1.0) if certified else 0.0)
        found[name] = (result, max(value, overall) if name == SECURITY else value)
    waiting = _store(workspace, found, newest, before, at, by, alpha, delta)
    expired = before[GLOBAL].status == "expired"
    status: Status = "certified" if pooled.threshold is not None else "expired" if expired else "insufficient"
    values, same = _audit_arrays(current)
    return CalibrationMetrics(
        status=status,
        recommended_threshold=pooled.threshold,
        previous=before[GLOBAL].value,
        needed_audits=pooled.needed,
        threshold_by_goal_type={name: value for name, (_, value) in found.items() if name != GLOBAL},
        accept_accuracy_by_confidence=accept_accuracy(current),
        retry_success_rate=retry_success(current),
        guarantee=Guarantee(alpha=alpha, delta=delta, n=pooled.n, coverage=pooled.coverage)
        if pooled.threshold is not None
        else None,
        empirical_threshold=empirical_threshold(values, same, alpha=alpha),
        rejected=pooled.rejected,
        undecided=sum(bool(row.labels) and row.human_action() is None for row in current),
        awaiting_approval=waiting,
        warnings=_warnings(rows, alpha),
    )


def threshold_for(
    workspace: Workspace, goal_type: str, judge_hash: str | None = None, *, now: dt.datetime | None = None
) -> Threshold:
    """The threshold that holds for a goal type: its own, else the global one, else the default of 0.8.

    While the type's drift alarm stands it is 1.01, above every confidence. A certificate of another
    judge, or one older than 90 days, has expired: its threshold stays where it is above the default.
    """
    alarm = drift.states(workspace).get(goal_type)
    if alarm is not None and alarm.alarmed:
        return Threshold(ESCALATE_ALL, "drift")
    at = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    everywhere = _certified(workspace, GLOBAL, judge_hash, at) or Threshold(DEFAULT_THRESHOLD, "default")
    own = _certified(workspace, goal_type, judge_hash, at)
    if goal_type != SECURITY:
        return own or everywhere
    # Security is never below the others, and what the others show never takes it below the default.
    least = max(everywhere.value, 0.0 if own else DEFAULT_THRESHOLD)
    return replace(own or everywhere, value=max(own.value if own else 0.0, least))


def _certified(workspace: Workspace, name: str, judge_hash: str | None, at: str) -> Threshold | None:
    row = _in_force(workspace, name)
    if row is None:
        return None
    value, expires_at, certificate = row
    if (judge_hash is not None and judge_hash not in certificate["judge_hashes"].values()) or expires_at <= at:
        return Threshold(max(value, DEFAULT_THRESHOLD), "expired", expires_at)
    return Threshold(value, "certified", expires_at)


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
            certificate = json.loads(row[3])
            if certificate["by"] == by:
                raise HiveError.of("HIVE-409", "a lower threshold needs a second person", fix="ask somebody else")
            connection.execute("UPDATE calibrations SET status = 'certified' WHERE id = ?", (calibration_id,))
            # A later calibration may have waited or applied meanwhile; of one type only the newest decides.
            connection.execute(
                "UPDATE calibrations SET status = 'superseded'"
                " WHERE goal_type = ? AND id < ? AND status = 'awaiting_approval'",
                (row[0], calibration_id),
            )
    audit.append(workspace, "judge.threshold", goal_type=row[0], threshold=row[1], calibration=calibration_id, by=by)
    drift.reset(workspace, [row[0]])
    return Threshold(row[1], "certified", row[2])


def accept_accuracy(rows: Sequence[Decision]) -> list[Accuracy]:
    """How often people accept, too, what the judge accepted, per confidence; blind audits only."""
    bins: dict[int, list[bool]] = {}
    for row in rows:
        human = row.human_action(blind=True)
        if row.proposal is None or row.action != "accept" or not row.audit or human is None:
            continue
        if 0 <= (confidence := row.proposal[1]) <= 1:
            bins.setdefault(min(9, int(confidence * 10 + 1e-9)), []).append(human == "accept")
    return [
        Accuracy(confidence=at / 10, n=len(hits), correct=sum(hits), lower95=lower_bound(sum(hits), len(hits)))
        for at, hits in sorted(bins.items())
    ]


def retry_success(rows: Sequence[Decision]) -> Rate | None:
    """How often a retry mended the result; None when no retry's outcome is known."""
    outcomes = [row.outcome for row in rows if row.action == "retry" and row.outcome is not None]
    k = outcomes.count("succeeded")
    return Rate(n=len(outcomes), k=k, rate=k / len(outcomes)) if outcomes else None


def _strata(rows: Sequence[Decision], *, pooled: bool = False) -> list[Stratum]:
    """Automatic decisions, labelled where drawn for audit; escalated ones, labelled by whoever decided them.

    Pooled, security's extra draws are left out, so that every automatic decision had the same chance.
    """
    automatic = [row for row in rows if row.automatic]
    drawn = [row for row in automatic if row.audit == 1 or (row.audit and not pooled)]
    escalated = [row for row in rows if not row.automatic and row.escalation_reason in THRESHOLD_REASONS]
    return [
        _stratum(logged, labelled, blind)
        for logged, labelled, blind in ((automatic, drawn, True), (escalated, escalated, False))
    ]


def _stratum(logged: Sequence[Decision], labelled: Sequence[Decision], blind: bool) -> Stratum:
    pairs = [
        (row.proposal[1], row.proposal[0] == human)
        for row in labelled
        if row.proposal is not None and (human := row.human_action(blind=blind)) is not None
    ]
    return Stratum(
        np.array([row.proposal[1] for row in logged if row.proposal is not None], dtype=np.float64),
        np.array([confidence for confidence, _ in pairs], dtype=np.float64),
        np.array([agrees for _, agrees in pairs], dtype=bool),
    )


def _labelled(rows: Sequence[Decision]) -> int:
    return sum(len(stratum.agrees) for stratum in _strata(rows))


def _audit_arrays(rows: Sequence[Decision]) -> tuple[list[float], list[bool]]:
    audits, escalated = _strata(rows, pooled=True)
    return [*audits.confidence, *escalated.confidence], [*audits.agrees, *escalated.agrees]


def _no_lower(value: float | None, before: Threshold, floor: float) -> float:
    """The certified threshold, else the one before: too little evidence never lowers it."""
    return max(floor, value if value is not None else min(before.value, 1.0))


def _in_force(workspace: Workspace, goal_type: str) -> tuple[float, str, dict[str, Any]] | None:
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        row = connection.execute(
            "SELECT threshold, expires_at, certificate FROM calibrations"
            " WHERE goal_type = ? AND status = 'certified' ORDER BY id DESC LIMIT 1",
            (goal_type,),
        ).fetchone()
    return (row[0], row[1], json.loads(row[2])) if row is not None else None


def _store(
    workspace: Workspace,
    found: dict[str, tuple[Recommendation | None, float]],
    newest: dict[str, str],
    before: dict[str, Threshold],
    at: dt.datetime,
    by: str,
    alpha: float,
    delta: float,
) -> dict[str, int]:
    """Write what was found; returns the calibrations that wait for a second person, by goal type."""
    waiting: dict[str, int] = {}
    certified: list[str] = []
    expires = (at + dt.timedelta(days=VALID_DAYS)).isoformat(timespec="seconds")
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        with transaction(connection):
            for name, (result, value) in found.items():
                status = "insufficient"
                if result is not None and result.threshold is not None:
                    # An alarm's 1.01 is no threshold that anybody chose; leaving it is what recalibration is for.
                    previous = DEFAULT_THRESHOLD if before[name].status == "drift" else before[name].value
                    status = "awaiting_approval" if value < previous else "certified"
                certificate = {
                    "by": by,
                    "alpha": alpha,
                    "delta": delta,
                    "n": result.n if result else 0,
                    "k": result.k if result else 0,
                    "coverage": result.coverage if result else 0.0,
                    "needed": result.needed if result else OWN_FROM,
                    "judge_hashes": newest if name == GLOBAL else {name: newest[name]},
                }
                number = connection.execute(
                    "INSERT INTO calibrations (at, goal_type, status, threshold, judge_hash, expires_at, certificate)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        at.isoformat(timespec="seconds"),
                        name,
                        status,
                        value,
                        newest.get(name, ""),
                        expires,
                        json.dumps(certificate, sort_keys=True),
                    ),
                ).lastrowid
                assert number is not None
                if status == "awaiting_approval":
                    waiting[name] = number
                elif status == "certified":
                    certified.append(name)
    drift.reset(workspace, certified)
    audit.append(
        workspace,
        "judge.calibration",
        by=by,
        certified={name: found[name][1] for name in certified},
        awaiting_approval=waiting,
    )
    return waiting


def _warnings(rows: Sequence[Decision], alpha: float) -> list[str]:
    found = []
    double, same = human_agreement(rows)
    if double >= 20 and same / double < 1 - alpha:
        found.append(
            f"two people agree on {same} of {double} decisions: a target of {1 - alpha:.0%} asks more than they do"
        )
    if not any(row.labels for row in rows):
        found.append(f"no decision has been audited; {minimum_n(0, alpha)} agreeing audits are the least")
    return found
