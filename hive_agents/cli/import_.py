from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, count, open_workspace, styled


def command(
    sources: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders or globs.")],
    to: Annotated[str, typer.Option("--to", help="Where below documents/.")] = "documents",
    tenant: Annotated[list[str] | None, typer.Option("--tenant", help="Whose documents these are.")] = None,
    view: Annotated[list[str] | None, typer.Option("--view", help="Who may view: user:ID, group:ID, tenant.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the same files became before.")] = False,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Bring your own files in: Markdown, HTML, PDF, DOCX, PPTX, text, reStructuredText."""
    from hive_agents.errors import HiveError
    from hive_agents.importing import ImportFailure, import_files

    surface = Surface(json, quiet)
    place = open_workspace(workspace)
    paths = _expanded(sources)
    if to.startswith(("/", "~")):
        raise HiveError.of("HIVE-409", f"--to {to} is not below documents/", fix="name a folder such as documents/mine")
    below = to.removeprefix("documents").strip("/")
    metadata: dict[str, Any] = {}
    if tenant:
        metadata["tenant"] = tenant
    if view:
        metadata["view"] = view
    try:
        report = import_files(
            paths, place.documents / below, root=place.documents, metadata=metadata, overwrite=overwrite
        )
    except ImportFailure as failure:
        raise HiveError.of("HIVE-409", str(failure), fix="name a folder below documents/ with --to") from None
    lines: list[Any] = [f"imported {count(len(report.imported), 'document')}"]
    lines += [f"  {doc_id}" for doc_id in report.imported[:20]]
    lines += [styled(f"skipped {skipped['file']}: {skipped['message']}", "red") for skipped in report.skipped]
    if report.imported and not (tenant and view):
        lines.append("they carry no --tenant and --view: where permissions are enforced, nobody will see them")
    if report.imported:
        lines.append("next: hive index")
    surface.show({"imported": report.imported, "skipped": report.skipped}, *lines)
    raise typer.Exit(1 if report.skipped else 0)


def _expanded(sources: list[str]) -> list[Path]:
    """Files and folders; a pattern that the shell did not expand is expanded here."""
    import glob
    import os

    from hive_agents.errors import HiveError

    paths: list[Path] = []
    for given in sources:
        source = os.path.expanduser(given)  # a quoted ~ reaches us as it is
        found = (
            [Path(source)]
            if Path(source).exists()
            else [Path(name) for name in sorted(glob.glob(source, recursive=True))]
        )
        if not found:
            raise HiveError.of("HIVE-409", f"there is no {source}", fix="name a file, a folder or a glob")
        paths += found
    return paths
