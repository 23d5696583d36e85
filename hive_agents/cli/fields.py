from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface

if TYPE_CHECKING:
    from hive_agents.retrieval import ScopedIndex, SqliteIndex


@with_surface()
def command(
    surface: Surface,
    collection: Annotated[str | None, typer.Argument(help="Collection (default: the only one).")] = None,
) -> None:
    """What can be filtered, with the values in use."""
    from rich.table import Table

    from hive_agents.cli.configs import named_collection
    from hive_agents.copilot import certain_scope, declared, open_scope

    place = surface.workspace
    schema = named_collection(place, collection)
    holder = surface.asker.token_holder()
    surface.refresh_index()
    engine = place.engine()
    index: SqliteIndex | ScopedIndex = engine.index(schema.name)
    if holder is not None:
        index = certain_scope(place, engine, holder, open_scope(place, engine, holder, schema.name))
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
    surface.show({"fields": listed}, table)
