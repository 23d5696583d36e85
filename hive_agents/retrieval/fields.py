"""The values of a collection's fields, and the documents that meet a filter: of all, or of those in a scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.errors import HiveError, closest
from hive_agents.retrieval.collection import Collection
from hive_agents.retrieval.documents import iso_date, keyword_text
from hive_agents.retrieval.filters import Condition, Scalar
from hive_agents.retrieval.generation import stored_value
from hive_agents.retrieval.recent import Recent

_SQL_BOUNDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_FIELDS, _FILTERS = 64, 32

Documents = NDArray[np.bool_]
Chunks = NDArray[np.bool_]


class ValueRows(Protocol):
    def __call__(self, field: str, where: str, *arguments: Any) -> list[tuple[str, int]]:
        """(value, document number) of all documents, by value; `where` is SQL over value and number."""


class FieldValues:
    """`visible` (shape `(n_documents,)`, None means all) says which documents there are, also for an error's text.

    `chunk_documents` (shape `(n_chunks,)`) is the document number of each chunk.
    """

    def __init__(
        self,
        collection: Collection,
        chunk_documents: NDArray[np.int32],
        n_documents: int,
        rows: ValueRows,
        visible: Documents | None = None,
    ) -> None:
        self._collection = collection
        self._chunk_documents = chunk_documents
        self._n_documents = n_documents
        self._all_rows = rows
        self._visible = visible
        self._values: Recent[str, list[tuple[str, int]]] = Recent(_FIELDS)
        self._selected: Recent[tuple[bool, tuple[tuple[str, Condition], ...]], Chunks] = Recent(_FILTERS)

    def values(self, field: str) -> list[tuple[str, int]]:
        """Each value, in order of its text, with the number of documents that have it."""
        counted = self._values.get(field, lambda: list(Counter(v for v, _ in self._rows(field, "1")).items()))
        return list(counted)

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Chunks | None:
        """As `LaneIndex.select`. Raises: HIVE-206, 207, 208, and 104 for a bound of another type."""
        if not conditions:
            return None
        key = tuple(sorted(conditions.items()))
        return self._selected.get((checked, key), lambda: self._meeting(key, checked)[self._chunk_documents])

    def _meeting(self, conditions: Sequence[tuple[str, Condition]], checked: bool) -> Documents:
        allowed = np.ones(self._n_documents, np.bool_) if self._visible is None else self._visible.copy()
        for field, wanted in conditions:
            allowed &= self._with(field, wanted, checked and self._visible is not None)
        return allowed

    def _with(self, field: str, wanted: Condition, checked: bool) -> Documents:
        schema = self._collection.fields.get(field)
        path = f"filters.{field}"
        if schema is None:
            guess = closest(field, self._collection.filterable)
            known = ", ".join(self._collection.filterable) or "none"
            fix = f'did you mean "{guess}"?' if guess else f"filterable fields: {known}"
            raise HiveError.of("HIVE-206", f'the collection has no field "{field}"', path=path, fix=fix)
        if not schema.filterable:
            fix = f'set "filterable": true in collections/{self._collection.name}.json, then run `hive index`'
            raise HiveError.of("HIVE-207", f'field "{field}" is not filterable', path=path, fix=fix)
        allowed = np.ones(self._n_documents, np.bool_)
        if wanted.include is not None:
            allowed &= self._having(field, wanted.include, path, checked)
        if wanted.exclude:
            allowed &= ~self._having(field, wanted.exclude, path, checked)
        for operator, bound in wanted.bounds:
            allowed &= self._within(field, schema.type, operator, bound, path)
        return allowed

    def _having(self, field: str, values: Sequence[Scalar], path: str, checked: bool) -> Documents:
        mask = np.zeros(self._n_documents, np.bool_)
        for value in values:
            shown = _stored(value, self._collection.fields[field].type)
            rows = self._rows(field, "value = ?", shown)
            if not rows and not checked:
                known = [known for known, _ in self.values(field)]
                guess = closest(shown, known)
                some = ", ".join(known[:12]) + (" …" if len(known) > 12 else "")
                fix = f'did you mean "{guess}"?' if guess else f"values in use: {some or 'none'}"
                raise HiveError.of("HIVE-208", f'no document has {field} = "{shown}"', path=path, fix=fix)
            mask[[document for _, document in rows]] = True
        return mask

    def _within(self, field: str, kind: str, operator: str, bound: Scalar, path: str) -> Documents:
        if kind not in ("date", "number"):
            fix = "bounds work on date and number fields; use a value, a list or not"
            raise HiveError.of("HIVE-207", f'field "{field}" is a {kind}: it has no order', path=path, fix=fix)
        column, value = "number", bound
        if kind == "date":
            column = "value"
            try:
                value = iso_date(bound)
            except ValueError:
                raise HiveError.of("HIVE-104", f"{bound!r} is not a date", path=path, fix="use YYYY-MM-DD") from None
        elif not isinstance(bound, (int, float)):
            raise HiveError.of("HIVE-104", f"{bound!r} is not a number", path=path, fix="use a number without quotes")
        else:
            value = float(bound)  # SQLite knows no integers past 64 bits
        mask = np.zeros(self._n_documents, np.bool_)
        mask[[document for _, document in self._rows(field, f"{column} {_SQL_BOUNDS[operator]} ?", value)]] = True
        return mask

    def _rows(self, field: str, where: str, *arguments: Any) -> list[tuple[str, int]]:
        rows = self._all_rows(field, where, *arguments)
        return rows if self._visible is None else [row for row in rows if self._visible[row[1]]]


def _stored(value: Scalar, kind: str) -> str:
    if kind == "date":
        try:
            return iso_date(value)
        except ValueError:
            return str(value)
    return keyword_text(value) if kind in ("keyword", "text") else stored_value(value)[0]
