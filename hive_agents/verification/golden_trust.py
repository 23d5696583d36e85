"""Acceptance of the golden set by people: after an unaccepted change agents' deployments are inconclusive."""

from __future__ import annotations

from hive_agents.errors import Diagnostic
from hive_agents.evaluation import GoldenSet
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


def change_warning(golden: GoldenSet) -> Diagnostic:
    return Diagnostic(
        "HIVE-306",
        f"no person has accepted {golden.file} as it is now; until then agents' deployments are inconclusive",
        golden.file,
        "$",
        "look at the change, then run `hive evaluate --accept-golden`",
        severity="warning",
    )
