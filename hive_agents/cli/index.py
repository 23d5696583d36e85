from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import INTERRUPTED, Surface, count, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

SHOWN = 5


@with_surface()
def command(
    surface: Surface,
    write_seed: Annotated[
        bool, typer.Option("--write-seed", help="Also write embeddings/*.npz, so that a fresh clone embeds nothing.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Check the database, read every document and write the whole index anew.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Use a new index of changed chunking, fields or model without proof; needs --reason."
        ),
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, kept in the audit log.")] = None,
) -> None:
    """Build or update the index; only new and changed text is embedded."""
    from hive_agents.access import local_user
    from hive_agents.base import HiveError
    from hive_agents.documents import collection_names
    from hive_agents.gate import TagChange, generations
    from hive_agents.host import language_advice
    from hive_agents.ranking import build_index

    if accept and not reason:
        raise HiveError.of("HIVE-409", "--accept needs a reason", fix='add --reason "…"')
    place = surface.workspace
    by = surface.asker.operator("build the index")
    with surface.progress(INTERRUPTED) as progress:
        report = build_index(place, progress, write_seed=write_seed, rebuild=rebuild, accept=accept)
    surface.warn(report.warnings)
    if accept and reason:
        generations.accept_generations(place, collection_names(place), reason, by or local_user())
    decisions = generations.decide_generations(place) if report.waiting else []
    lines: list[Any] = [
        f"{count(report.documents, 'document')}, {count(report.chunks, 'chunk')}",
        f"added {report.added}, updated {report.updated}, deleted {report.deleted}, unchanged {report.unchanged};"
        f" {report.embedded} chunks embedded in {report.seconds:.1f} s",
        f"embedding model: {report.embedding_model or 'none, text lane only'}",
    ]
    for file, number in report.labels.items():
        lines.append(f"{count(number, 'label')} of {file} moved along with renamed documents")
    for decision in decisions:
        lines.append(f"new index of {decision.collection}: {decision.decision.upper()}")
        lines += [f"  {reason['code']}: {reason['message']}" for reason in decision.reasons]
        watched = (decision.evaluation or {}).get("watch", [])
        lines += [f"  watch: {safe_line(TagChange(**change, blocks=False))}" for change in watched]
        if decision.decision != "passed":
            lines.append('  the old index stays in use; hive index --accept --reason "…" switches anyway')
    if report.added:
        told = language_advice(place, collection_names(place))
        lines += [*_undeclared(place), *(f"{what}: {fix}" for what, fix in told)]
    for skipped in report.skipped:
        location = skipped["file"] if skipped["line"] is None else f"{skipped['file']}:{skipped['line']}"
        lines.append(styled(f"skipped {location}: {skipped['message']}", "red"))
    value = report.to_json() | {"generations": [decision.to_json() for decision in decisions]}
    surface.show(value, *lines)
    raise typer.Exit(1 if report.skipped else 0)


def _undeclared(place: Workspace) -> list[str]:
    """Return a line for each collection whose documents have undeclared fields, which filters and boosts can't use."""
    from hive_agents.documents import collection_names, load_collection, undeclared_fields
    from hive_agents.ranking import SearchEngine

    engine, lines = SearchEngine(place), []
    for name in collection_names(place):
        collection = load_collection(place, name)
        fields = undeclared_fields(collection, (values for _, values in engine.index(name).front_matter()))
        if fields:
            shown = ", ".join(f"{field.name} ({count(field.documents, 'document')})" for field in fields[:SHOWN])
            more = f" and {len(fields) - SHOWN} more" if len(fields) > SHOWN else ""
            lines.append(f"fields that can't be filtered yet: {shown}{more}; see `hive fields`")
    return lines
