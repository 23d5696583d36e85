from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import WHO_READS, Surface, count, with_surface

if TYPE_CHECKING:
    from hive_agents.documents import proposals, undeclared
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
    declare: Annotated[
        list[str] | None,
        typer.Option("--declare", help="Agree to what is proposed for a field: FIELD or FIELD.may_hide; repeatable."),
    ] = None,
) -> None:
    """List the fields with their values, and what documents say that could be declared."""
    from rich.table import Table

    from hive_agents.cli.configs import named_collection
    from hive_agents.copilot import certain_scope, declared, open_scope
    from hive_agents.documents import proposals, undeclared, undeclared_fields

    place = surface.workspace
    schema = named_collection(place, collection)
    writes = bool(add or declare)
    viewer = surface.asker.operating_viewer("declare fields") if writes else surface.asker.viewer()
    surface.refresh_index()
    engine = place.engine()
    whole = engine.index(schema.name)
    front_matter = [values for _, values in whole.front_matter()] if viewer is None or writes else []
    found = undeclared_fields(schema, front_matter, add or ())
    offered = proposals.proposed_declarations(schema, found, front_matter)
    if writes:
        filterable = [*schema.filterable, *(field.name for field in found)]
        agreed = proposals.chosen_declarations(offered, declare or [], filterable)
        offered = [one for one in offered if one not in agreed]
        wanted = [one.field for one in agreed if one.field not in schema.fields]
        chosen = undeclared.named_fields(found, [*(add or []), *wanted], schema.fields)
        names = ", ".join([*(field.name for field in chosen), *(one.name for one in agreed)])
        said = [(one.field, one.key, one.value) for one in agreed]
        surface.say(f"declared in {undeclared.declare_fields(place, schema, chosen, said)}: {names}")
        found = [field for field in found if field not in chosen]
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
            "ranks": field.ranks,
            "may_hide": field.may_hide,
            "person": field.person,
        }
        for name, field in schema.fields.items()
    ]
    table = Table(title=f"{schema.name}: {len(index.doc_ids())} documents", title_justify="left")
    for name in ("field", "type", "filterable", "an optimizer", "values (documents)"):
        table.add_column(name)
    for row in rows:
        values = row["values"]
        shown = ", ".join(f"{item['value']} ({item['documents']})" for item in values[:12])
        more = f", … {len(values) - 12} more" if len(values) > 12 else ""
        table.add_row(row["name"], str(row["type"]), "yes" if row["filterable"] else "", _lever(row), shown + more)
    others = [{"name": field.name, "type": field.type, "documents": field.documents} for field in found]
    proposed = [{"field": one.field, "key": one.key, "value": one.value, "why": one.why} for one in offered]
    value = {"fields": rows, "undeclared": others, "proposed": proposed}
    surface.show(value, table, *_undeclared_lines(found), *proposal_lines(offered))


def _lever(row: dict[str, Any]) -> str:
    """Return what an optimizer may do with a field, in words."""
    if row["person"]:
        return "leaves it"
    hides = f"may hide {', '.join(row['may_hide'])}" if row["may_hide"] else ""
    return "; ".join(filter(None, ["ranks by it" if row["ranks"] else "", hides]))


def proposal_lines(offered: Sequence[proposals.Declaration]) -> list[str]:
    """Return what could be declared of fields, for a person to agree to."""
    if not offered:
        return []
    lines = ["what an optimizer may do is yours to say; the documents propose:"]
    for one in offered:
        shown = json.dumps(one.value, ensure_ascii=False)
        lines.append(safe_line(f'  {one.field}: "{one.key}": {shown}: {one.why}'))
    first = next((one.field for one in offered if one.key != "may_hide"), offered[0].name)
    return [*lines, safe_line(f"to agree to one: hive fields --declare {first}")]


def _undeclared_lines(fields: list[undeclared.UndeclaredField]) -> list[str]:
    if not fields:
        return []
    lines = ["also in the documents' front matter, and in no filter until it is declared:"]
    for field in fields:
        values = ", ".join(safe_line(value) for value in field.values[:SHOWN])
        more = ", …" if len(field.values) > SHOWN else ""
        lines.append(f"  {field.name} ({field.type}, {count(field.documents, 'document')}): {values}{more}")
    return [*lines, f"to declare one: hive fields --add {fields[0].name}"]
