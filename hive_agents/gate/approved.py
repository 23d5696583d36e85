"""Deploy what a person approved, if it is still what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hive_agents.base import HiveError
from hive_agents.gate.certificate import changed_since
from hive_agents.gate.deploy import switch
from hive_agents.ranking import StoredConfig, Version, build_index, find_active, read_config, versions
from hive_agents.store import ledger
from hive_agents.workspace import Workspace


def deployed_for(workspace: Workspace, approval_id: str) -> Version | None:
    """Return the deployment that an approval made, even if it was rolled back or replaced since."""
    return ledger.made_by(versions(workspace), approval_id)


def stale_because(workspace: Workspace, context: Mapping[str, Any]) -> str:
    """Return why a request's figures are stale; "" where they aren't. `context` is a deploy request's.

    The index is refreshed first.
    """
    build_index(workspace)
    try:
        stored = _stored(workspace, context)
    except HiveError:
        return f"{context['file']} can't be read any more"
    active = find_active(workspace)
    return changed_since(workspace, stored, active.stored.hash if active else None, context["evaluation"])


def deploy_approved(
    workspace: Workspace, approval_id: str, context: Mapping[str, Any], decision: Mapping[str, Any]
) -> Version:
    """Switch to the config of an approved request, once.

    Raises: HIVE-307 where anything that the request's figures rest on has changed.
    """
    before = deployed_for(workspace, approval_id)
    if before is not None:
        return before
    return switch(
        workspace,
        _stored(workspace, context),
        {**context["evaluation"], "approval_id": approval_id},
        decision=context["certificate"]["decision"],
        via=context["via"],
        reason=decision["reason"] or context.get("reason") or f"approved as {approval_id}",
        by=decision["by"],
        authn=decision["authn"],
    )


def _stored(workspace: Workspace, context: Mapping[str, Any]) -> StoredConfig:
    return read_config(workspace, workspace.root / str(context["file"]))
