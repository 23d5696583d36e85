"""Who says that the golden set is right: a change that no person has accepted caps what an agent may deploy."""

from __future__ import annotations

from hive_agents import audit
from hive_agents.errors import Diagnostic
from hive_agents.evaluation.golden import GoldenSet
from hive_agents.workspace import Workspace

KIND = "golden_accepted"


def accept(workspace: Workspace, golden: GoldenSet, by: str, reason: str) -> None:
    """Record that a person stands behind the golden set as it is now."""
    audit.append(workspace, KIND, file=golden.file, hash=golden.hash, by=by, reason=reason)


def is_accepted(workspace: Workspace, golden: GoldenSet) -> bool:
    """Whether nothing changed since the last acceptance; the first use of a golden set is one."""
    known = [entry["hash"] for entry in audit.entries(workspace, KIND) if entry["file"] == golden.file]
    if not known:
        accept(workspace, golden, "user:local", "first use")
        return True
    return bool(known[-1] == golden.hash)


def change_warning(golden: GoldenSet) -> Diagnostic:
    return Diagnostic(
        "HIVE-306",
        f"{golden.file} changed since a person accepted it; until then agents' deployments are inconclusive",
        golden.file,
        "$",
        "look at the change, then run `hive evaluate --accept-golden`",
        severity="warning",
    )
