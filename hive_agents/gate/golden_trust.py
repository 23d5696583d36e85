"""Acceptance of the golden set by people: after an unaccepted change agents' deployments are inconclusive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError
from hive_agents.evaluation import FILE, GoldenSet, concealed, load_golden
from hive_agents.store import audit
from hive_agents.workspace import Workspace

KIND = "golden_accepted"


def accept(workspace: Workspace, golden: GoldenSet, by: str, reason: str) -> None:
    """Record that a person accepts the golden set as it is now."""
    audit.append(workspace, KIND, file=golden.file, hash=golden.hash, by=by, reason=reason)


def is_accepted(workspace: Workspace, golden: GoldenSet) -> bool:
    """Return whether the golden set is unchanged since its acceptance; the first use in a workspace is one.

    A second file is not accepted by its first use: an agent could write one.
    """
    entries = audit.recorded(workspace, KIND)
    if not entries:
        accept(workspace, golden, "user:local", "first use")
        return True
    known = [entry["hash"] for entry in entries if entry["file"] == golden.file]
    return bool(known and known[-1] == golden.hash)


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
    from hive_agents.evaluation import save_label  # which needs the search, and a gate over files none

    try:
        exists = (path or workspace.root / FILE).exists()
        trusted = not exists or is_accepted(workspace, load_golden(workspace, path))
        entry = save_label(
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
