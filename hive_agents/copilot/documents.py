"""The documents service: the rows that meet a filter, newest first, page by page."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hive_agents.errors import HiveError
from hive_agents.retrieval.collection import Collection as CollectionSchema
from hive_agents.retrieval.lanes import ChunkNumbers, Mask

BATCH = 50
_PREFERRED = ("updated", "modified", "changed", "date")


class Documents(Protocol):
    """What the service reads: an index in a reader's scope."""

    def documents(self) -> list[tuple[str, str, Any]]: ...
    def documents_of(self, chunks: ChunkNumbers) -> list[str]: ...


Row = tuple[str, str]
"""A date as text, empty without one, and a doc_id: a document's place in the service's order."""


@dataclass(frozen=True)
class Page:
    """`next` is the last row, where another row follows that the reader may view."""

    doc_ids: list[str]
    next: Row | None


def service_order(schema: CollectionSchema) -> str | None:
    """The date field that says which document is newer; None where the collection has no dates."""
    dates = [name for name, field in schema.fields.items() if field.type == "date"]
    return next((name for name in _PREFERRED if name in dates), dates[0] if dates else None)


def ordered(index: Documents, matching: Mask, by: str | None, after: Row | None = None) -> list[Row]:
    """The documents that have a chunk in `matching`: newest first by the field `by`, ties by doc_id.

    Documents without a date come last. `after` is a place in that order, so that a page never depends on how many
    rows came before it.
    """
    wanted = set(index.documents_of(np.flatnonzero(matching)))
    rows = [
        (_newest(metadata.get(by)) if by else "", doc_id)
        for doc_id, _, metadata in index.documents()
        if doc_id in wanted
    ]
    # Two sorts, since dates go down and doc_ids up; ISO dates order as text.
    rows = sorted(sorted(rows, key=lambda row: row[1]), key=lambda row: row[0], reverse=True)
    if after is None:
        return rows
    date, doc_id = after
    return [row for row in rows if row[0] < date or (row[0] == date and row[1] > doc_id)]


def page_of(rows: Sequence[Row], allowed: Callable[[Sequence[str]], Collection[str]], size: int) -> Page:
    """The first `size` rows that `allowed` lets through; it is asked in batches, until there are enough."""
    kept: list[Row] = []
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        may = allowed([doc_id for _, doc_id in batch])
        kept += [row for row in batch if row[1] in may]
        if len(kept) > size:
            break
    return Page([doc_id for _, doc_id in kept[:size]], kept[size - 1] if len(kept) > size else None)


def _newest(value: Any) -> str:
    if isinstance(value, list):
        return max(map(str, value), default="")
    return "" if value is None else str(value)


class Cursors:
    """Places in a list as opaque text, bound to a reader and a question by HMAC-SHA256."""

    def __init__(self, key: bytes, *bound_to: str) -> None:
        self._key = hmac.new(key, json.dumps(["cursor", *bound_to]).encode(), hashlib.sha256).digest()

    def write(self, place: Row) -> str:
        body = json.dumps(place, ensure_ascii=False).encode()
        return _text(self._sign(body) + body)

    def read(self, cursor: str) -> Row:
        """Raises: HIVE-409 for a cursor that wasn't made for this reader and question."""
        try:
            raw = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
            signature, body = raw[:32], raw[32:]
            # A decoder takes many texts for the same bytes; only the one that was written counts.
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
