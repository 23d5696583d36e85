from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption


def command(
    code: Annotated[str, typer.Argument(help="A diagnostic's code, for example HIVE-203.")],
    workspace: WorkspaceOption = None,  # noqa: ARG001 - every command takes -w
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The documentation of a diagnostic."""
    from rich.markdown import Markdown

    from hive_agents.diagnostics import documented

    name, text = documented(code)
    Surface(json, quiet).show({"code": name, "text": text}, Markdown(f"## {name}\n\n{text}"))
