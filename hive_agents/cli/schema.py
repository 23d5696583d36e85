from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption


def command(
    kind: Annotated[
        str, typer.Argument(help="config, collection, golden, goal, rule, agent, trigger, access or settings.")
    ],
    workspace: WorkspaceOption = None,  # noqa: ARG001 - every command takes -w
    json: JsonOption = False,  # noqa: ARG001 - a schema is JSON anyway
    quiet: QuietOption = False,
) -> None:
    """Print the JSON Schema of a kind of file, for editors and agents."""
    from hive_agents.schemas import json_schema

    Surface(True, quiet).show(json_schema(kind))
