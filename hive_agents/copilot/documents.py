"""The documents service: checks of filters, and pages of the documents that meet them, newest first."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hive_agents.access import RESERVED
from hive_agents.base import HiveError, did_you_mean
from hive_agents.copilot.forms import spaced
from hive_agents.copilot.plan import BESIDE, BY_ROW, POSITIVE, DocumentFilter
from hive_agents.copilot.roles import values_of
from hive_agents.documents import Collection as CollectionSchema
from hive_agents.index import Condition, Mask, Scalar, ScopedIndex

BATCH = 50
_PREFERRED = ("updated", "modified", "changed", "date")

DatedRow = tuple[str, str]
"""(ISO date or "", doc_id): a document's position in the service's order."""


def declared(collection: CollectionSchema) -> CollectionSchema:
    """Return the collection without reserved fields, which a reader must not see even where it declares them."""
    fields = {name: field for name, field in collection.fields.items() if name not in RESERVED}
    return collection.model_copy(update={"fields": fields})


def require_known(known: ScopedIndex, filters: Sequence[DocumentFilter]) -> None:
    """Check filters against `known`, the documents that the reader may certainly view: others' values are unknown.

    Raises: HIVE-104, 206 to 208.
    """
    schema = declared(known.collection)
    for demand in filters:
        named = [demand.field, *(map(str, demand.values) if demand.op in BESIDE else ())]
        for name in named:
            if name in schema.fields:
                continue
            others = f"filterable fields: {', '.join(schema.filterable) or 'none'}"
            fix = did_you_mean(name, schema.filterable, others)
            message = f'the collection has no field "{name}"'
            raise HiveError.of("HIVE-206", message, path=f"filters.{demand.field}", fix=fix, exit_code=2)
    try:
        for wanted in conditions(filters):
            known.select(wanted)
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def conditions(filters: Sequence[DocumentFilter]) -> list[dict[str, Condition]]:
    """Return filters as conditions of the index, all of which a document has to meet.

    Two positive filters on one field become two dictionaries: a document with several values may meet both.

    >>> status = DocumentFilter(field="status", value="draft")
    >>> conditions([status, DocumentFilter(field="year", op="gte", value=2024)])
    [{'status': Condition(include=('draft',), exclude=(), bounds=()), 'year': Condition(include=None, exclude=(), \
bounds=(('gte', 2024),))}]
    """
    groups: list[dict[str, Condition]] = [{}]
    for demand in filters:
        if demand.op in BY_ROW:
            continue
        group = next((one for one in groups if _fits(one.get(demand.field), demand)), None)
        if group is None:
            group = {}
            groups.append(group)
        group[demand.field] = _with(group.get(demand.field, Condition()), demand)
    return groups


def meeting(index: ScopedIndex, demand: DocumentFilter) -> Mask:
    """Return the chunks of documents that meet a filter by their row: `has` asks for words that begin with those given,
    in that order; `either` for one of the values in fields called alike; `above` and `below` compare two fields of one
    document, and none meets them without both, nor with a number beside a text; `month` is met by one of its dates in
    that month of any year."""
    asked = str(demand.values[0])
    words = spaced(asked).rstrip()

    def meets(title: str, row: Mapping[str, Any]) -> bool:
        value: Any = title if demand.field == "title" else row.get(demand.field)
        if demand.op == "has":
            return bool(words) and value is not None and words in spaced(str(value))
        if demand.op == "either":
            return not set(demand.values).isdisjoint(values_of(row, demand.field))
        if demand.op == "month":
            days = value if isinstance(value, list) else [value]
            return any(str(day)[5:7] == asked.zfill(2) for day in days)
        other = row.get(asked)
        if not any(isinstance(value, kind) and isinstance(other, kind) for kind in ((int, float), str)):
            return False
        return bool(value < other if demand.op == "below" else value > other)

    return index.only(doc_id for doc_id, title, row in index.documents() if meets(title, row))


def document_filters(filters: Mapping[str, Any]) -> list[DocumentFilter]:
    """Return a config's `filters` as filters of a plan.

    >>> filters = document_filters({"status": ["draft"], "year": {"gte": 2024, "lt": 2026}})
    >>> [(demand.op, demand.value) for demand in filters]
    [('in', ['draft']), ('gte', 2024), ('lt', 2026)]
    """
    demands = []
    for field, value in filters.items():
        if not isinstance(value, dict):
            demands.append(DocumentFilter(field=field, op="in" if isinstance(value, list) else "eq", value=value))
        elif "not" in value:
            excluded = value["not"] if isinstance(value["not"], list) else [value["not"]]
            demands.append(DocumentFilter(field=field, op="not_in", value=excluded))
        else:
            demands += [DocumentFilter(field=field, op=bound, value=value[bound]) for bound in value]
    return demands


def _fits(condition: Condition | None, demand: DocumentFilter) -> bool:
    """Return whether the filter can be added to a condition of its field without replacing a part of it."""
    if condition is None:
        return True
    if demand.op in POSITIVE:
        return condition.include is None
    return demand.op == "not_in" or demand.op not in dict(condition.bounds)


def _with(condition: Condition, demand: DocumentFilter) -> Condition:
    values: tuple[Scalar, ...] = demand.values
    if demand.op in POSITIVE:
        return replace(condition, include=values)
    if demand.op == "not_in":
        return replace(condition, exclude=(*condition.exclude, *values))
    # The index rejects a bound that is neither a date nor a number.
    return replace(condition, bounds=(*condition.bounds, (demand.op, values[0])))


@dataclass(frozen=True)
class ResultPage:
    """A page of documents; `next` is its last row if another row follows that the reader may view, else None."""

    doc_ids: list[str]
    next: DatedRow | None


def ordered(index: ScopedIndex, matching: Mask, after: DatedRow | None = None) -> list[DatedRow]:
    """Return the documents with a chunk in `matching`, newest first, those without any date last, ties by doc_id.

    Only rows after `after`, which is a position and no offset: a page doesn't depend on how many rows come before it.
    """
    dates = _date_fields(index.collection)
    wanted = set(index.documents_of(np.flatnonzero(matching)))
    rows = [
        (next(filter(None, (_newest(metadata.get(name)) for name in dates)), ""), doc_id)
        for doc_id, _, metadata in index.documents()
        if doc_id in wanted
    ]
    # Two sorts, since dates go down and doc_ids up; ISO dates order as text.
    rows = sorted(sorted(rows, key=lambda row: row[1]), key=lambda row: row[0], reverse=True)
    if after is None:
        return rows
    date, doc_id = after
    return [row for row in rows if row[0] < date or (row[0] == date and row[1] > doc_id)]


def page_of(rows: Sequence[DatedRow], allowed: Callable[[Sequence[str]], Collection[str]], size: int) -> ResultPage:
    """Return the first `size` rows that `allowed` returns; it is called in batches, until there are enough."""
    visible: list[DatedRow] = []
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        may = allowed([doc_id for _, doc_id in batch])
        visible += [row for row in batch if row[1] in may]
        if len(visible) > size:
            break
    return ResultPage([doc_id for _, doc_id in visible[:size]], visible[size - 1] if len(visible) > size else None)


def _date_fields(schema: CollectionSchema) -> list[str]:
    """Return the date fields of the collection; a document is ordered by the first that it has."""
    dates = [name for name, field in schema.fields.items() if field.type == "date"]
    return sorted(dates, key=lambda name: _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED))


def _newest(value: Any) -> str:
    if isinstance(value, list):
        return max(map(str, value), default="")
    return "" if value is None else str(value)


class Cursors:
    """Positions in a list as opaque text, bound to a reader and a question by HMAC-SHA256."""

    def __init__(self, key: bytes, *bound_to: str) -> None:
        self._key = hmac.new(key, json.dumps(["cursor", *bound_to]).encode(), hashlib.sha256).digest()

    def write(self, position: DatedRow) -> str:
        body = json.dumps(position, ensure_ascii=False).encode()
        return _text(self._sign(body) + body)

    def read(self, cursor: str) -> DatedRow:
        """Return the position. Raises: HIVE-409 for a cursor that wasn't made for this reader and question."""
        try:
            raw = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
            signature, body = raw[:32], raw[32:]
            # Several texts decode to the same bytes; only the canonical one is valid.
            if cursor == _text(raw) and hmac.compare_digest(signature, self._sign(body)):
                date, doc_id = json.loads(body)
                return str(date), str(doc_id)
        except ValueError:
            pass
        fix = "ask for the first page again, and go on from its next_cursor"
        raise HiveError.of("HIVE-409", "the cursor doesn't belong to this reader and question", fix=fix, exit_code=2)

    def _sign(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
