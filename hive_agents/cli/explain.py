from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface


@with_surface()
def command(
    surface: Surface, code: Annotated[str, typer.Argument(help="A diagnostic's code, for example HIVE-203.")]
) -> None:
    """Show the documentation of a diagnostic."""
    from rich.markdown import Markdown

    from hive_agents.base import documented

    name, text = documented(code)
    surface.show({"code": name, "text": text}, Markdown(f"## {name}\n\n{text}"))
