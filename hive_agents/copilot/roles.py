"""What fields are to a reader, by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal, cast

from hive_agents.copilot.forms import word_key
from hive_agents.copilot.language import word_list, word_table
from hive_agents.documents import terms

JOINTS = frozenset({"of", "de", "du", "des", "del", "der"})
"""Words in names of fields that tell nothing: `type_de_produit`."""
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


def role_of(name: str) -> FieldRole:
    """Return a field's role by the last word of its name, else by the first.

    >>> role_of("doc_type"), role_of("created_by"), role_of("colour")
    ('kind', 'person', 'other')
    """
    named, roles = parts(name), cast("Mapping[str, FieldRole]", word_table("fields.roles"))
    return next((roles[part] for part in (*named[-1:], *named[:1]) if part in roles), "other")


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


@cache
def name_stems(name: str) -> tuple[list[str], tuple[str, str]]:
    """Return the stems of the words of a field's name, and of all together, with and without the "id" at its end."""
    named = parts(name)
    bare = named[:-1] if len(named) > 1 and named[-1] == "id" else [*named[:-1], named[-1].removesuffix("id")]
    telling = [part for part in named[named[0] in ("has", "is") and len(named) > 1 :] if part not in JOINTS] or named
    return [word_key([word]) for word in telling], (word_key(named), word_key(bare if any(bare) else named))


@cache
def cue_stems(field: str, role: FieldRole) -> frozenset[str]:
    """Return the stems of the words that name a field beside a value: "department", "tagged"."""
    named = parts(field)
    by_role = word_list("fields.roles", role) if role not in ("language", "audience", "other") else ()
    return frozenset(terms(" ".join((*by_role, *named[:1], *named[-1:]))))
