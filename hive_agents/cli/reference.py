from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface


@with_surface()
def explain(
    surface: Surface, code: Annotated[str, typer.Argument(help="A diagnostic's code, for example HIVE-203.")]
) -> None:
    """Show the documentation of a diagnostic."""
    from rich.markdown import Markdown

    from hive_agents.base import resources

    name, text = resources.documented(code)
    surface.show({"code": name, "text": text}, Markdown(f"## {name}\n\n{text}"))


@with_surface()
def schema(
    surface: Surface,
    kind: Annotated[
        str, typer.Argument(help="config, collection, golden, goal, rule, agent, trigger, access or settings.")
    ],
) -> None:
    """Print the JSON Schema of a kind of file, for editors and agents."""
    from hive_agents.base import resources

    Surface(as_json=True, quiet=surface.quiet).show(resources.json_schema(kind))
