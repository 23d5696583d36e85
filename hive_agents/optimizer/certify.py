"""The end of a run: the gate decides on the holdout, and a config that passes is deployed."""

from __future__ import annotations

from typing import Any

from hive_agents.evaluation import held_out, load_golden, missing_labels, spent_alpha, statistics
from hive_agents.gate import gate, switch
from hive_agents.optimizer.session import ConfigData, OptimizerSession
from hive_agents.optimizer.space import parsed
from hive_agents.ranking import RetrievalConfig, SearchEngine, find_active


def certify_on_holdout(session: OptimizerSession, name: str, run_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the certificate and the evaluation for a deployment's record; even a resumed run uses the holdout once."""
    golden = load_golden(session.workspace, session.golden_path)
    active, stored = find_active(session.workspace), session.stored(name)
    engine, holdout = SearchEngine(session.workspace, session.reranker), held_out(golden)
    if stored.config.rerank.enabled and holdout is not None:
        engine.run(holdout.texts, stored.config)  # before the holdout is used up: an outage is no evidence
    result = gate.run_gate(
        session.workspace,
        engine,
        stored,
        active.stored if active else None,
        golden,
        purpose="optimize",
        run_id=run_id,
        agent=True,
    )
    record, before = result.record(), active.stored if active else None
    if session.viewer is not None:
        result = gate.as_seen(session.workspace, engine, result, stored, before, session.viewer)
    difference = result.difference
    certificate = {
        "decision": result.decision,
        "reasons": [reason.to_json() for reason in result.reasons],
        "watch": [change.to_json() for change in result.watch],
        "warnings": [warning.to_json() for warning in result.warnings if warning.code != "HIVE-303"],
        "n": len(result.candidate.queries),
        "left_out": {cause: list(ids) for cause, ids in result.left_out.items()},
        "named": golden.has_holdout,
        "before": result.active.metrics["nudcg"] if result.active else None,
        "after": result.candidate.metrics["nudcg"],
        "distractors_before": result.active.metrics["distractors"] if result.active else None,
        "distractors_after": result.candidate.metrics["distractors"],
        "recall_before": result.active.metrics["recall"] if result.active else None,
        "recall_after": result.candidate.metrics["recall"],
        "readers": result.readers.to_json() if result.readers else None,
        "lost_readers": list(result.lost_readers),
        "lost_tags": [change.tag for change in result.lost_tags],
        "difference": difference.difference if difference else None,
        "ci95": list(difference.ci95) if difference else None,
        "p_value": difference.p_value if difference else None,
        "alpha": result.alpha,
        "j": result.use.j if result.use else None,
        "mde": difference.mde if difference else None,
        "needed_queries": result.needed_queries,
        "measurable": result.measurable,
        "rerank": _reranking(session, stored.config, result) if stored.config.rerank.enabled else None,
    }
    return certificate, record


def _reranking(session: OptimizerSession, config: RetrievalConfig, result: gate.GateResult) -> dict[str, Any]:
    """Return the cost of reranking: milliseconds of whole searches, and dollars estimated from the length sent."""
    assert session.reranker is not None
    queries = result.candidate.queries
    sent = session.reranker.characters_sent([query.query.query for query in queries])
    used, before = session.rerank_usage(sent), result.active.metrics if result.active else {}
    return {
        "model": session.reranker.model_id,
        "candidates": config.rerank.candidates,
        "latency_ms_p50": result.candidate.metrics["latency_ms_p50"],
        "latency_ms_p95": result.candidate.metrics["latency_ms_p95"],
        "latency_ms_p95_before": before.get("latency_ms_p95"),
        "usd_per_query": used.usd / len(queries) if used.priced else None,
    }


def queries_to_certify(session: OptimizerSession, best: ConfigData) -> int:
    """Return roughly how many more queries it takes, at least, to certify the gain that `best` has on the open queries.

    It is a lower bound, as `best` was tuned on these queries.
    """
    alpha = spent_alpha(1, session.workspace.settings.gate.alpha)
    old, new = session.baseline_measured.nudcg.tolist(), session.remeasure(parsed(best)).nudcg.tolist()
    difference = statistics.paired_difference(old, new, alpha=alpha)
    wanted = difference.n + (statistics.needed_queries(difference, alpha) or 0)
    return missing_labels(load_golden(session.workspace, session.golden_path), wanted)


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
