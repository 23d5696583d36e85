"""What a run found, as one JSON value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_agents.optimizer.session import UNNAMED, OptimizerSession
from hive_agents.optimizer.space import parsed
from hive_agents.optimizer.trial import Measured

ROW = ("n", "config", "changes", "step", "reason", "cause", "train", "validation", "distractors", "verdict", "feedback")


def result_of(session: OptimizerSession, state: Mapping[str, Any], run_id: str, *, interrupted: bool) -> dict[str, Any]:
    """The result of a run that ended, or of what is there of one that was interrupted."""
    certificate = state.get("certificate")
    best = state.get("best")
    status, stopped_by = state.get("status", "stopped"), state.get("stopped_by")
    if interrupted:
        best = best or session.select(state.get("archive", []))
        if best is not None and best["name"] == UNNAMED:
            name = session.write(best, "the best so far when the run was interrupted", session.baseline.name)
            best = best | {"name": name}
        status, stopped_by = "stopped", "interrupted"
    base = _entry(session.baseline.name, [], session.baseline_measured)
    found = base if best is None else _best(session, best)
    if certificate:
        base = base | {"holdout": certificate["before"]}
        found = found | {"holdout": certificate["after"]}
    evaluations, seconds = session.budget.evaluations, state.get("seconds", 0.0)
    return {
        "run_id": run_id,
        "status": status,
        "baseline": base,
        "best": found,
        "certificate": certificate,
        "iterations": [{key: row[key] for key in ROW} for row in state.get("rows", [])],
        "diagnosis": state.get("diagnosis"),
        "first_diagnosis": state.get("first_diagnosis"),
        "evaluations": evaluations,
        "evaluations_per_second": round(evaluations / seconds, 1) if seconds else None,
        "stopped_by": stopped_by,
        "approval_id": state.get("approval_id"),
    }


def _best(session: OptimizerSession, data: dict[str, Any]) -> dict[str, Any]:
    return _entry(data["name"], session.changes(data), session.remeasure(parsed(data)))


def _entry(name: str, changes: list[dict[str, Any]], measured: Measured) -> dict[str, Any]:
    return {
        "config": name,
        "changes": changes,
        "train": measured.train_nudcg,
        "validation": measured.validation_nudcg,
        "holdout": None,
        "distractors": measured.distractors,
    }
