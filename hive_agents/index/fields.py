"""The values of a collection's fields, filters on them and boosts by them, in the whole index or in a scope."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError, did_you_mean
from hive_agents.documents import Collection, FieldSchema, date_bound, iso_date, keyword_text, proposals, words
from hive_agents.index.boosts import HALF_LIFE, BoostKey, boost_key, by_age, newest_day
from hive_agents.index.filters import Condition, Scalar
from hive_agents.index.generation import stored_value
from hive_agents.models.embedding import Recent

_SQL_BOUNDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_FIELDS, _FILTERS = 64, 32
_DAY = 86_400.0

DocumentMask = NDArray[np.bool_]
Chunks = NDArray[np.bool_]


class ValueRows(Protocol):
    def __call__(self, field: str, where: str, *arguments: Any) -> list[tuple[str, int]]:
        """Return (value, document number) of all documents, by value; `where` is SQL over value and number."""


class FieldValues:
    """The fields of the documents in `visible` (shape `(n_documents,)`, None means all); messages name no others.

    `chunk_documents` (shape `(n_chunks,)`) is the document number of each chunk.
    """

    def __init__(
        self,
        collection: Collection,
        chunk_documents: NDArray[np.int32],
        n_documents: int,
        rows: ValueRows,
        visible: DocumentMask | None = None,
    ) -> None:
        self._collection = collection
        self._chunk_documents = chunk_documents
        self._n_documents = n_documents
        self._all_rows = rows
        self._visible = visible
        self._values: Recent[str, list[tuple[str, int]]] = Recent(_FIELDS)
        self._selected: Recent[tuple[bool, str], Chunks] = Recent(_FILTERS)
        self._factors: Recent[BoostKey, NDArray[np.float64]] = Recent(_FILTERS)
        self._phrases: Recent[str, frozenset[tuple[str, ...]]] = Recent(_FIELDS)

    def values(self, field: str) -> list[tuple[str, int]]:
        """Return (value, number of documents) of each value, in order of its text."""
        counted = self._values.get(field, lambda: list(Counter(v for v, _ in self._rows(field, "1")).items()))
        return list(counted)

    def select(self, conditions: Mapping[str, Condition], *, checked: bool = False) -> Chunks | None:
        """As `LaneIndex.select`. Raises: HIVE-206, 207, 208, and 104 for a bound of another type."""
        if not conditions:
            return None
        ordered = sorted(conditions.items())
        key = repr(ordered)  # the conditions themselves are equal for True and 1
        return self._selected.get((checked, key), lambda: self._meeting(ordered, checked)[self._chunk_documents])

    def factors(self, boosts: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
        """Return each document's factor, shape `(n_documents,)`, 1 where it has no boosted value.

        Raises: HIVE-206 and 207 for a field that can't be boosted so. A value that no document has is accepted: its
        last document may have been deleted.
        """
        return self._factors.get(boost_key(boosts), lambda: self._factors_of(boosts))

    def named(self, query: str, fields: Iterable[str]) -> frozenset[str]:
        """Return those of the fields of which the query names a value, or what readers call it.

        Of a date a year is enough; a boolean field is named by its own name. Where documents say that they no longer
        hold, a past year of the documents names a time at which they did.
        """
        said = words(query)

        def phrases_of(field: str) -> frozenset[tuple[str, ...]]:
            return self._phrases.get(field, lambda: frozenset(self._phrases_of(field)))

        found = set()
        for field in fields:
            phrases = phrases_of(field)
            lengths = {len(phrase) for phrase in phrases}
            runs = (tuple(said[at : at + n]) for n in lengths for at in range(len(said) - n + 1))
            if any(run in phrases for run in runs):
                found.add(field)
        return frozenset(found)

    def _phrases_of(self, field: str) -> Iterator[tuple[str, ...]]:
        schema = self._collection.fields.get(field) or FieldSchema(type="keyword")
        known = [value for value, _ in self.values(field)] if schema.filterable else []
        if schema.type == "boolean":
            known = [field.replace("_", " ")] if known else []
        if schema.type == "date":
            known += [value[:4] for value in known]
        known += [name for value in known for name in schema.synonyms.get(value, ())]
        if any(value.lower() in proposals.NO_LONGER for value in known):
            known += self._past_years()
        yield from (phrase for phrase in map(tuple, map(words, known)) if phrase)

    def _past_years(self) -> list[str]:
        """Return the years from the oldest date of a document up to the one before the newest."""
        dates = [name for name in self._collection.filterable if self._collection.fields[name].type == "date"]
        years = sorted({int(value[:4]) for name in dates for value, _ in self.values(name)})
        return [str(year) for year in range(years[0], years[-1])] if years else []

    def missing(self, field: str, boost: Mapping[str, float]) -> list[HiveError]:
        """Return a HIVE-208 for each boosted value that no document has."""
        kind = self._collection.fields[field].type
        if HALF_LIFE in boost:
            return []
        known = [value for value, _ in self.values(field)]
        boosted = [boost_text(value, kind) for value in boost]
        return [_no_value(field, value, known, f"boosts.{field}") for value in boosted if value not in known]

    def _factors_of(self, boosts: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
        factors = np.ones(self._n_documents)
        for field, boost in boosts.items():
            schema = self._filterable(field, f"boosts.{field}")
            if (schema.type == "date") != (HALF_LIFE in boost):
                raise _wrong_boost(field, schema.type)
            if HALF_LIFE in boost:
                self._age(field, boost[HALF_LIFE], factors)
                continue
            for value, factor in boost.items():
                rows = self._rows(field, "value = ?", boost_text(value, schema.type))
                factors[[document for _, document in rows]] *= factor
        return factors

    def newest_day(self, field: str, half_life: float) -> float | None:
        """Return the day that ages are counted from, in days since 1970; None without dates."""
        dates = self._dates(field)
        return newest_day(np.array(list(dates.values())), half_life) if dates else None

    def _age(self, field: str, half_life: float, factors: NDArray[np.float64]) -> None:
        dates = self._dates(field)
        if dates:
            days = np.array(list(dates.values()))
            factors[list(dates)] *= by_age(newest_day(days, half_life) - days, half_life)

    def _dates(self, field: str) -> dict[int, float]:
        """Return document number → newest date, in days since 1970, of the documents with a date."""
        dates: dict[int, float] = {}
        for value, document in self._rows(field, "1"):
            day = days_of(value)
            dates[document] = max(day, dates.get(document, day))
        return dates

    def _meeting(self, conditions: Sequence[tuple[str, Condition]], checked: bool) -> DocumentMask:
        allowed = np.ones(self._n_documents, np.bool_) if self._visible is None else self._visible.copy()
        for field, condition in conditions:
            allowed &= self._with(field, condition, checked and self._visible is not None)
        return allowed

    def _with(self, field: str, condition: Condition, checked: bool) -> DocumentMask:
        path = f"filters.{field}"
        schema = self._filterable(field, path)
        allowed = np.ones(self._n_documents, np.bool_)
        if condition.include is not None:
            allowed &= self._having(field, condition.include, path, checked)
        if condition.exclude:
            allowed &= ~self._having(field, condition.exclude, path, checked)
        for operator, bound in condition.bounds:
            allowed &= self._within(field, schema.type, operator, bound, path)
        return allowed

    def _filterable(self, field: str, path: str) -> FieldSchema:
        schema = self._collection.fields.get(field)
        if schema is None:
            known = ", ".join(self._collection.filterable) or "none"
            fix = did_you_mean(field, self._collection.filterable, f"filterable fields: {known}")
            raise HiveError.of("HIVE-206", f'the collection has no field "{field}"', path=path, fix=fix)
        if not schema.filterable:
            file = f"collections/{self._collection.name}.json"
            fix = f'set "filterable": true in {file}, then run `hive index` and do as it says'
            raise HiveError.of("HIVE-207", f'field "{field}" is not filterable', path=path, fix=fix)
        return schema

    def _having(self, field: str, values: Sequence[Scalar], path: str, checked: bool) -> DocumentMask:
        mask = np.zeros(self._n_documents, np.bool_)
        for value in values:
            shown = filter_text(value, self._collection.fields[field].type)
            rows = self._rows(field, "value = ?", shown)
            if not rows and not checked:
                raise _no_value(field, shown, [known for known, _ in self.values(field)], path)
            mask[[document for _, document in rows]] = True
        return mask

    def _within(self, field: str, kind: str, operator: str, bound: Scalar, path: str) -> DocumentMask:
        if kind not in ("date", "number"):
            fix = "bounds work on date and number fields; use a value, a list or not"
            raise HiveError.of("HIVE-207", f'field "{field}" is a {kind}: it has no order', path=path, fix=fix)
        column, value = "number", bound
        if kind == "date":
            column = "value"
            try:
                operator, value = date_bound(operator, bound)
            except ValueError:
                raise HiveError.of("HIVE-104", f"{bound!r} is not a date", path=path, fix="use YYYY-MM-DD") from None
        elif not isinstance(bound, (int, float)):
            raise HiveError.of("HIVE-104", f"{bound!r} is not a number", path=path, fix="use a number without quotes")
        else:
            value = float(bound)  # SQLite has no integers past 64 bits
        mask = np.zeros(self._n_documents, np.bool_)
        mask[[document for _, document in self._rows(field, f"{column} {_SQL_BOUNDS[operator]} ?", value)]] = True
        return mask

    def _rows(self, field: str, where: str, *arguments: Any) -> list[tuple[str, int]]:
        rows = self._all_rows(field, where, *arguments)
        return rows if self._visible is None else [row for row in rows if self._visible[row[1]]]


def filter_text(value: Scalar, kind: str) -> str:
    """Return a filter's value in the form of the stored values of a field of this type."""
    if kind == "date":
        try:
            return iso_date(value)
        except ValueError:
            return str(value)
    return keyword_text(value) if kind in ("keyword", "text") else stored_value(value)[0]


def boost_text(value: str, kind: str) -> str:
    """Return a boost's key, a text in JSON, in the form of the stored values of a field of this type."""
    if kind == "number":
        return _number_text(value)
    return value.lower() if kind == "boolean" else value


def _number_text(value: str) -> str:
    try:
        return stored_value(float(value))[0]
    except ValueError:
        return value


def days_of(value: str) -> float:
    """Return a stored date as days since 1970; one without a time zone is UTC."""
    moment = dt.datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() / _DAY


def _no_value(field: str, shown: str, known: Sequence[str], path: str) -> HiveError:
    some = ", ".join(known[:12]) + (" …" if len(known) > 12 else "")
    fix = did_you_mean(shown, known, f"values in use: {some or 'none'}")
    return HiveError.of("HIVE-208", f'no document has {field} = "{shown}"', path=path, fix=fix)


def _wrong_boost(field: str, kind: str) -> HiveError:
    if kind == "date":
        message, fix = f'field "{field}" is a date: it is boosted by its age', f'use {{"{HALF_LIFE}": 365}}'
    else:
        message, fix = f'field "{field}" is a {kind}: it has no age', 'use factors by value, as {"draft": 0.5}'
    return HiveError.of("HIVE-207", message, path=f"boosts.{field}", fix=fix)
