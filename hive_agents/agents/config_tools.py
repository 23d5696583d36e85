"""Tools over retrieval configs: the verbs of the command line, for an agent that works for an operator.

Nothing here shows the holdout, replaces a file, or changes what serves without the gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hive_agents import evaluation, gate, ranking
from hive_agents.access import Principal, ViewGate, owner
from hive_agents.agents.tool import ToolContext
from hive_agents.approvals import PatchError, patched
from hive_agents.base import HiveError, has_errors
from hive_agents.base.files import NAME_PATTERN, atomic_write_text, load_value, read_bytes
from hive_agents.evaluation import OpenSplit
from hive_agents.memory import ToolResult
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.evaluation import GoldenSet, results
    from hive_agents.ranking import StoredConfig

ROLES = frozenset({"operator", "admin"})
LISTED = 10


def validate_config(name: str, context: ToolContext) -> ToolResult:
    """Check a config: syntax and sense. Every finding has a code, a place and a way to mend it.

    Args:
        name: The config's name, or "active".
    """
    workspace = _operated(context)
    try:
        findings = ranking.check_config(workspace, _config(workspace, name), viewer=_viewer(context))
    except HiveError as error:
        findings = error.diagnostics
    return _told({"ok": not has_errors(findings), "diagnostics": [finding.to_json() for finding in findings]})


def evaluate_config(name: str, context: ToolContext, split: OpenSplit = "validation") -> ToolResult:
    """Measure a config against the golden set: nUDCG, distractors, tags, and the queries it does worst on.

    Args:
        name: The config's name, or "active".
        split: The queries to measure on; look for ideas in train, check them on validation.
    """
    workspace = _operated(context)
    ranking.build_index(workspace)
    golden = _part(context, split)
    viewer = _viewer(context)
    stored = _sound(workspace, name, golden, viewer)
    result = evaluation.evaluate(workspace, config=stored.config, golden=golden, reader=viewer)
    worst = sorted(result.queries, key=lambda query: query.nudcg)[:LISTED]
    return _told(
        {
            "config": result.config,
            "split": split,
            "n": len(result.queries),
            "metrics": result.metrics,
            "tags": result.tags,
            "worst": _viewed(context, worst),
        }
    )


def compare_configs(a: str, b: str, context: ToolContext, split: OpenSplit = "validation") -> ToolResult:
    """Measure two configs side by side; every difference is B minus A.

    Args:
        a: The config to compare with, mostly "active".
        b: The other one.
        split: The queries to measure on.
    """
    workspace = _operated(context)
    ranking.build_index(workspace)
    golden = _part(context, split)
    viewer = _viewer(context)
    first, second = (_sound(workspace, name, golden, viewer) for name in (a, b))
    engine = ranking.SearchEngine(workspace)
    comparison = evaluation.compare(engine, first.config, second.config, golden, reader=viewer).to_json()
    changed = sorted(
        (query for query in comparison["queries"] if query["delta"]), key=lambda query: -abs(query["delta"])
    )
    return _told({**comparison, "split": split, "queries": changed[:LISTED]})


def propose_config(
    name: str, changes: dict[str, Any], reason: str, context: ToolContext, parent: str = "active"
) -> ToolResult:
    """Write a new config: a copy of its parent with some changes. It serves nobody until it is deployed.

    Args:
        name: A new name, such as v2-short.
        changes: What differs, merged into the parent: {"retrieval": {"top_k": 5}}; null removes a key.
        reason: One sentence of why; kept as the config's description.
        parent: The config to start from.
    """
    workspace = _operated(context)
    base = _config(workspace, parent)
    described = {"name": _name(name), "parent": base.name, "description": reason}
    try:
        value = patched(json.loads(base.text), changes) | described
    except PatchError as error:
        raise HiveError.of("HIVE-409", str(error), fix="give an object of what differs") from None
    file = f"configs/{name}.json"
    stored = ranking.stored_from(load_value(ranking.RetrievalConfig, value, file), file)
    ranking.require_sound(workspace, stored, viewer=_viewer(context))
    with workspace.exclusive("proposing a config"):
        path = workspace.configs / f"{name}.json"
        if not path.exists() and not path.is_symlink():
            atomic_write_text(path, stored.text)
        # A process that died before its result was recorded finds its own file when it retries.
        elif path.is_symlink() or read_bytes(path) != stored.text.encode():
            raise HiveError.of("HIVE-111", f'there is a config "{name}" already', file=file, fix="choose another name")
    return _told({"config": name, "parent": base.name, "file": file, "changes": changes})


def deploy_config(name: str, reason: str, context: ToolContext) -> ToolResult:
    """Put a config through the deploy gate, and let it serve if it is proved better than the active one.

    Each deploy spends a use of the holdout: compare on validation first, and don't repeat one without a change.

    Args:
        name: The config's name.
        reason: One sentence of why; kept in the history.
    """
    workspace = _operated(context)
    ranking.build_index(workspace)
    golden = evaluation.load_golden(workspace)
    stored = _sound(workspace, name, golden, _viewer(context))
    active = ranking.find_active(workspace)
    if active is None:
        fix = "let a person run `hive deploy CONFIG` first: then there is something to be better than"
        raise HiveError.of("HIVE-408", "nothing is deployed yet, and a first deployment proves nothing", fix=fix)
    # One use of the holdout for each config of a run: resuming the run counts no second one.
    use = f"{context.run_id}:{stored.hash}" if context.run_id else None
    result = gate.gate.run_gate(
        workspace,
        ranking.SearchEngine(workspace),
        stored,
        active.stored,
        golden,
        purpose="agent",
        run_id=use,
        agent=True,
    )
    viewer = _viewer(context)
    engine = ranking.SearchEngine(workspace)
    told = result if viewer is None else gate.gate.as_seen(workspace, engine, result, stored, active.stored, viewer)
    passed = result.decision == "passed"
    if passed:
        by = f"agent:{context.agent_id or 'unknown'}"
        gate.switch(workspace, stored, result.record(), decision=result.decision, via="deploy", reason=reason, by=by)
    return _told(
        {
            "decision": result.decision,
            "reasons": [one.to_json() for one in told.reasons],
            "deployed": stored.name if passed else None,
            "previous": active.stored.name,
            "evaluation": told.to_json(),
        }
    )


def _operated(context: ToolContext) -> Workspace:
    """Return the workspace, where the run's principal may measure and deploy. Raises: HIVE-409."""
    if context.principal is None or not ROLES & context.principal.roles:
        fix = "let somebody with the role operator or admin start the run"
        raise HiveError.of("HIVE-409", "only for an operator an agent works on configs", fix=fix)
    return context.workspace


def _name(name: str) -> str:
    if not re.fullmatch(NAME_PATTERN, name) or name == "active":
        fix = 'use lower-case letters, digits, ".", "_" and "-"; "active" is reserved'
        raise HiveError.of("HIVE-113", f"{name!a:.80} can't be a config's name", fix=fix)
    return name


def _config(workspace: Workspace, name: str) -> StoredConfig:
    """Return a config by its name; paths are refused, so that an agent reaches no other file."""
    return ranking.named_config(workspace, name if name == "active" else _name(name))


def _viewer(context: ToolContext) -> Principal | None:
    """Return whom measurements are for; None is the workspace's owner."""
    return None if context.principal == owner() else context.principal


def _sound(workspace: Workspace, name: str, golden: GoldenSet, viewer: Principal | None) -> StoredConfig:
    stored = _config(workspace, name)
    ranking.require_sound(workspace, stored, judged=golden.collection, viewer=viewer)
    return stored


def _part(context: ToolContext, split: OpenSplit) -> GoldenSet:
    """Return the split's queries that the run's principal may know."""
    golden = evaluation.viewable_golden(context.workspace, _viewer(context))
    part = golden.split(split)
    if not len(part):
        fix = 'give queries of the golden set a "split"'
        raise HiveError.of("HIVE-409", f'the golden set has no split "{split}"', file=golden.file, fix=fix)
    return part


def _viewed(context: ToolContext, queries: Sequence[results.QueryEvaluation]) -> list[dict[str, Any]]:
    """Return the queries with those hits only that the run's principal may view."""
    assert context.principal is not None
    gate = ViewGate.of(context.workspace, context.principal)
    may = gate.allowed([hit.doc_id for query in queries for hit in query.hits])
    values = [query.to_json() for query in queries]
    return [value | {"hits": [hit for hit in value["hits"] if hit["doc_id"] in may]} for value in values]


def _told(value: dict[str, Any]) -> ToolResult:
    return ToolResult(json.dumps(value, ensure_ascii=False, indent=1, default=str))
