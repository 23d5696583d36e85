from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import WHO_READS, Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.documents import UndeclaredField
    from hive_agents.index import ScopedIndex, SqliteIndex

SHOWN = 5


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    collection: Annotated[str | None, typer.Argument(help="Collection (default: the only one).")] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", help="Declare a field of the documents' front matter as filterable; repeatable."),
    ] = None,
) -> None:
    """List the fields with their values, and undeclared fields of documents' front matter."""
    from rich.table import Table

    from hive_agents.cli.configs import named_collection
    from hive_agents.copilot import certain_scope, declared, open_scope
    from hive_agents.documents import declare_fields, named_fields, undeclared_fields

    place = surface.workspace
    schema = named_collection(place, collection)
    viewer = surface.asker.operating_viewer("declare fields") if add else surface.asker.viewer()
    surface.refresh_index()
    engine = place.engine()
    whole = engine.index(schema.name)
    front_matter = (values for _, values in whole.front_matter())
    undeclared = undeclared_fields(schema, front_matter, add or ()) if viewer is None or add else []
    if add:
        chosen = named_fields(undeclared, add, schema.fields)
        names = ", ".join(field.name for field in chosen)
        surface.say(f"declared in {declare_fields(place, schema, chosen)}: {names}")
        undeclared = [field for field in undeclared if field not in chosen]
        schema = named_collection(place, schema.name)
        surface.refresh_index()
        whole = place.engine().index(schema.name)
    index: SqliteIndex | ScopedIndex = whole
    if viewer is not None:
        index = certain_scope(place, engine, viewer, open_scope(place, engine, viewer, schema.name))
        schema = declared(schema)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "type": field.type,
            "filterable": field.filterable,
            "values": [{"value": value, "documents": count} for value, count in index.values(name)]
            if field.filterable
            else [],
        }
        for name, field in schema.fields.items()
    ]
    table = Table(title=f"{schema.name}: {len(index.doc_ids())} documents", title_justify="left")
    for name in ("field", "type", "filterable", "values (documents)"):
        table.add_column(name)
    for row in rows:
        values = row["values"]
        shown = ", ".join(f"{item['value']} ({item['documents']})" for item in values[:12])
        more = f", … {len(values) - 12} more" if len(values) > 12 else ""
        table.add_row(row["name"], str(row["type"]), "yes" if row["filterable"] else "", shown + more)
    others = [{"name": field.name, "type": field.type, "documents": field.documents} for field in undeclared]
    surface.show({"fields": rows, "undeclared": others}, table, *_undeclared_lines(undeclared))


def _undeclared_lines(fields: list[UndeclaredField]) -> list[str]:
    if not fields:
        return []
    lines = ["also in the documents' front matter, and in no filter until it is declared:"]
    for field in fields:
        values = ", ".join(safe_line(value) for value in field.values[:SHOWN])
        more = ", …" if len(field.values) > SHOWN else ""
        lines.append(f"  {field.name} ({field.type}, {count(field.documents, 'document')}): {values}{more}")
    return [*lines, f"to declare one: hive fields --add {fields[0].name}"]
