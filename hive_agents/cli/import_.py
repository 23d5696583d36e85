from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, count, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


@with_surface()
def command(
    surface: Surface,
    sources: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders or globs.")],
    to: Annotated[str, typer.Option("--to", help="Where below documents/.")] = "documents",
    tenant: Annotated[list[str] | None, typer.Option("--tenant", help="Whose documents these are.")] = None,
    view: Annotated[list[str] | None, typer.Option("--view", help="Who may view: user:ID, group:ID, tenant.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the same files became before.")] = False,
) -> None:
    """Bring your own files in: Markdown, HTML, PDF, DOCX, PPTX, text, reStructuredText."""
    from hive_agents.errors import HiveError
    from hive_agents.importing import ImportFailure, import_files

    place = surface.workspace
    paths = _expanded(sources)
    if to.startswith(("/", "~")):
        raise HiveError.of("HIVE-409", f"--to {to} is not below documents/", fix="name a folder such as documents/mine")
    below = to.removeprefix("documents").strip("/")
    metadata = _labels(tenant or [], view or [])
    try:
        report = import_files(
            paths, place.documents / below, root=place.documents, metadata=metadata, overwrite=overwrite
        )
    except ImportFailure as failure:
        raise HiveError.of("HIVE-409", str(failure), fix="name a folder below documents/ with --to") from None
    lines: list[Any] = [f"imported {count(len(report.imported), 'document')}"]
    lines += [f"  {doc_id}" for doc_id in report.imported[:20]]
    lines += [styled(f"skipped {skipped['file']}: {skipped['message']}", "red") for skipped in report.skipped]
    unseen = _unseen(place, report.imported)
    if unseen:
        which = "it" if len(report.imported) == 1 else "them" if unseen == len(report.imported) else f"{unseen} of them"
        lines.append(f"nobody but a tenant's admins will see {which}: name --tenant and --view")
    if report.imported:
        lines.append("next: hive index")
    surface.show({"imported": report.imported, "skipped": report.skipped}, *lines)
    raise typer.Exit(1 if report.skipped else 0)


def _labels(tenants: list[str], view: list[str]) -> dict[str, Any]:
    """The front matter of --tenant and --view, each given again or with commas. Raises: HIVE-409."""
    from hive_agents.access import AccessLabels
    from hive_agents.errors import HiveError

    given = {"tenant": tenants, "view": view}
    metadata = {
        key: [part.strip() for value in values for part in value.split(",")] for key, values in given.items() if values
    }
    fault = AccessLabels.of(metadata).fault
    if fault:
        fix = "use --tenant acme --view group:qa; a reader is user:ID, group:ID or tenant"
        raise HiveError.of("HIVE-409", f"--{fault}", fix=fix)
    return metadata


def _unseen(place: Workspace, doc_ids: list[str]) -> int:
    """How many of the documents have no reader, by their front matter and the grants as they are now."""
    from hive_agents.access import AccessLabels, AccessRules, labels_in_file

    documents = [(doc_id, labels_in_file(place, doc_id) or AccessLabels()) for doc_id in doc_ids]
    return int(AccessRules.load(place).unseen(documents).sum())


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
