"""The end of a run: the gate reads the holdout, and deploys what it proves better."""

from __future__ import annotations

from typing import Any

from hive_agents.evaluation import load_golden, needed_queries, paired_difference, spent_alpha
from hive_agents.optimizer.session import ConfigData, OptimizerSession
from hive_agents.optimizer.space import parsed
from hive_agents.optimizer.splits import LEAST, golden_size, split
from hive_agents.retrieval import SearchEngine, find_active
from hive_agents.verification import run_gate, switch


def certify_on_holdout(session: OptimizerSession, name: str, run_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what a report shows, what a deployment records). The same run uses the holdout once, however often it dies."""
    golden = load_golden(session.workspace, session.golden_path)
    active = find_active(session.workspace)
    result = run_gate(
        session.workspace,
        SearchEngine(session.workspace),
        session.stored(name),
        active.stored if active else None,
        golden,
        holdout=split(golden).holdout,
        purpose="optimize",
        run_id=run_id,
        agent=True,
    )
    d = result.difference
    certificate = {
        "decision": result.decision,
        "reasons": [reason.to_json() for reason in result.reasons],
        "watch": [change.to_json() for change in result.watch],
        "n": len(result.candidate.queries),
        "before": result.active.metrics["nudcg"] if result.active else None,
        "after": result.candidate.metrics["nudcg"],
        "distractors_before": result.active.metrics["distractors"] if result.active else None,
        "distractors_after": result.candidate.metrics["distractors"],
        "lost_tags": [change.tag for change in result.lost_tags],
        "difference": d.difference if d else None,
        "ci95": list(d.ci95) if d else None,
        "p_value": d.p_value if d else None,
        "alpha": result.alpha,
        "j": result.use.j if result.use else None,
        "mde": d.mde if d else None,
        "needed_queries": result.needed_queries,
        "measurable": result.measurable,
    }
    return certificate, result.record()


def queries_to_certify(session: OptimizerSession, best: ConfigData) -> int:
    """About how many queries more it takes to certify a gain like that on the open queries, at least.

    At least, because the open queries are those that it was tuned on; and no golden set under 20 is split at all.
    """
    alpha = spent_alpha(1, session.workspace.settings.gate.alpha)
    old, new = session.baseline_measured.nudcg.tolist(), session.remeasure(parsed(best)).nudcg.tolist()
    found = paired_difference(old, new, alpha=alpha)
    held_out = found.n + (needed_queries(found, alpha) or 0)
    return max(LEAST, golden_size(held_out)) - found.n


def deploy_certified(session: OptimizerSession, name: str, evaluation: dict[str, Any], run_id: str) -> None:
    """Switch to a certified config. Raises: HIVE-307 where another deployment came in between."""
    switch(
        session.workspace,
        session.stored(name),
        evaluation,
        decision="passed",
        via="optimize",
        reason=f"certified by run {run_id}",
        by="agent:optimizer",
    )
