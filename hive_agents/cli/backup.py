"""`hive backup`: the workspace in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, count, with_surface


@with_surface()
def command(
    surface: Surface,
    to: Annotated[
        Path | None, typer.Argument(help="A new file, or an existing folder (default: .hive/backups/).")
    ] = None,
) -> None:
    """Write files, records, checkpoints and index into one archive, also while other processes use them."""
    from hive_agents.host import back_up

    place = surface.workspace
    surface.asker.operator("back the workspace up")
    with surface.progress() as progress:
        backup = back_up(place, to, progress=progress)
    value = {"file": str(backup.path), "bytes": backup.bytes, "files": backup.files, "left_out": list(backup.left_out)}
    lines = [f"{backup.path} holds {count(backup.files, 'file')}, {backup.bytes:,} bytes"]
    lines += [f"  without {name}, which is rebuilt" for name in backup.left_out]
    lines.append(f"to restore: mkdir FOLDER; tar -xzf {backup.path} -C FOLDER; hive trust -w FOLDER")
    surface.show(value, *map(safe_line, lines))
