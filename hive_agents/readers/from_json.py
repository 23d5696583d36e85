"""JSON and JSONL with objects as records to tables, values unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import UNSUPPORTED, Imported, ImportFailure, TableRow
from hive_agents.readers.rows import require_document, rows_as_markdown, rows_of_texts

_DEEPEST = 5
_NO_TEXTS = f".json without a list of texts{UNSUPPORTED}"


def from_jsonl(data: bytes) -> Imported:
    return Imported(rows_as_markdown(_lines(data)) + "\n")


def from_json(data: bytes) -> Imported:
    """Return an array of records with texts as a table. Raises: ImportFailure for other JSON."""
    rows = _array(data)
    if rows_of_texts(rows) is None:
        raise ImportFailure(_NO_TEXTS)
    return Imported(rows_as_markdown(rows) + "\n")


def jsonl_rows(data: bytes) -> list[TableRow] | None:
    return rows_of_texts(_lines(data))


def json_rows(data: bytes) -> list[TableRow] | None:
    return rows_of_texts(_array(data))


def _lines(data: bytes) -> list[list[str]]:
    """Return a head and a row for each line. Raises: ImportFailure."""
    records = []
    for number, line in enumerate(decode(data).split("\n"), start=1):
        if line.strip():
            record = _parsed(line)
            if not isinstance(record, dict):
                raise ImportFailure(f"line {number} is no JSON object")
            records.append(record)
    return _table(records)


def _array(data: bytes) -> list[list[str]]:
    """Return a head and a row for each object of an array, also of the one in an object. Raises: ImportFailure."""
    records = _parsed(decode(data))
    if isinstance(records, dict):  # {"count": 3, "products": […]}
        lists = [value for value in records.values() if isinstance(value, list)]
        records = lists[0] if len(lists) == 1 else None
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise ImportFailure(_NO_TEXTS)
    return _table(records)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str)  # 3.10 stays 3.10
    except ValueError:
        return None


def _table(records: list[dict[str, Any]]) -> list[list[str]]:
    flat = [dict(_values(record)) for record in records]
    names = list(dict.fromkeys(name for record in flat for name in record))
    require_document(len(names) * len(flat))
    return [names, *([record.get(name, "") for name in names] for record in flat)]


def _values(record: dict[str, Any], above: str = "", depth: int = 1) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each value; names in nested objects are dotted paths."""
    for key, value in record.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _values(value, f"{name}.", depth + 1)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield name, ", ".join(value)
        elif isinstance(value, str):
            yield name, value
        elif value is not None:
            yield name, json.dumps(value, ensure_ascii=False)
