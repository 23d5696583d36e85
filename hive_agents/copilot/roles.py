"""What fields are to a reader, by the words of their names and by their values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Literal, cast

from hive_agents.copilot.forms import inflected, word_key
from hive_agents.copilot.language import language, word_list, word_table
from hive_agents.copilot.plan import FilterValue
from hive_agents.documents import FieldType, terms

JOINTS = frozenset({"of", "de", "du", "des", "del", "der"})
"""Words in names of fields that tell nothing: `type_de_produit`."""
FOLDERS = word_list("fields", "folders")
_SHORTEST_CUT, _SHORTEST_DEED = 3, 5
FieldRole = Literal[
    "kind", "status", "person", "place", "team", "audience", "language", "topic", "version", "party", "other"
]
"""What a field means to a reader, by its name."""


def parts(name: str) -> list[str]:
    """Return the words of a field's name.

    >>> parts("effectiveDate"), parts("doc_type")
    (['effective', 'date'], ['doc', 'type'])
    """
    return re.sub(r"[_.-]", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower().split()


def is_short_for(part: str, word: str) -> bool:
    """Return whether a part of a name is the beginning of a word: the "elev" of `elev_m` of "elevation"."""
    return len(part) > _SHORTEST_CUT and word.startswith(part)


def role_of(name: str) -> FieldRole:
    """Return a field's role by the last word of its name, else by the first.

    >>> role_of("doc_type"), role_of("created_by"), role_of("authors"), role_of("colour")
    ('kind', 'person', 'person', 'other')
    """
    named, roles = parts(name), cast("Mapping[str, FieldRole]", word_table("fields.roles"))
    ends = (form for part in (*named[-1:], *named[:1]) for form in (part, part.removesuffix("s")))
    return next((roles[part] for part in ends if part in roles), "other")


def holds(name: str, word: str) -> bool:
    """Return whether a word, also in the plural, is a part of a field's name: "author" of `authors`."""
    return not {word, f"{word}s"}.isdisjoint(parts(name))


def tells_rows(name: str) -> bool:
    """Return whether a field's numbers tell one row of the others: "ticket 4211" of `ticket_id`.

    >>> tells_rows("ticket_id"), tells_rows("bkg_num"), tells_rows("id"), tells_rows("pages")
    (True, True, False, False)
    """
    return not word_list("columns", "ids").isdisjoint(parts(name)[1:])


def document_status(metadata: Mapping[str, object]) -> str | None:
    """Return a document's status, from the first field with that role; None without one.

    >>> document_status({"owner": "mei", "state": "retired"}), document_status({"owner": "mei"})
    ('retired', None)
    """
    values = (value for name, value in metadata.items() if role_of(name) == "status")
    return next((value for value in values if isinstance(value, str)), None)


def date_role_of(name: str) -> str | None:
    """Return the event that a date field is about; None where its name doesn't say.

    >>> date_role_of("effective_date"), date_role_of("updated"), date_role_of("valid_until"), date_role_of("date")
    ('effective', 'changed', 'expires', 'effective')
    """
    roles = word_table("fields.date_roles")
    cues = [part for part in parts(name) if part in roles]
    specific = [part for part in cues if part not in ("date", "from", "next")] or cues
    return roles[specific[-1]] if specific else None


def flag_of(kind: FieldType, values: Sequence[object]) -> tuple[FilterValue, FilterValue] | None:
    """Return the values of yes and of no of a column that has no others; None of any other column.

    >>> flag_of("number", [0, 1]), flag_of("keyword", ["No", "Yes", "Unknown"]), flag_of("number", [1, 2])
    ((1, 0), ('Yes', 'No'), None)
    """
    untold = set() if kind == "number" else word_list("columns", "untold")
    pairs = [("1", "0")] if kind == "number" else [pair.split() for pair in language("en")["columns"]["flags"]]
    shown = {str(value).lower(): value for value in values if value is not None}
    found = next(((yes, no) for yes, no in pairs if no in shown and shown.keys() <= {yes, no} | untold), None)
    if kind == "boolean":
        return True, False
    return found and ((1, 0) if kind == "number" else (str(shown.get(found[0], found[0])), str(shown[found[1]])))


def deed(part: str) -> str:
    """Return what somebody did whom a part of a field's name tells by it; other words as they are.

    >>> deed("director"), deed("designer"), deed("year")
    ('directed', 'designed', 'year')
    """
    return f"{part[:-2]}ed" if len(part) > _SHORTEST_DEED and part.endswith(("er", "or")) else part


@cache
def name_stems(name: str) -> tuple[list[str], tuple[str, str]]:
    """Return the stems of the words of a field's name, and of all together, with and without the "id" at its end."""
    named = parts(name)
    bare = named[:-1] if len(named) > 1 and named[-1] == "id" else [*named[:-1], named[-1].removesuffix("id")]
    telling = [part for part in named[named[0] in ("has", "is") and len(named) > 1 :] if part not in JOINTS] or named
    return [word_key([word]) for word in telling], (word_key(named), word_key(bare if any(bare) else named))


@cache
def are_alike(name: str, other: str) -> bool:
    """Return whether two names are of one field, or differ in number alone; none does from that of the folder.

    >>> are_alike("author", "authors"), are_alike("type", "typed"), are_alike("category", "categories")
    (True, False, False)
    """
    same = word_key(parts(name)) == word_key(parts(other)) and inflected(name.lower(), other.lower())
    return name == other or (same and FOLDERS.isdisjoint((name, other)))


def values_of(row: Mapping[str, Any], field: str) -> list[Any]:
    """Return the values of a row's field, and the texts of fields called alike that differ from them.

    >>> values_of({"author": "mei", "authors": ["sam", "mei"]}, "author"), values_of({"page": 3, "pages": 9}, "page")
    (['mei', 'sam'], [3])
    """
    found: list[Any] = []
    for name in sorted((one for one in row if are_alike(one, field)), key=lambda one: one != field):
        value = row[name]
        values = value if isinstance(value, list) else [] if value is None else [value]
        found += values if name == field else [one for one in values if isinstance(one, str) and one not in found]
    return found


@cache
def cue_stems(field: str, role: FieldRole) -> frozenset[str]:
    """Return the stems of the words that name a field beside a value: "department", "tagged"."""
    named = parts(field)
    by_role = word_list("fields.roles", role) if role not in ("language", "audience", "other") else ()
    return frozenset(terms(" ".join((*by_role, *named[:1], *named[-1:]))))


def holding(names: Collection[str], ends: Sequence[str]) -> str | None:
    """Return the one field with a word of the first of these ends that any has; of several the one called so alone,
    beside a unit, or that of the whole.

    >>> holding(["unitprice", "depth_m", "area_km2"], ["price"]), holding(["area_km2", "area_mi2"], ["area"])
    ('unitprice', None)
    """
    found = (
        [name for name in names if any(part.endswith(end) or is_short_for(part, end) for part in parts(name))]
        for end in ends
    )
    first = next((one for one in found if one), [])
    bare = [name for name in first if {*parts(name)} - word_list("columns", "units") <= {*ends}]
    whole = [name for name in first if not word_list("columns", "whole").isdisjoint(parts(name))]
    return next((one[0] for one in (first, bare, whole) if len(one) == 1), None)
