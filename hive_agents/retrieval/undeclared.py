"""Fields of the documents' front matter that their collection doesn't declare, so that no filter can use them yet."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection as Group, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.errors import HiveError, closest
from hive_agents.files import atomic_write_text, read_bytes
from hive_agents.retrieval.documents import Collection, FieldType, collection_names, iso_date, keyword_text
from hive_agents.workspace import Workspace

LEAST = 2
"""Documents that have a field, at the least: one alone is a remark."""
LONGEST = 60
"""Characters of a keyword; what is longer on average is text."""
_NAME = re.compile(r"[^\W\d][\w.-]{0,63}")
_NOT_FIELDS = frozenset({"title", "content", "tenant", "view", "source_file"})


@dataclass(frozen=True)
class UndeclaredField:
    """A field that documents have; `values` are in order of frequency, as text."""

    name: str
    type: FieldType
    documents: int
    values: tuple[str, ...]


def undeclared_fields(
    collection: Collection, front_matter: Iterable[Mapping[str, Any]], asked: Group[str] = ()
) -> list[UndeclaredField]:
    """Return the fields that could be declared, those of most documents first.

    Text, mappings, and words that no two documents share tell nothing apart, and are left out; a field that somebody
    `asked` for by its name may be one whose values they will share.

    >>> kb = Collection(name="kb", fields={"title": {"type": "text"}})
    >>> said = [{"status": "draft", "at": "2026-01-02"}, {"title": "B", "status": "draft", "at": "2026-03-04"}]
    >>> [(field.name, field.type, field.documents) for field in undeclared_fields(kb, said)]
    [('at', 'date', 2), ('status', 'keyword', 2)]
    """
    found: dict[str, list[list[Any]]] = {}
    for values in front_matter:
        for name, value in values.items():
            known = name in collection.fields or name in _NOT_FIELDS or not _NAME.fullmatch(name)
            all_values = value if isinstance(value, list) else [value]
            several = [each for each in all_values if each is not None and str(each).strip()]
            if not known and several:
                found.setdefault(name, []).append(several)
    listed = []
    for name, of_documents in found.items():
        kind = _type_of([value for several in of_documents for value in several])
        counts = Counter(keyword_text(value) for several in of_documents for value in several if kind is not None)
        shared = kind in ("date", "number", "boolean") or len(counts) < sum(counts.values())
        if kind is not None and (name in asked or (shared and len(of_documents) >= LEAST)):
            most = tuple(value for value, _ in counts.most_common())
            listed.append(UndeclaredField(name, kind, len(of_documents), most))
    return sorted(listed, key=lambda field: (-field.documents, field.name))


def declare_fields(workspace: Workspace, collection: Collection, fields: Sequence[UndeclaredField]) -> str:
    """Write filterable fields into the collection's file, whose other lines keep their meaning; return its name."""
    with workspace.exclusive("declaring fields"):
        for stem in sorted(collection_names(workspace), key=lambda stem: stem != collection.name):
            path = workspace.root / "collections" / f"{stem}.json"
            value = json.loads(read_bytes(path))
            if value.get("name") == collection.name:
                value["fields"] |= {field.name: {"type": field.type, "filterable": True} for field in fields}
                atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
                return workspace.relative(path)
    raise AssertionError(collection.name)


def named_fields(found: Sequence[UndeclaredField], names: Sequence[str], declared: Group[str]) -> list[UndeclaredField]:
    """Return the fields of those names. Raises: HIVE-409 for one that no documents have, or that is declared."""
    known = {field.name: field for field in found}
    for name in names:
        if name not in known:
            guess = closest(name, known)
            fix = f"did you mean {guess}?" if guess else "`hive fields` lists what could be declared"
            told = (
                f"{name} is declared already"
                if name in declared
                else f"no document has a field {name} of values to filter by"
            )
            raise HiveError.of("HIVE-409", told, path="fields", fix=fix, exit_code=2)
    return [known[name] for name in dict.fromkeys(names)]


def _type_of(values: Sequence[Any]) -> FieldType | None:
    """Return what all values are; None for text and for what is no value."""
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
