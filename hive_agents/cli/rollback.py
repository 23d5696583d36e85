from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, open_workspace


def command(
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept in the history.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Serve the config that was active before; run it again to go further back."""
    from hive_agents.verification import rollback

    version, before = rollback(open_workspace(workspace), reason=reason)
    value = {"deployed": version.name, "previous": before}
    Surface(json, quiet).show(value, f"{version.name} is active again (before: {before})")
