from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface


@with_surface()
def command(
    surface: Surface,
    kind: Annotated[
        str, typer.Argument(help="config, collection, golden, goal, rule, agent, trigger, access or settings.")
    ],
) -> None:
    """Print the JSON Schema of a kind of file, for editors and agents."""
    from hive_agents.base import json_schema

    Surface(as_json=True, quiet=surface.quiet).show(json_schema(kind))
