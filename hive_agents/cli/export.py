"""`hive export`: a config as the query of another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_ASKS, ConfigArgument, Surface, with_surface
from hive_agents.cli.terminal import write

if TYPE_CHECKING:
    from hive_agents.exporting import Export

_ENGINES = "opensearch, postgres or qdrant"


@with_surface(as_user=WHO_ASKS)
def command(
    surface: Surface,
    config: ConfigArgument,
    to: Annotated[str, typer.Option("--to", metavar="ENGINE", help=f"{_ENGINES}.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write all files there, the data too.")
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Fill the parameters in: TEXT asked by --as.")
    ] = None,
) -> None:
    """Write the query that another search engine needs for a config, and what it needs to hold."""
    from hive_agents.cli.configs import chosen_config
    from hive_agents.errors import HiveError, closest
    from hive_agents.exporting import ENGINES, export, filled, values_for

    if to not in ENGINES:
        guess = closest(to, ENGINES)
        fix = f"use --to {guess}" if guess else f"use --to {_ENGINES}"
        raise HiveError.of("HIVE-409", f'there is no export to "{to}"', fix=fix, exit_code=2)
    place = surface.workspace
    surface.asker.operator("export configs and documents")
    surface.keep_fresh()
    program = chosen_config(place, config, surface)
    index = place.engine().index(program.collection)
    made = export(place, index, program, to)
    surface.warn(_warnings(made))
    value: dict[str, Any] = made.to_json()
    if query is not None:
        values = values_for(made, index, query, surface.asker.reader())
        value |= {"values": values, "request": made.request if to == "postgres" else filled(made.request, values)}
    if out is not None:
        value["files"] = _written(made, out)
        surface.show(value, *(f"{out / name}" for name in value["files"]))
        return
    value["texts"] = dict(made.texts)
    if surface.as_json:
        surface.show(value)
    elif not surface.quiet:
        from hive_agents.cli.surface import json_text

        write(json_text(value["request"]) if query is not None and to != "postgres" else _query(made), end="")


def _query(made: Export) -> str:
    return next(text for name, text in made.texts.items() if name.startswith("query"))


def _warnings(made: Export) -> list[Any]:
    from hive_agents.errors import Diagnostic

    return [
        Diagnostic("HIVE-219", one.message, f"configs: {made.config}", one.path, severity="warning")
        for one in made.differences
    ]


def _written(made: Export, folder: Path) -> list[str]:
    from hive_agents.cli.surface import json_text
    from hive_agents.files import atomic_write, atomic_write_text, disk_errors, make_folder

    with disk_errors(folder):
        make_folder(folder, 0o700)
        for name, text in made.texts.items():
            atomic_write_text(folder / name, text)
        for name, lines in made.data.items():
            atomic_write(folder / name, (line.encode() for line in lines()))
        atomic_write_text(folder / "export.json", json_text(made.to_json()) + "\n")
    return [*made.texts, *made.data, "export.json"]
