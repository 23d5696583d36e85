"""Calibration: thresholds learned from audits, with the certificate that each rests on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hive_agents.base import HiveError, count
from hive_agents.judging import drift
from hive_agents.judging.audits import human_agreement, left_out
from hive_agents.judging.binomial import ALPHA, DELTA, minimum_n
from hive_agents.judging.certify import Certificate, Stratum, certify, differing, empirical_threshold
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import ESCALATE_ALL, SECURITY, STRONGER, THRESHOLD_REASONS, JudgedCase, by_stage
from hive_agents.judging.metrics import CalibrationMetrics, CalibrationStatus, Guarantee, accept_accuracy, retry_success
from hive_agents.judging.thresholds import GLOBAL, Threshold, threshold_for, was_certified
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace

VALID_DAYS = 90
OWN_FROM = 45


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

    Only decisions of the judge as it is now count: a new model, prompt or rubric has another hash. Examples don't. The
    guarantee holds for each goal type by itself, not for all at once. Where a stronger judge is set, each of the
    two is certified at half of `delta`, so that it holds for what they decide together.

    A type that is shown to miss its target is escalated at once. A lower threshold waits for a second person; so does
    one found with a laxer `alpha` or `delta` than the settings', and one that ends a drift alarm, or follows a miss.
    Raises: HIVE-409 for an `alpha` or `delta` that isn't between 0 and 1.
    """
    for setting, level in (("alpha", alpha), ("delta", delta)):
        if not 0 < level < 1:
            raise HiveError.of("HIVE-409", f"{setting} is {level}", fix="use a number between 0 and 1, such as 0.05")
    at, log = now or dt.datetime.now(dt.UTC), DecisionLog(workspace)
    first, again = by_stage(log.rows())
    if workspace.settings.models.stronger_judge:
        delta /= 2  # for each of the two
    found = _calibrated(workspace, first, "", log.warnings, alpha, delta, by, floor, at)
    if not again:
        return found
    other = _calibrated(workspace, again, STRONGER, [], alpha, delta, by, floor, at)
    both = {name: getattr(found, name) | getattr(other, name) for name in ("awaiting_approval", "missed")}
    return found.model_copy(update={"stronger": other, **both})


def _calibrated(
    workspace: Workspace,
    logged: Sequence[JudgedCase],
    stage: str,
    warnings: Sequence[str],
    alpha: float,
    delta: float,
    by: str,
    floor: float,
    at: dt.datetime,
) -> CalibrationMetrics:
    every = GLOBAL + stage
    shown = workspace.settings.judge.examples_until or 0  # what a judge was shown says nothing of how it judges
    rows = [row for row in logged if row.id > shown and row.proposal is not None and row.proposal[0] != "escalate"]
    newest = {row.goal_type: row.judge_hash for row in rows}
    current = [row for row in rows if newest[row.goal_type] == row.judge_hash]
    before = {name: threshold_for(workspace, name, judge, now=at) for name, judge in newest.items()}
    pooled_before = [threshold_for(workspace, every, judge, now=at) for judge in (None, *newest.values())]
    before[every] = next((each for each in pooled_before if each.status == "expired"), pooled_before[0])
    standing = before[every].decides
    pooled = certify(_strata(current, pooled=True), alpha=alpha, delta=delta, in_force=standing)
    apart = _differing(current, pooled, standing)
    if apart and pooled.status != "undecided":
        pooled = replace(pooled, status="undecided", threshold=None, bins=())
    overall = _no_lower(pooled, before[every], floor)
    results: dict[str, tuple[Certificate | None, float]] = {every: (pooled, overall)}
    for name in sorted(newest):
        of_type = _strata([row for row in current if row.goal_type == name])
        result = certify(of_type, alpha=alpha, delta=delta, in_force=before[name].decides)
        # A lax alpha certifies on fewer; a few suffice to show that the target is missed.
        enough = result if result.n >= OWN_FROM or result.status == "missed" else None
        results[name] = (enough, _threshold_of(workspace, name, enough, overall, before[name], floor))
    waiting, missed = _store(workspace, results, newest, before, at, by, alpha, delta)
    expired = before[every].status == "expired"
    status: CalibrationStatus = (
        pooled.status if pooled.status != "undecided" else "missed" if missed else "expired" if expired else "undecided"
    )
    audits, escalated = _strata(current, pooled=True)
    return CalibrationMetrics(
        status=status,
        recommended_threshold=pooled.threshold,
        previous=before[every].value,
        needed_audits=pooled.needed,
        threshold_by_goal_type={name: value for name, (_, value) in results.items() if name != every},
        accept_accuracy_by_confidence=accept_accuracy(current),
        retry_success_rate=retry_success(current),
        guarantee=Guarantee(alpha=alpha, delta=delta, n=pooled.n, coverage=pooled.coverage)
        if pooled.status == "certified"
        else None,
        empirical_threshold=empirical_threshold(
            [*audits.confidence, *escalated.confidence], [*audits.agrees, *escalated.agrees], alpha=alpha
        ),
        rejected=pooled.rejected,
        undecided=sum(bool(row.labels) and row.human_action() is None for row in current),
        awaiting_approval=waiting,
        chance=None if pooled.status == "certified" else pooled.chance,
        bins=list(pooled.bins),
        missed=missed,
        differing=apart,
        warnings=[
            *warnings,
            *_warnings(rows, alpha),
            *_apart(apart),
            *left_out(current),
            *_unused_labels(logged, current, shown),
        ],
    )


def _strata(rows: Sequence[JudgedCase], *, pooled: bool = False) -> list[Stratum]:
    """Return automatic decisions, labelled where drawn for audit, and escalated ones, labelled by whoever decided them.

    Pooled, security's extra draws are left out, so that every automatic decision had the same chance.
    """
    automatic = [row for row in rows if row.automatic]
    drawn = [row for row in automatic if row.audit == 1 or (row.audit and not pooled)]
    escalated = [row for row in rows if not row.automatic and row.escalation_reason in THRESHOLD_REASONS]
    return [
        _stratum(logged, labelled, blind)
        for logged, labelled, blind in ((automatic, drawn, True), (escalated, escalated, False))
    ]


def _stratum(logged: Sequence[JudgedCase], labelled: Sequence[JudgedCase], blind: bool) -> Stratum:
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


def _threshold_of(
    workspace: Workspace, name: str, result: Certificate | None, overall: float, before: Threshold, floor: float
) -> float:
    """Return the threshold of a goal type: its own from `result`, else `overall` of all types together."""
    if result is not None and result.status != "undecided":
        value = max(floor, _value(result))
    else:  # never a pooled lowering of a certified one
        certified = name.removesuffix(STRONGER) == SECURITY or was_certified(workspace, name)
        value = max(overall, min(before.value, 1.0) if certified else 0.0)
    return max(value, overall) if name.removesuffix(STRONGER) == SECURITY else value


def _no_lower(result: Certificate, before: Threshold, floor: float) -> float:
    """Return the certified threshold, else the one before: too little evidence never lowers it."""
    return max(floor, min(before.value, 1.0) if result.status == "undecided" else _value(result))


def _value(result: Certificate) -> float:
    return result.threshold if result.threshold is not None else ESCALATE_ALL


def _differing(rows: Sequence[JudgedCase], pooled: Certificate, standing: Callable[[float], bool]) -> list[str]:
    """Return the types that people disagree with significantly more often than with the others, where all would
    decide: a pool that hides one of them says nothing of it."""
    counted = pooled.decides if pooled.status == "certified" else standing
    errors = {}
    for name in sorted({row.goal_type for row in rows}):
        audits, escalated = _strata([row for row in rows if row.goal_type == name], pooled=True)
        labels = [*zip(audits.confidence, audits.agrees, strict=True)]
        labels += zip(escalated.confidence, escalated.agrees, strict=True)
        agrees = [bool(same) for confidence, same in labels if counted(float(confidence))]
        if agrees:
            errors[name] = (agrees.count(False), len(agrees))
    return differing(errors) if len(errors) > 1 else []


def _store(
    workspace: Workspace,
    results: Mapping[str, tuple[Certificate | None, float]],
    newest: Mapping[str, str],
    before: Mapping[str, Threshold],
    at: dt.datetime,
    by: str,
    alpha: float,
    delta: float,
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """Store the thresholds; return the calibrations that wait for a second person, and the confidences that fail of
    each type that misses its target, by goal type."""
    numbers: dict[str, dict[str, int]] = {"certified": {}, "awaiting_approval": {}, "missed": {}, "undecided": {}}
    missed = {name: list(found.failed) for name, (found, _) in results.items() if found and found.status == "missed"}
    settings = workspace.settings.judge
    laxer = alpha > settings.alpha or delta > settings.delta
    expires = (at + dt.timedelta(days=VALID_DAYS)).isoformat(timespec="seconds")
    with connected(workspace.records) as connection:
        with transaction(connection):
            alarms = drift.states_in(connection)
            for name, (result, value) in results.items():
                status: str = result.status if result is not None else "undecided"
                if result is not None and status == "certified":
                    alarmed = name in alarms and alarms[name].alarmed
                    previous = ESCALATE_ALL if alarmed else before[name].value
                    lowest = min([value, *(at for at in result.bins if alarmed or not before[name].decides(at))])
                    status = "awaiting_approval" if laxer or lowest < previous else "certified"
                certificate = {
                    "by": by,
                    "alpha": alpha,
                    "delta": delta,
                    "n": result.n if result else 0,
                    "k": result.k if result else 0,
                    "coverage": result.coverage if result else 0.0,
                    "needed": result.needed if result else OWN_FROM,
                    "bins": list(result.bins) if result else [],
                    "failed": list(result.failed) if result else [],
                    "judge_hashes": dict(newest) if name not in newest else {name: newest[name]},
                }
                row = (at.isoformat(timespec="seconds"), name, status, value, newest.get(name, ""), expires)
                numbers[status][name] = _insert(connection, (*row, json.dumps(certificate, sort_keys=True)))
            drift.forget(connection, numbers["certified"])
    audit.append(
        workspace,
        "judge.calibration",
        by=by,
        certified={name: results[name][1] for name in numbers["certified"]},
        awaiting_approval=numbers["awaiting_approval"],
        missed=missed,
    )
    return numbers["awaiting_approval"], missed


def _insert(connection: RecordsConnection, row: tuple[str | float, ...]) -> int:
    """Add a calibration, which supersedes those that still wait for its goal type."""
    if row[2] != "undecided":
        connection.execute(
            "UPDATE calibrations SET status = 'superseded' WHERE goal_type = ? AND status = 'awaiting_approval'",
            (row[1],),
        )
    (number,) = connection.execute(
        "INSERT INTO calibrations (at, goal_type, status, threshold, judge_hash, expires_at, certificate)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        row,
    ).fetchone()
    return int(number)


def _unused_labels(logged: Sequence[JudgedCase], current: Sequence[JudgedCase], shown: int) -> list[str]:
    """Return warnings about labels that are no evidence for a threshold."""
    examples, logged = [row for row in logged if row.id <= shown], [row for row in logged if row.id > shown]
    current_ids = {row.id for row in current}
    fixed = [row for row in logged if row.id not in current_ids and row.proposal is None]
    fixed += [row for row in current if not row.automatic and row.escalation_reason not in THRESHOLD_REASONS]
    past = [
        row
        for row in logged
        if row.id not in current_ids and row.proposal is not None and row.proposal[0] != "escalate"
    ]
    reasons = (
        (fixed, "what no confidence decided: a rule, a constraint, a fault"),
        (past, "decisions under another model, prompt or rubric"),
        (examples, f"decisions up to {shown}, which the judge is shown as examples"),
    )
    labelled = [(sum(len(row.labels) for row in part), why) for part, why in reasons]
    return [f"{count(n, 'label')} of {why}" for n, why in labelled if n]


def _apart(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    differ = f"people disagree with {', '.join(names)} significantly more often than with the other types"
    return [f"{differ}: no threshold for all types together is certified"]


def _warnings(rows: Sequence[JudgedCase], alpha: float) -> list[str]:
    warnings = []
    double, same = human_agreement(rows)
    if double >= 20 and same / double < 1 - alpha:
        warnings.append(
            f"two people agree on {same} of {double} decisions: a target of {1 - alpha:.0%} asks more than they do"
        )
    if not any(row.labels for row in rows):
        warnings.append(f"no decision has been audited; {minimum_n(0, alpha)} agreeing audits are the least")
    return warnings
