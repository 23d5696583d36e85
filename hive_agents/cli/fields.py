from __future__ import annotations

from typing import Annotated

import typer

from hive_agents.cli.surface import Surface, with_surface


@with_surface()
def command(
    surface: Surface,
    collection: Annotated[str | None, typer.Argument(help="Collection (default: the only one).")] = None,
) -> None:
    """What can be filtered, with the values in use."""
    from rich.table import Table

    from hive_agents.cli.configs import named_collection

    place = surface.workspace
    schema = named_collection(place, collection)
    surface.refresh_index()
    index = place.engine().index(schema.name)
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
