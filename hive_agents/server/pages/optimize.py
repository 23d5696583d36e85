"""Optimization: the optimizer's runs, their trials, comparisons, and the deployment of configs."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import Any

from hive_agents.base import HiveError, NotFound
from hive_agents.optimizer import report
from hive_agents.server import configs, golden, runs
from hive_agents.server.api import checked
from hive_agents.server.auth import OPERATOR, Call
from hive_agents.server.pages.view import Pages
from hive_agents.server.shapes import PageQuery

pages = Pages()
TRIALS = 50
"""Rows on one page of the table of trials; the chart has all of them."""
BUDGETS = ("iterations", "patience", "seconds", "evaluations", "llm_calls", "max_usd", "seed")


@pages.get("/optimize", OPERATOR, "optimize.html")
def overview(call: Call) -> dict[str, Any]:
    """The configs, the optimizer's runs, and the history of deployments."""
    parameters = call.request.query_params
    wanted = {"graph": "optimizer", "limit": 20, "cursor": parameters.get("cursor")}
    return {
        "configs": (listed := configs.list_configs(call)),
        "made": {one.name: _from_parent(call, one.name) for one in listed.configs if not one.error},
        "budgets": BUDGETS,
        "labelled": _is_labelled(call),
        "missing": golden.labels_left(call)[1],
        "found": runs.list_runs(call, checked(runs.RunsPage, wanted)),
        "reads_all": call.reaches() is None,
        "history": configs.history(call, checked(PageQuery, {"limit": 20, "cursor": parameters.get("before")})),
    }


@pages.get("/optimize/{run_id}", OPERATOR, "optimization.html")
def search(call: Call, run_id: str) -> dict[str, Any]:
    """One run of the optimizer; figures of the holdout are in the certificate alone."""
    progress = runs.show_trials(call, run_id, runs.TrialsPage(limit=1))
    result = progress.result or {}
    best = (result.get("best") or {}).get("config")
    better = best if result and best != result["baseline"]["config"] else None
    return {
        "found": progress,
        "result": result,
        "best": better,
        "figures": report.reader_figures(result) if better else [],
        "declarable": report.declarable(result),
        "proved": (result.get("certificate") or {}).get("decision") == "passed",
        "seen": _seen(call, better) if better is not None else None,
        "active": configs.list_configs(call).active,
    }


@pages.get("/optimize/{run_id}/trials", OPERATOR, "optimization_trials.html")
def trials(call: Call, run_id: str) -> dict[str, Any]:
    """The table of trials, the newest first."""
    verdict = call.request.query_params.get("verdict")
    before = call.request.query_params.get("before")
    parameters: dict[str, Any] = {"limit": TRIALS, "newest": True, "verdict": verdict, "before": before}
    query = checked(runs.TrialsPage, {name: value for name, value in parameters.items() if value})
    page = runs.show_trials(call, run_id, query)
    return {"found": page, "run_id": run_id, "verdict": verdict or ""}


@pages.get("/optimize/compare/{before}/{after}", OPERATOR, "optimization_queries.html")
def queries(call: Call, before: str, after: str) -> dict[str, Any]:
    """The labelled hits of two configs for each open query, of those that the reader may view."""
    compared = configs.compare_configs(call, checked(configs.Compare, {"a": before, "b": after}))
    rows = [row | {"hits": {side: _documents(hits) for side, hits in row["hits"].items()}} for row in compared.queries]
    return {
        "rows": sorted(rows, key=lambda row: -abs(row["delta"])),
        "better": sum(row["delta"] > 0 for row in rows),
        "worse": sum(row["delta"] < 0 for row in rows),
        "found": compared,
    }


@pages.get("/optimize/configs/{name}", OPERATOR, "config.html")
def config(call: Call, name: str) -> dict[str, Any]:
    """A config as stored in its file, its differences from the active one, and its diagnostics."""
    shown, active = configs.show_config(call, name), configs.list_configs(call).active
    text = json.dumps(shown.config, ensure_ascii=False, indent=2)
    context: dict[str, Any] = {
        "shown": shown,
        "active": active,
        "about": "" if _from_parent(call, name) else shown.config.get("description"),
        "text": text,
        "changes": [],
        "seen": _seen(call, name),
        "proved": _proved(call, shown.hash),
    }
    try:
        checked = configs.validate(call, name)
        if active is not None and active != shown.name:
            context["changes"] = configs.config_changes(call, name, configs.Since(since=active)).changes
    except HiveError as error:
        return context | {"diagnostics": error.diagnostics}
    return context | {"diagnostics": checked.diagnostics}


def _from_parent(call: Call, name: str) -> list[dict[str, Any]]:
    """Return a config's changes from the one that it was made from; none where that is gone, or where it has none."""
    parent = configs.show_config(call, name).config.get("parent")
    with suppress(HiveError):
        return configs.config_changes(call, name, configs.Since(since=parent)).changes if parent else []
    return []


def _proved(call: Call, config_hash: str) -> bool:
    """Return whether the gate passed a config, as it is now, when it was last put to use."""
    with suppress(NotFound):
        versions = configs.history(call, PageQuery(limit=100)).versions
        return any(one.config_hash == config_hash and one.decision == "passed" for one in versions)
    return False


def _is_labelled(call: Call) -> bool:
    try:
        labelled = golden.golden(call)
    except NotFound:
        return False
    return bool(labelled.queries or labelled.holdout)


def _documents(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first hit of each document, with the number of its passages that were found."""
    passages = Counter(hit["doc_id"] for hit in hits)
    return [hit | {"passages": passages[hit["doc_id"]]} for hit in hits if hit["label"] != "repeat"]


def _seen(call: Call, name: str) -> dict[str, Any]:
    """Return the hash of a config and the id of the active one, to deploy exactly what the person saw."""
    with suppress(NotFound):
        newest = configs.history(call, PageQuery(limit=1)).versions
        return {"hash": configs.show_config(call, name).hash, "of": newest[0].id if newest else 0}
    return {"hash": "", "of": 0}
