"""The result of a run as one JSON value, and its sentences for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hive_agents.index import HALF_LIFE
from hive_agents.optimizer.rejected import rejected
from hive_agents.optimizer.session import ConfigData, OptimizerSession
from hive_agents.optimizer.space import parsed
from hive_agents.optimizer.trial import Measured

MOST = 3
ROW = (
    *("n", "config", "changes", "step", "reason", "cause", "proposer"),
    *("train", "validation", "distractors", "verdict", "feedback"),
)


def result_of(session: OptimizerSession, state: Mapping[str, Any], run_id: str, *, interrupted: bool) -> dict[str, Any]:
    """Return the result of a run that ended, or the result so far of an interrupted one."""
    certificate = state.get("certificate")
    best = state.get("best")
    status, stopped_by = state.get("status", "stopped"), state.get("stopped_by")
    if interrupted:
        best = best or (state["incumbent"] if state.get("steps") else None)
        status, stopped_by = "stopped", "interrupted"
    base = _entry(session.baseline.name, [], session.baseline_measured)
    best_entry = base if best is None else _entry(best["name"], session.changes(best), session.remeasure(parsed(best)))
    watch = [] if best is None else session.watched(parsed(best))
    if certificate:
        base = base | {"holdout": certificate["before"]}
        best_entry = best_entry | {"holdout": certificate["after"]}
    rows = [{key: row[key] for key in ROW} for row in state.get("rows", [])]
    evaluations, seconds = session.budget.evaluations, state.get("seconds", 0.0)
    return {
        "run_id": run_id,
        "status": status,
        "baseline": base,
        "best": best_entry,
        "certificate": certificate,
        "needed_queries": certificate["needed_queries"] if certificate else state.get("needed_queries"),
        # A resumed run may find something better.
        "rejected": [] if interrupted else rejected(session, state),
        "watch": [change.to_json() for change in watch],
        "readers": _readers(session, best, certificate),
        "undeclared": undeclared(state.get("rows", [])),
        "iterations": rows,
        "proposer": proposers(rows),
        "usage": session.spending.to_json(),
        "fallbacks": list(state.get("fallbacks", [])),
        "unavailable": state.get("unavailable") or session.unavailable or None,
        "diagnosis": state.get("diagnosis"),
        "first_diagnosis": state.get("first_diagnosis"),
        "first_losses": state.get("first_losses") or [],
        "evaluations": evaluations,
        "evaluations_per_second": round(evaluations / seconds, 1) if seconds else None,
        "stopped_by": stopped_by,
        "search_ended_by": state.get("search_ended_by"),
        "approval_id": state.get("approval_id"),
    }


def _readers(
    session: OptimizerSession, best: ConfigData | None, certificate: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the figures of readers, of the holdout where it was measured, else of the open queries."""
    if certificate:
        figures: dict[str, Any] | None = certificate["readers"]
        return figures
    return None if best is None else session.trial(best).measured.readers(session.baseline_measured)


def undeclared(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the best changes that the owner could allow, at most three, with the gain on open queries.

    `declare` is what the field's schema would have to say.
    """
    found = [
        {"field": change["path"].partition(".")[2], "step": row["step"], "gain": row["gain"], "declare": declare}
        for row in rows
        if row["verdict"] == "undeclared" and row["gain"] and row["gain"] > 0
        for change in row["changes"][:1]
        if (declare := _declaration(change))
    ]
    return sorted(found, key=lambda one: (-one["gain"], one["step"]))[:MOST]


def _declaration(change: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the keys of a field's schema that allow a change; None where none does.

    >>> _declaration({"path": "boosts.status", "a": None, "b": {"retired": 0.3}})
    {'ranks': True}
    >>> _declaration({"path": "filters.status", "a": {"not": ["draft"]}, "b": {"not": ["draft", "retired"]}})
    {'may_hide': ['retired']}
    >>> _declaration({"path": "filters.status", "a": None, "b": ["effective"]})
    """
    if change["path"].startswith("boosts."):
        return {"ranks": True}
    before, after = (value.get("not", []) if isinstance(value, dict) else [] for value in (change["a"], change["b"]))
    hidden = [value for value in after if value not in before]
    return {"may_hide": hidden} if hidden else None


def declarable(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on what the owner could declare.

    >>> ranks = {"field": "a", "step": "retired × 0.3", "gain": 0.04, "declare": {"ranks": True}}
    >>> declarable({"undeclared": [ranks]})
    ['retired × 0.3 (+0.040 on the open queries) would take "ranks": true at a: hive fields --declare a.ranks']
    """
    return [
        f"{one['step']} ({one['gain']:+.3f} on the open queries) would take "
        f"{json.dumps(one['declare'], ensure_ascii=False)[1:-1]} at {one['field']}: hive fields --declare "
        f"{one['field']}.{_option(one['declare'])}"
        for one in result.get("undeclared", ())
    ]


def _option(declare: Mapping[str, Any]) -> str:
    """Return what `hive fields --declare FIELD.` takes.

    >>> _option({"may_hide": ["draft", "retired"]}), _option({"ranks": True})
    ('may_hide=draft,retired', 'ranks')
    """
    return ",".join(f"{key}={','.join(value)}" if isinstance(value, list) else key for key, value in declare.items())


def for_readers(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on what changes for a reader: by the config's changes, and by the figures of the readers.

    >>> change = {"path": "boosts.status", "a": None, "b": {"retired": 0.3}}
    >>> figures = {"answered": [1.0, 0.9], "first": [0.5, 0.6], "reach": None, "hidden": 8}
    >>> for line in for_readers({"best": {"changes": [change]}, "readers": figures}):
    ...     print(line)
    documents with status retired come later
    10 of 100 questions with an answer no longer find it
    10 more of 100 questions with an answer have it at the top
    8 documents could no longer be found
    """
    lines = [line for change in result["best"]["changes"] for line in _change_told(change)] if result["best"] else []
    return lines + [_FIGURES[name].format(number, "s" * (number != 1)) for name, number in reader_figures(result)]


_FIGURES = {
    "answered.gained": "{} more of 100 questions with an answer find it",
    "answered.lost": "{} of 100 questions with an answer no longer find it",
    "first.gained": "{} more of 100 questions with an answer have it at the top",
    "first.lost": "{} fewer of 100 questions with an answer have it at the top",
    "reach.gained": "of 100 documents {} more are found by their title",
    "reach.lost": "of 100 documents {} are no longer found by their title",
    "hidden": "{} document{} could no longer be found",
}


def reader_figures(result: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return what changes in the figures of readers: which figure, gained or lost, and how many of a hundred.

    >>> reader_figures({"readers": {"answered": [1.0, 0.9], "first": [0.5, 0.6], "reach": None, "hidden": 8}})
    [('answered.lost', 10), ('first.gained', 10), ('hidden', 8)]
    """
    figures = result.get("readers") or {}
    found = []
    for name in ("answered", "first", "reach"):
        before, after = figures.get(name) or (0.0, 0.0)
        if number := round(100 * abs(after - before)):
            found.append((f"{name}.{'gained' if after > before else 'lost'}", number))
    return found + ([("hidden", figures["hidden"])] if figures.get("hidden") else [])


def _change_told(change: Mapping[str, Any]) -> Iterator[str]:
    """Yield what one change of a config does to lists; nothing for one that only weighs otherwise."""
    block, _, name = change["path"].partition(".")
    after = change["b"]
    if block == "boosts" and isinstance(after, dict):
        for value, factor in after.items():
            if value == HALF_LIFE:
                yield f"documents of an older date ({name}) come later"
            elif factor != 1:
                yield f"documents with {name} {value} come {'later' if factor < 1 else 'earlier'}"
    elif block == "filters":
        values = after.get("not") if isinstance(after, dict) else None
        shown = ", ".join(map(str, values or ()))
        yield f"documents with {name} {shown} are hidden" if values else f"{name} is filtered otherwise"
    elif change["path"] == "retrieval.top_k":
        yield f"lists have up to {after} passages instead of {change['a']}"
    elif change["path"] == "retrieval.per_document" and after:
        yield f"each document stands in a list at most {'once' if after == 1 else f'{after} times'}"
    elif change["path"] == "rerank.enabled":
        yield "a reranker orders the first passages" if after else "no reranker orders the passages"


def proposers(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the proposers of the measured configs: heuristic, model, or model+heuristic.

    >>> proposers([{"proposer": "heuristic", "train": 0.5}, {"proposer": "model", "train": None}])
    'heuristic'
    """
    measured = {row["proposer"] for row in rows if row["train"] is not None}
    return "+".join(sorted(measured or {"heuristic"}, reverse=True))


def proposed_by(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the proposers, the model's cost, and when and why the heuristic replaced the model."""
    usage, fallbacks = result["usage"], result["fallbacks"]
    outage = [f"the reranker is unavailable: {result['unavailable']}"] if result["unavailable"] else []
    if not usage["input_tokens"] and not usage["model_calls"] and not fallbacks:
        return outage
    price = f"${usage['usd']:.4f}" if usage["priced"] else "price not known"
    tokens = f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    lines = [*outage, f"proposed by {result['proposer']}; {usage['model_calls']} model calls, {tokens}, {price}"]
    if fallbacks:
        iterations: dict[str, list[str]] = {}
        for one in fallbacks:
            iterations.setdefault(one["reason"], []).append(str(one["iteration"]))
        reasons = [
            f"iteration{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {reason}"
            for reason, numbers in iterations.items()
        ]
        lines.append(f"heuristic instead of the model in {'; '.join(reasons)}")
    return lines


def reranking(certificate: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the cost of the certified config's reranker; none without reranking.

    >>> reranking({"rerank": {"model": "lab:m", "candidates": 20, "latency_ms_p50": 80.0, "latency_ms_p95": 120.0,
    ...                       "latency_ms_p95_before": 9.0, "usd_per_query": 0.0001}})
    ['lab:m reranks 20 candidates: 120 ms a search (p95; before: 9 ms), $0.00010 a query']
    """
    cost = certificate.get("rerank")
    if not cost:
        return []
    was = cost["latency_ms_p95_before"]
    before = "" if was is None else f"; before: {was:.0f} ms"
    price = "price not known" if cost["usd_per_query"] is None else f"${cost['usd_per_query']:.5f} a query"
    took = f"{cost['latency_ms_p95']:.0f} ms a search (p95{before})"
    return [f"{cost['model']} reranks {cost['candidates']} candidates: {took}, {price}"]


def missing(result: Mapping[str, Any]) -> str | None:
    """Return what it takes to show the gain of a candidate with too few queries; None for other results."""
    if result["stopped_by"] != "too_few_queries":
        return None
    needed, certificate = result["needed_queries"], result["certificate"]
    if certificate is None:
        told = f"about {needed} more labels would show a gain like this one"
        return f"too few questions are held out to prove anything: {told}"
    change = f"so few of the {certificate['n']} held-out queries change that nothing could be proof"
    return change if needed is None else f"{change}: about {needed} more of them would show this gain"


def ending(result: Mapping[str, Any]) -> str:
    """Return the decision on the request to deploy a config that the gate didn't pass."""
    decision, request = result["decision"], result["approval_id"]
    status = f"request {request} {'was' if decision['status'] != 'expired' else 'has'} {decision['status']}"
    by = f" by {decision['by']}" if decision["by"] else ""
    return f"{status}{by}" + (f": {decision['reason']}" if decision["reason"] else "")


def _entry(name: str, changes: list[dict[str, Any]], measured: Measured) -> dict[str, Any]:
    return {
        "config": name,
        "changes": changes,
        "train": measured.train_nudcg,
        "validation": measured.validation_nudcg,
        "holdout": None,
        "distractors": measured.distractors,
    }
