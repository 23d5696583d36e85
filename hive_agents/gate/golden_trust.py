"""Acceptance of the golden set by people: after an unaccepted change agents' deployments are inconclusive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError
from hive_agents.documents import MOVED_DOCUMENTS
from hive_agents.evaluation import FILE, GoldenSet, concealed, hash_before, load_golden
from hive_agents.store import audit
from hive_agents.workspace import Workspace

KIND = "golden_accepted"


def accept(workspace: Workspace, golden: GoldenSet, by: str, reason: str) -> None:
    """Record that a person accepts the golden set as it is now."""
    audit.append(workspace, KIND, file=golden.file, hash=golden.hash, by=by, reason=reason)


def is_accepted(workspace: Workspace, golden: GoldenSet) -> bool:
    """Return whether the golden set is unchanged since its acceptance, which the first use in a workspace is.

    Labels that followed moved documents are no change. A second file is not accepted by its first use: an agent could
    write one.
    """
    entries = audit.recorded(workspace, KIND)
    if not entries:
        accept(workspace, golden, "user:local", "first use")
        return True
    known = [entry for entry in entries if entry["file"] == golden.file]
    if not known or known[-1]["hash"] == golden.hash:
        return bool(known)
    return bool(known[-1]["hash"] == _hash_before_moves(workspace, golden, known[-1]["seq"]))


def _hash_before_moves(workspace: Workspace, golden: GoldenSet, seq: int) -> str | None:
    moves = [entry["moves"] for entry in audit.recorded(workspace, MOVED_DOCUMENTS) if entry["seq"] > seq]
    return hash_before(workspace, golden, moves) if moves else None


def label(
    workspace: Workspace,
    query: str,
    collection: str,
    *,
    by: str,
    reason: str,
    viewer: Principal | None,
    relevant: Sequence[str],
    distractors: Sequence[str],
    irrelevant: Sequence[str] | None,
    tags: Sequence[str] = (),
    split: str | None = None,
    path: Path | None = None,
) -> dict[str, Any]:
    """Write a query's labels as `save_label`; a set that was accepted stays so where a person labels, by `reason`.

    Raises: as `save_label`.
    """
    from hive_agents.evaluation import labelling  # which needs the search, and a gate over files none

    try:
        exists = (path or workspace.root / FILE).exists()
        trusted = not exists or is_accepted(workspace, load_golden(workspace, path))
        entry = labelling.save_label(
            workspace,
            query,
            collection,
            relevant=relevant,
            distractors=distractors,
            irrelevant=irrelevant,
            tags=tags,
            split=split,
            path=path,
            viewer=viewer,
        )
        if trusted and by.startswith("user:"):
            accept(workspace, load_golden(workspace, path), by, reason)
    except HiveError as error:
        raise error if viewer is None else concealed(error) from None
    return entry


def change_warning(golden: GoldenSet) -> Diagnostic:
    return Diagnostic(
        "HIVE-306",
        f"no person has accepted {golden.file} as it is now; until then agents' deployments are inconclusive",
        golden.file,
        "$",
        "look at the change, then run `hive evaluate --accept-golden`",
        severity="warning",
    )
