"""A change of chunking, fields, analyzer or model is gated too: the active config, on the new index against the old."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hive_agents import audit
from hive_agents.database import connect, database_errors
from hive_agents.errors import HiveError
from hive_agents.evaluation.evaluate import evaluate
from hive_agents.evaluation.golden import load_golden
from hive_agents.evaluation.statistics import paired_difference
from hive_agents.retrieval import SearchEngine
from hive_agents.retrieval.deployed import find_active
from hive_agents.retrieval.generation import candidates, find_generation, promote
from hive_agents.verification.gate import inconclusive_reason, regressions
from hive_agents.verification.holdout import spend
from hive_agents.workspace import Workspace

KIND = "index_generation"


@dataclass(frozen=True)
class GenerationDecision:
    """`decision` is passed (the new generation serves), blocked or inconclusive (the old one goes on serving)."""

    collection: str
    decision: str
    reasons: list[dict[str, str]]
    index_hash: str
    evaluation: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def decide_generations(workspace: Workspace) -> list[GenerationDecision]:
    """Measure the active config on each waiting generation and let those take over that are proved better.

    A generation is measured once: asked again, the first answer stands. Each measurement uses the holdout.
    """
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        waiting = candidates(connection)
    return [_decide(workspace, name) for name in waiting]


def accept_generations(workspace: Workspace, names: list[str], reason: str, by: str) -> None:
    """Record that a person let the new generations serve without proof."""
    for name in names:
        audit.append(workspace, KIND, collection=name, decision="accepted", reason=reason, by=by)


def _decide(workspace: Workspace, collection: str) -> GenerationDecision:
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        found = find_generation(connection, collection, "candidate")
    assert found is not None
    for entry in audit.entries(workspace, KIND):
        if entry.get("index_hash") == found.index_hash and entry["collection"] == collection:
            return GenerationDecision(
                collection, entry["decision"], entry["reasons"], found.index_hash, entry["evaluation"]
            )
    decision = _measure(workspace, collection, found.index_hash)
    audit.append(workspace, KIND, **decision.to_json())
    if decision.decision == "passed":
        with workspace.exclusive("switching the index"), closing(connect(workspace.database)) as connection:
            promote(workspace, connection, collection)
    return decision


def _measure(workspace: Workspace, collection: str, index_hash: str) -> GenerationDecision:
    def unproved(why: str) -> GenerationDecision:
        return GenerationDecision(collection, "inconclusive", [{"code": "HIVE-306", "message": why}], index_hash, None)

    active = find_active(workspace)
    try:
        golden = load_golden(workspace)
    except HiveError as error:
        return unproved(f"nothing to measure with: {error.diagnostics[0].message}")
    if active is None or active.stored.config.collection != collection or golden.collection != collection:
        return unproved("no golden set and active config of this collection to measure with")
    measured = golden.split("holdout") if golden.has_holdout else golden
    use = spend(workspace, measured, "index") if golden.has_holdout else None
    config = active.stored.config
    old = evaluate(workspace, config, golden=measured, engine=SearchEngine(workspace))
    new = evaluate(workspace, config, golden=measured, engine=SearchEngine(workspace, state="candidate"))
    alpha = use.alpha if use else workspace.settings.gate.alpha
    difference = paired_difference(old.scores(), new.scores(), alpha=alpha)
    evaluation = {
        "n": len(measured),
        "old": old.metrics,
        "new": new.metrics,
        "difference": difference.to_json(),
        "alpha": alpha,
        "j": use.j if use else None,
    }
    blocked = [reason.to_json() for reason in regressions(new, old, workspace.settings.gate)]
    if blocked:
        return GenerationDecision(collection, "blocked", blocked, index_hash, evaluation)
    if difference.p_value <= alpha and not (use and use.exhausted):
        return GenerationDecision(collection, "passed", [], index_hash, evaluation)
    reason = {"code": "HIVE-306", "message": inconclusive_reason(difference, alpha)}
    return GenerationDecision(collection, "inconclusive", [reason], index_hash, evaluation)
