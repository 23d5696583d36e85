from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_READS, Surface, count, with_surface
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.retrieval import ScopedIndex, SqliteIndex, UndeclaredField

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
    """List what can be filtered, with the values in use, and what documents have beside that."""
    from rich.table import Table

    from hive_agents.cli.configs import named_collection
    from hive_agents.copilot import certain_scope, declared, open_scope
    from hive_agents.retrieval import declare_fields, named_fields, undeclared_fields

    place = surface.workspace
    schema = named_collection(place, collection)
    viewer = surface.asker.operating_viewer("declare fields") if add else surface.asker.viewer()
    surface.refresh_index()
    engine = place.engine()
    whole = engine.index(schema.name)
    told = (values for _, values in whole.front_matter())
    others = undeclared_fields(schema, told, add or ()) if viewer is None or add else []
    if add:
        chosen = named_fields(others, add, schema.fields)
        surface.say(f"declared in {declare_fields(place, schema, chosen)}: {', '.join(one.name for one in chosen)}")
        others = [one for one in others if one not in chosen]
        schema = named_collection(place, schema.name)
        surface.refresh_index()
        whole = place.engine().index(schema.name)
    index: SqliteIndex | ScopedIndex = whole
    if viewer is not None:
        index = certain_scope(place, engine, viewer, open_scope(place, engine, viewer, schema.name))
        schema = declared(schema)
    listed = [
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
    for row in listed:
        values = row["values"] if isinstance(row["values"], list) else []
        shown = ", ".join(f"{item['value']} ({item['documents']})" for item in values[:12])
        more = f", … {len(values) - 12} more" if len(values) > 12 else ""
        table.add_row(str(row["name"]), str(row["type"]), "yes" if row["filterable"] else "", shown + more)
    rest = [{"name": one.name, "type": one.type, "documents": one.documents} for one in others]
    surface.show({"fields": listed, "undeclared": rest}, table, *_beside(others))


def _beside(others: list[UndeclaredField]) -> list[Any]:
    if not others:
        return []
    lines = ["also in the documents' front matter, and in no filter until it is declared:"]
    for one in others:
        values = ", ".join(safe_line(value) for value in one.values[:SHOWN])
        more = ", …" if len(one.values) > SHOWN else ""
        lines.append(f"  {one.name} ({one.type}, {count(one.documents, 'document')}): {values}{more}")
    return [*lines, f"to declare one: hive fields --add {others[0].name}"]
