"""A plan's filters as conditions of the index, and what may be filtered by at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hive_agents.copilot.plan import POSITIVE, DocumentFilter
from hive_agents.errors import HiveError, closest
from hive_agents.retrieval.collection import Collection
from hive_agents.retrieval.filters import Condition, Scalar

if TYPE_CHECKING:
    from hive_agents.retrieval.scoped import ScopedIndex

RESERVED = frozenset({"tenant", "view"})
"""Front matter that decides who may see a document: never shown, and never filtered by."""


def declared(collection: Collection) -> Collection:
    """The collection as a reader may know it: reserved fields are none, even where it declares them."""
    fields = {name: field for name, field in collection.fields.items() if name not in RESERVED}
    return collection.model_copy(update={"fields": fields})


def require_known(known: ScopedIndex, filters: Sequence[DocumentFilter]) -> None:
    """`known` holds what the reader may view for certain: a value that only other documents have is an unknown one.

    Raises: HIVE-104, 206 to 208.
    """
    schema = declared(known.collection)
    for demand in filters:
        if demand.field not in schema.fields:
            guess = closest(demand.field, schema.filterable)
            fix = (
                f'did you mean "{guess}"?' if guess else f"filterable fields: {', '.join(schema.filterable) or 'none'}"
            )
            message = f'the collection has no field "{demand.field}"'
            raise HiveError.of("HIVE-206", message, path=f"filters.{demand.field}", fix=fix, exit_code=2)
    try:
        for wanted in conditions(filters):
            known.select(wanted)
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def conditions(filters: Sequence[DocumentFilter]) -> list[dict[str, Condition]]:
    """Conditions that a document has to meet, all of them.

    Two positive demands on one field become two dictionaries: a document with several values may meet both.

    >>> status = DocumentFilter(field="status", value="draft")
    >>> conditions([status, DocumentFilter(field="year", op="gte", value=2024)])
    [{'status': Condition(include=('draft',), exclude=(), bounds=()), 'year': Condition(include=None, exclude=(), \
bounds=(('gte', 2024),))}]
    """
    found: list[dict[str, Condition]] = [{}]
    for demand in filters:
        place = next(one for one in (*found, None) if one is None or _fits(one.get(demand.field), demand))
        if place is None:
            place = {}
            found.append(place)
        place[demand.field] = _with(place.get(demand.field, Condition()), demand)
    return found


def demands(filters: Mapping[str, Any]) -> list[DocumentFilter]:
    """A config's `filters` as a plan's.

    >>> [(demand.op, demand.value) for demand in demands({"status": ["draft"], "year": {"gte": 2024, "lt": 2026}})]
    [('in', ['draft']), ('gte', 2024), ('lt', 2026)]
    """
    found = []
    for field, value in filters.items():
        if not isinstance(value, dict):
            found.append(DocumentFilter(field=field, op="in" if isinstance(value, list) else "eq", value=value))
        elif "not" in value:
            excluded = value["not"] if isinstance(value["not"], list) else [value["not"]]
            found.append(DocumentFilter(field=field, op="not_in", value=excluded))
        else:
            found += [DocumentFilter(field=field, op=bound, value=value[bound]) for bound in value]
    return found


def _fits(known: Condition | None, demand: DocumentFilter) -> bool:
    """Whether a condition can take the demand without changing what it meant."""
    if known is None:
        return True
    if demand.op in POSITIVE:
        return known.include is None
    return demand.op == "not_in" or demand.op not in dict(known.bounds)


def _with(known: Condition, demand: DocumentFilter) -> Condition:
    values: tuple[Scalar, ...] = demand.values
    if demand.op in POSITIVE:
        return replace(known, include=values)
    if demand.op == "not_in":
        return replace(known, exclude=(*known.exclude, *values))
    bound = values[0]
    # The index says what is wrong with a bound that is neither a date nor a number.
    return replace(known, bounds=(*known.bounds, (demand.op, bound)))
