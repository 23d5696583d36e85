from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface


@with_surface(workspace=False)
def command(
    surface: Surface,
    argument: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The workspace's folder; must be empty (default: here).")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Without the sample, for your own documents.")] = False,
    option: Annotated[Path | None, typer.Option("--workspace", "-w", help="The same as DIR.")] = None,
) -> None:
    """Create a workspace: the sample, or an empty one for your own documents."""
    from hive_agents.base import HiveError
    from hive_agents.cli.sample import init_workspace

    if argument is not None and option is not None:
        raise HiveError.of("HIVE-409", "two folders are named for one workspace", fix="name one: hive init DIR")
    folder = argument or option or Path()
    path = init_workspace(folder, empty=empty)
    step = "hive import PATH" if empty else "hive index"
    lines = [f"made a workspace in {path}"]
    if empty:
        lines.append("you read every document here, and only on this machine (access.mode = open in hive.toml)")
    surface.show({"path": str(path)}, *lines, f"next: cd {folder} && {step}")
