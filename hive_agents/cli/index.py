from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, open_workspace


def command(
    write_seed: Annotated[
        bool, typer.Option("--write-seed", help="Also write embeddings/*.npz, so that a fresh clone embeds nothing.")
    ] = False,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Build or update the index; what hasn't changed is neither read nor embedded again."""
    from hive_agents.retrieval import build_index

    surface = Surface(json, quiet)
    with surface.progress() as progress:
        report = build_index(open_workspace(workspace), progress, write_seed=write_seed)
    surface.warn(report.warnings)
    lines = [
        f"{report.documents} documents, {report.chunks} chunks",
        f"added {report.added}, updated {report.updated}, deleted {report.deleted}, unchanged {report.unchanged};"
        f" {report.embedded} chunks embedded in {report.seconds:.1f} s",
        f"embedding model: {report.embedding_model or 'none, text lane only'}",
    ]
    for skipped in report.skipped:
        place = skipped["file"] if skipped["line"] is None else f"{skipped['file']}:{skipped['line']}"
        lines.append(f"[red]skipped {place}: {skipped['message']}[/red]")
    surface.show(report.to_json(), *lines)
    raise typer.Exit(1 if report.skipped else 0)
