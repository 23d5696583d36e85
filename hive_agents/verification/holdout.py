"""The holdout as a budget: each look at it spends some of the right to be believed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents.errors import Diagnostic, HiveError
from hive_agents.evaluation import GoldenSet, load_golden, question_key, spent_alpha
from hive_agents.files import locked
from hive_agents.store import audit
from hive_agents.verification.certificate import log_verdict
from hive_agents.workspace import Workspace

MAX_USES = 10
KIND = "holdout_use"


@dataclass(frozen=True)
class HoldoutUse:
    """The `j`-th look at a holdout, and the level that a test on it may claim."""

    j: int
    alpha: float

    @property
    def exhausted(self) -> bool:
        return self.j > MAX_USES


def query_hashes(golden: GoldenSet) -> list[str]:
    """Identity of a holdout: its set of query texts, without case, punctuation and spacing."""
    texts = {question_key(query.query) for query in golden}
    return sorted(hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts)


def distinct(golden: GoldenSet) -> tuple[GoldenSet, list[Diagnostic]]:
    """Each text once, with a warning if one stands there again: a copied query would be counted as more evidence."""
    first: dict[tuple[str, str | None], str] = {}
    for query in golden:
        first.setdefault((question_key(query.query), query.principal), query.id)
    again = len(golden) - len(first)
    if not again:
        return golden, []
    message = f"{again} of the queries repeat the text of another; a text counts once, as it stands first"
    fix = "remove the copies, or ask in other words"
    return golden.only(first.values()), [
        Diagnostic("HIVE-111", message, golden.file, "queries", fix, severity="warning")
    ]


def was_held_out(workspace: Workspace, golden: GoldenSet) -> bool:
    """Whether these queries were used as a named holdout before: taking the mark away doesn't make them fresh."""
    # Where nobody names a holdout an optimizer's run makes one, and the gate goes on measuring all queries.
    return any(entry["purpose"] != "optimize" for entry in uses(workspace, golden))


def uses(workspace: Workspace, holdout: GoldenSet) -> list[dict[str, Any]]:
    """The looks at this holdout, or at one that shares over half of it, oldest first."""
    mine = set(query_hashes(holdout))
    return [
        entry
        for entry in audit.entries(workspace, KIND)
        if len(mine.intersection(entry["queries"])) * 2 > min(len(mine), len(entry["queries"]))
    ]


def spend(workspace: Workspace, holdout: GoldenSet, purpose: str, run_id: str | None = None) -> HoldoutUse:
    """Record a use before looking, so that a crash can't make it free; a run that is resumed keeps the one it has.

    Past the last use nothing is recorded.
    """
    with locked(workspace.state / "holdout.lock", "using the holdout"):  # or two would take the same level
        before = uses(workspace, holdout)
        mine = next((entry for entry in before if run_id is not None and entry["run_id"] == run_id), None)
        j = mine["j"] if mine else len(before) + 1
        use = HoldoutUse(j, spent_alpha(j, workspace.settings.gate.alpha))
        if mine is None and not use.exhausted:
            audit.append(workspace, KIND, purpose=purpose, j=j, run_id=run_id, queries=query_hashes(holdout))
    return use


def visible_part(
    workspace: Workspace, path: Path | None, split: str | None, purpose: str
) -> tuple[GoldenSet, str | None, list[Diagnostic]]:
    """The queries to measure, the split whose queries may not be listed, and what to say about it.

    Without a split all queries count and the holdout's stay unlisted. Asking for the holdout spends a use.
    Raises: HIVE-409 for an unknown or empty split, HIVE-413 for the holdout where a broken log can't count its uses.
    """
    golden = load_golden(workspace, path)
    if split is None:
        return golden, "holdout", []
    name = split.lower()
    chosen = golden.split(name) if name in ("train", "validation", "holdout") else None  # type: ignore[arg-type]
    if chosen is None or not len(chosen):
        named = sorted({query.split for query in golden if query.split})
        fix = f"the golden set has: {', '.join(named)}" if named else 'give queries a "split" in the golden set'
        raise HiveError.of("HIVE-409", f'there is no split "{split}"', file=golden.file, path="queries", fix=fix)
    if name != "holdout":
        return chosen, None, []
    if not (verdict := log_verdict(workspace)).ok:
        raise audit.broken(verdict)
    use = spend(workspace, chosen, purpose)
    if use.exhausted:
        message = f"this holdout was used {MAX_USES} times before: it can't prove anything any more"
        return (
            chosen,
            None,
            [Diagnostic("HIVE-308", message, golden.file, "queries", "write new queries", severity="warning")],
        )
    message = f"use {use.j} of {MAX_USES} of this holdout; the gate's next test of it must reach a stricter level"
    fix = "look at train and validation while you work, and leave the holdout to the gate"
    return chosen, None, [Diagnostic("HIVE-308", message, golden.file, "queries", fix, severity="info")]
