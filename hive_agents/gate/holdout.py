"""The part of a golden set that a command may measure, and the cost of a look at the holdout."""

from __future__ import annotations

from pathlib import Path

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError
from hive_agents.evaluation import GoldenSet, held_out, load_golden, spent_alpha, viewable_golden
from hive_agents.gate.certificate import log_verdict
from hive_agents.gate.ledger import MAX_USES, looks, spend
from hive_agents.store import audit
from hive_agents.workspace import Workspace


def cost_of_look(workspace: Workspace, golden: GoldenSet) -> str | None:
    """Return the cost of the next look at a golden set's holdout; None without one, or when it is used up."""
    before = looks(workspace, golden)
    if held_out(golden) is None and not before:
        return None
    j, alpha = len(before) + 1, workspace.settings.gate.alpha
    if j > MAX_USES:
        return None
    later = f", at {spent_alpha(j + 1, alpha):.4f} in the look after it" if j < MAX_USES else ", and it is the last"
    return (
        f"the next look at the holdout is number {j} of {MAX_USES}, also where the same comparison was made before:"
        f" a gain has to be proved at {spent_alpha(j, alpha):.4f}{later}"
    )


def visible_part(
    workspace: Workspace, path: Path | None, split: str | None, purpose: str, viewer: Principal | None = None
) -> tuple[GoldenSet, str | None, list[Diagnostic]]:
    """Return the queries to measure, the split whose queries may not be listed, and diagnostics.

    The queries are those that `viewer` may know, as for `viewable_golden`. Without a split all of them count and the
    holdout's stay unlisted. Asking for the holdout spends a use.
    Raises: HIVE-409 for an unknown or empty split, HIVE-413 for the holdout where a broken log can't count its uses.
    """
    golden = viewable_golden(workspace, viewer, path)
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
    # Whoever looks at a part of the holdout has looked at it.
    whole = chosen if viewer is None else load_golden(workspace, path).split("holdout")
    use = spend(workspace, whole, purpose)
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
