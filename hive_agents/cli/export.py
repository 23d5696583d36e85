"""`hive export`: a config as a query of another search engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_ASKS, ConfigArgument, Surface, json_text, with_surface
from hive_agents.cli.terminal import write

if TYPE_CHECKING:
    from hive_agents.ranking.exports import Export

_ENGINES = "opensearch, postgres or qdrant"


@with_surface(as_user=WHO_ASKS)
def command(
    surface: Surface,
    config: ConfigArgument,
    to: Annotated[str, typer.Option("--to", metavar="ENGINE", help=f"{_ENGINES}.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write the files of the query and the data there.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="TEXT", help="Fill in the parameters of a search for TEXT by --as."),
    ] = None,
) -> None:
    """Write a config as a query of another search engine, with the schema and data that it needs."""
    from hive_agents.base import Diagnostic, HiveError, closest
    from hive_agents.cli.configs import chosen_config
    from hive_agents.ranking.exports import ENGINES, export, filled, values_for

    if to not in ENGINES:
        guess = closest(to, ENGINES)
        fix = f"use --to {guess}" if guess else f"use --to {_ENGINES}"
        raise HiveError.of("HIVE-409", f'there is no export to "{to}"', fix=fix, exit_code=2)
    place = surface.workspace
    surface.asker.operator("export configs and documents")
    surface.require_whole_view("export documents")
    surface.keep_fresh()
    program = chosen_config(place, config, surface)
    index = place.engine().index(program.collection)
    exported = export(place, index, program, to)
    surface.warn(
        Diagnostic("HIVE-219", difference.message, f"configs: {exported.config}", difference.path, severity="warning")
        for difference in exported.differences
    )
    value: dict[str, Any] = exported.to_json()
    if query is not None:
        values = values_for(exported, index, query, surface.asker.reader())
        request = exported.request if to == "postgres" else filled(exported.request, values)
        value |= {"values": values, "request": request}
    if out is not None:
        value["files"] = _write_files(exported, out)
        surface.show(value, *(f"{out / name}" for name in value["files"]))
        return
    value["texts"] = dict(exported.texts)
    if surface.as_json:
        surface.show(value)
    elif not surface.quiet and query is not None and to != "postgres":
        write(json_text(value["request"]), end="")
    elif not surface.quiet:
        write(next(text for name, text in exported.texts.items() if name.startswith("query")), end="")


def _write_files(exported: Export, folder: Path) -> list[str]:
    """Write the export into a folder; return the files' names."""
    from hive_agents.base.files import atomic_write, atomic_write_text, disk_errors, make_folder

    with disk_errors(folder):
        make_folder(folder, 0o700)
        for name, text in exported.texts.items():
            atomic_write_text(folder / name, text)
        for name, lines in exported.data.items():
            atomic_write(folder / name, (line.encode() for line in lines()))
        atomic_write_text(folder / "export.json", json_text(exported.to_json()) + "\n")
    return [*exported.texts, *exported.data, "export.json"]
