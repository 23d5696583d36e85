"""Statistics of the judge: rates, agreement with people, cost, thresholds and weights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hive_agents.base import HiveError
from hive_agents.judging import weights
from hive_agents.judging.audits import left_out
from hive_agents.judging.binomial import lower_bound
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import JudgedCase, by_stage
from hive_agents.judging.drift import states
from hive_agents.judging.thresholds import GLOBAL, threshold_for
from hive_agents.workspace import Workspace

BINS = 10


def judge_stats(
    workspace: Workspace, *, since: str | None = None, until: str | None = None, tenant: str | None = None
) -> dict[str, Any]:
    """Return the measures of `hive judge stats`; a rate of nothing is null.

    `since` and `until` are ISO times, UTC without an offset. Raises: HIVE-409 for an invalid one.
    """
    log = DecisionLog(workspace)
    rows = log.rows(since=_time(since), until=_time(until), tenant=tenant)
    types = sorted({row.goal_type for row in rows})
    days = sorted({row.at[:10] for row in rows})
    first, again = by_stage(rows)
    newest = {row.goal_type: row.judge_hash for row in (*first, *again)}
    drifting = states(workspace)
    thresholds: dict[str, Any] = {}
    for name in (GLOBAL, *sorted(newest)):
        threshold = threshold_for(workspace, name, newest.get(name))
        alarm = drifting.get(name)
        thresholds[name] = {"value": threshold.value, "status": threshold.status, "expires_at": threshold.expires_at}
        thresholds[name]["e_value"] = alarm.e_value if alarm is not None else None
    return {
        "window": {
            "from": since or (rows[0].at if rows else None),
            "to": until or (rows[-1].at if rows else None),
        },
        "overall": measures(rows),
        "by_goal_type": {name: measures([row for row in rows if row.goal_type == name]) for name in types},
        "over_time": [{"day": day, **measures([row for row in rows if row.at[:10] == day])} for day in days],
        "thresholds": thresholds,
        "warnings": [*log.warnings, *_damaged(thresholds), *left_out(rows)],
        "weights": {name: learned.shown() for name, learned in (weights.learn(rows) if rows else {}).items()}
        | {name: given.shown() | {"set": True} for name, given in weights.chosen(workspace).items()},
    }


def _time(text: str | None) -> str | None:
    """Return a time as the decision log writes it, so that they compare as texts."""
    if text is None:
        return None
    try:
        time = dt.datetime.fromisoformat(text)
        at = time.astimezone(dt.UTC) if time.tzinfo else time.replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError):
        fix = "use an ISO date or time, such as 2026-01-31"
        raise HiveError.of("HIVE-409", f'"{text}" is no time', fix=fix) from None
    return at.isoformat(timespec="seconds")


def _damaged(thresholds: dict[str, Any]) -> list[str]:
    damaged = [name for name, threshold in thresholds.items() if threshold["status"] == "damaged"]
    return [f"the calibration of {name} is damaged: calibrate again" for name in damaged]


def measures(rows: Sequence[JudgedCase]) -> dict[str, Any]:
    """Return the figures of a set of decisions."""
    n = len(rows)
    return {
        "n": n,
        "escalation_rate": sum(not row.automatic for row in rows) / n if n else None,
        "rule_match_rate": sum(row.source == "rule" for row in rows) / n if n else None,
        "llm_calls": sum(row.llm_calls for row in rows),
        "agreement": agreement([row for row in rows if row.automatic and row.audit], blind=True),
        "confidence_histogram": histogram([row.proposal[1] for row in rows if row.proposal is not None]),
        "cost_usd": round(sum(row.usd for row in rows), 6),
        "actions": {name: sum(row.action == name for row in rows) for name in sorted({row.action for row in rows})},
        "input_tokens": sum(row.input_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "agreement_escalated": agreement([row for row in rows if not row.automatic], blind=False),
    }


def histogram(confidences: Sequence[float]) -> list[dict[str, float | int]]:
    """Return ten equal bins; the last one includes 1. Confidences that are no number in 0..1 are left out.

    >>> [bin["n"] for bin in histogram([0.0, 0.05, 1.0, float("nan")])]
    [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    counts = [0] * BINS
    for value in confidences:
        if 0 <= value <= 1:
            counts[min(BINS - 1, int(value * BINS + 1e-9))] += 1
    return [{"lo": i / BINS, "hi": (i + 1) / BINS, "n": count} for i, count in enumerate(counts)]


def agreement(rows: Sequence[JudgedCase], *, blind: bool) -> dict[str, Any]:
    """Return how often people agree with the judge; of an escalation, with what its evaluator proposed."""
    pairs = [
        (row.proposal[0] if row.proposal is not None else row.action, human)
        for row in rows
        if (row.automatic or row.proposal is not None) and (human := row.human_action(blind=blind)) is not None
    ]
    n, k = len(pairs), sum(judged == human for judged, human in pairs)
    return {"n": n, "k": k, "rate": k / n if n else None, "lower95": lower_bound(k, n) if n else None}
