"""Front matter fields that a collection doesn't declare, so that filters can't use them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection as Group, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.base import HiveError, closest
from hive_agents.base.files import atomic_write_text, read_bytes
from hive_agents.documents.documents import Collection, FieldType, collection_names, iso_date, keyword_text
from hive_agents.workspace import Workspace

LEAST = 2
"""Least number of documents that have a field."""
LONGEST = 60
"""Greatest average length of keywords; longer values are text."""
_SEPARATORS, _LONGEST_PART = (",", ";"), 5
"""What may part several values in one text, and the most words of such a value."""
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_NAME = re.compile(r"[^\W\d][\w.-]{0,63}")
_OF_MAILS = frozenset({"from", "to"})
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_NOT_FIELDS = frozenset({"title", "content", "tenant", "view", "source_file"})


@dataclass(frozen=True)
class UndeclaredField:
    """An undeclared field; `values` are texts, most frequent first, `separator` what parts several in one text."""

    name: str
    type: FieldType
    documents: int
    values: tuple[str, ...]
    separator: str | None = None


def undeclared_fields(
    collection: Collection, front_matter: Iterable[Mapping[str, Any]], asked: Group[str] = ()
) -> list[UndeclaredField]:
    """Return the fields that could be declared, most frequent first.

    Text, mappings, and keywords that no two documents share can't filter, and are left out; of a field in `asked`, of
    those who write and get mails, and of numbers such as 0012, the values needn't be shared yet.

    >>> kb = Collection(name="kb", fields={"title": {"type": "text"}})
    >>> documents = [{"status": "draft", "at": "2026-01-02"}, {"title": "B", "status": "draft", "at": "2026-03-04"}]
    >>> [(field.name, field.type, field.documents) for field in undeclared_fields(kb, documents)]
    [('at', 'date', 2), ('status', 'keyword', 2)]
    >>> mails = [{"from": "a@example.org", "thread": "1@a"}, {"from": "b@example.org", "thread": "2@a"}]
    >>> [field.name for field in undeclared_fields(kb, mails)]
    ['from']
    >>> undeclared_fields(kb, [{"by": "Mei, Sam"}, {"by": "Mei"}, {"by": "Sam, Ines, Mei"}])[0].separator
    ','
    """
    by_name: dict[str, list[list[Any]]] = {}
    for metadata in front_matter:
        for name, value in metadata.items():
            excluded = name in collection.fields or name in _NOT_FIELDS or not _NAME.fullmatch(name)
            all_values = value if isinstance(value, list) else [value]
            values = [each for each in all_values if each is not None and str(each).strip()]
            if not excluded and values:
                by_name.setdefault(name, []).append(values)
    fields = []
    for name, of_documents in by_name.items():
        separator = _separator([[str(value) for value in values] for values in of_documents])
        if separator is not None:
            of_documents = [
                [part.strip() for one in values for part in str(one).split(separator)] for values in of_documents
            ]
        kind = _type_of([value for values in of_documents for value in values])
        counts = Counter(keyword_text(value) for values in of_documents for value in values if kind is not None)
        shared = kind in ("date", "number", "boolean") or len(counts) < sum(counts.values())
        shared = (
            shared or (name in _OF_MAILS and all(map(_ADDRESS.fullmatch, counts))) or all(map(str.isdecimal, counts))
        )
        if kind is not None and (name in asked or (shared and len(of_documents) >= LEAST)):
            by_frequency = tuple(value for value, _ in counts.most_common())
            fields.append(UndeclaredField(name, kind, len(of_documents), by_frequency, separator))
    return sorted(fields, key=lambda field: (-field.documents, field.name))


def declare_fields(
    workspace: Workspace,
    collection: Collection,
    fields: Sequence[UndeclaredField],
    said: Sequence[tuple[str, str, Any]] = (),
) -> str:
    """Add filterable fields to the collection's file, and (field, key, value) that are `said` of fields in it.

    Returns its path in the workspace.
    """
    with workspace.exclusive("declaring fields"):
        for stem in sorted(collection_names(workspace), key=lambda stem: stem != collection.name):
            path = workspace.root / "collections" / f"{stem}.json"
            value = json.loads(read_bytes(path))
            if value.get("name") == collection.name:
                for field in fields:
                    several = {"separator": field.separator} if field.separator else {}
                    value["fields"][field.name] = {"type": field.type, "filterable": True, **several}
                for name, key, one in said:
                    value["fields"][name][key] = one
                atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
                return workspace.relative(path)
    raise AssertionError(collection.name)


def named_fields(
    fields: Sequence[UndeclaredField], names: Sequence[str], declared: Group[str]
) -> list[UndeclaredField]:
    """Return the fields of those names. Raises: HIVE-409 for one that no documents have, or that is declared."""
    by_name = {field.name: field for field in fields}
    for name in names:
        if name not in by_name:
            guess = closest(name, by_name)
            fix = f"did you mean {guess}?" if guess else "`hive fields` lists what could be declared"
            why = (
                f"{name} is declared already"
                if name in declared
                else f"no document has a field {name} of values to filter by"
            )
            raise HiveError.of("HIVE-409", why, path="fields", fix=fix, exit_code=2)
    return [by_name[name] for name in dict.fromkeys(names)]


def _separator(of_documents: Sequence[Sequence[str]]) -> str | None:
    """Return what parts several values in one text; None where a sign belongs to the value.

    Documents have one, two and more values then, in a text or a list, and values that stand alone stand beside others.

    >>> _separator([["Mei, Sam"], ["Mei"], ["Sam, Ines, Mei"]]), _separator([["Lima, Peru"], ["Oslo, Norway"]])
    (',', None)
    """
    texts = [values[0] for values in of_documents if len(values) == 1]
    for sign in _SEPARATORS:
        parted = [[part.strip() for part in text.split(sign)] for text in texts]
        beside = {part for parts in parted if len(parts) > 1 for part in parts}
        alone = {value for values in of_documents if len(values) > 1 for value in values}
        alone |= {parts[0] for parts in parted if len(parts) == 1}
        several = {min(len(values), 3) for values in (*parted, *of_documents)} == {1, 2, 3}
        short = all(part and len(part.split()) <= _LONGEST_PART for part in beside)
        if several and short and alone & beside and not any(map(_GROUPED.fullmatch, texts)):
            return sign
    return None


def _type_of(values: Sequence[Any]) -> FieldType | None:
    """Return the type of all values; None for text and mappings."""
    if any(isinstance(value, dict | list) for value in values):
        return None
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "number"
    if all(_is_date(value) for value in values):
        return "date"
    lengths = [len(str(value)) for value in values]
    return "keyword" if sum(lengths) <= LONGEST * len(lengths) else None


def _is_date(value: Any) -> bool:
    try:
        return len(iso_date(value)) >= len("2026-01-01")
    except ValueError:
        return False
