"""What the documents say that an optimizer may do with their fields: proposals, which a person agrees to.

Status, version and dates may rank, values that say that a document no longer holds may hide, and fields of people are
left alone. Nothing is declared by itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hive_agents.base import HiveError, did_you_mean
from hive_agents.documents.documents import Collection, FieldSchema, keyword_text
from hive_agents.documents.undeclared import UndeclaredField

DeclaredKey = Literal["ranks", "may_hide", "person"]
_FLAGS: tuple[DeclaredKey, DeclaredKey] = ("ranks", "person")

NO_LONGER = frozenset(
    "retired obsolete superseded replaced withdrawn deprecated archived expired cancelled canceled outdated legacy old"
    " eol inactive void rejected removed".split()
)
"""Values of documents that no longer hold."""
_STATES = NO_LONGER | frozenset(
    "draft effective current active final approved released published valid review proposed accepted pending".split()
)
_STATUS = frozenset("status state lifecycle stage maturity".split())
_VERSION = frozenset("version release edition revision rev".split())
_AGES = frozenset(
    "updated modified changed effective valid published created date released reviewed revised last issued".split()
)
_PERSON = frozenset(
    "owner author authors assignee approver reviewer editor contact maintainer maintainers responsible by".split()
)
_REPLACES = frozenset("replaces supersedes obsoletes replaced superseded obsoleted".split())
_NUMBERED = re.compile(r"v?\d+(?:\.\d+)*", re.IGNORECASE)
_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
MOST = 16
"""A field with more values than this is an identifier, and nothing ranks by it."""


@dataclass(frozen=True)
class Declaration:
    """A key that could be set in a field's schema, and why."""

    field: str
    key: DeclaredKey
    value: bool | list[str]
    why: str

    @property
    def name(self) -> str:
        return f"{self.field}.{self.key}"


def proposed_declarations(
    collection: Collection, undeclared: Sequence[UndeclaredField], front_matter: Iterable[Mapping[str, Any]]
) -> list[Declaration]:
    """Return what could be declared and isn't, of the collection's filterable fields and of undeclared ones.

    >>> fields = {"status": {"type": "keyword", "filterable": True}, "by": {"type": "keyword", "filterable": True}}
    >>> documents = [{"status": "retired", "by": "ann"}, {"status": "effective", "by": "bo"}]
    >>> found = proposed_declarations(Collection(name="kb", fields=fields), [], documents)
    >>> [(one.name, one.value) for one in found]
    [('status.ranks', True), ('status.may_hide', ['retired']), ('by.person', True)]
    """
    documents = list(front_matter)
    fields = {name: schema for name, schema in collection.fields.items() if schema.filterable}
    fields |= {field.name: FieldSchema(type=field.type, filterable=True) for field in undeclared}
    replacing = [name for name in dict.fromkeys(name for one in documents for name in one) if _words(name) & _REPLACES]
    saying = sum(any(one.get(name) for name in replacing) for one in documents)
    evidence = f"; {saying} documents say what replaces what ({', '.join(replacing)})" if saying else ""
    found: list[Declaration] = []
    for name, schema in fields.items():
        said = [one.get(name) for one in documents]
        each = [value for one in said for value in (one if isinstance(one, list) else [one])]
        values = Counter(keyword_text(value) for value in each if value is not None and str(value).strip())
        if name not in replacing:
            found += _of_field(name, schema, values, evidence)
    return found


def _of_field(name: str, schema: FieldSchema, values: Mapping[str, int], evidence: str) -> Iterator[Declaration]:
    words = _words(name)
    mails = schema.type == "keyword" and bool(values) and all(map(_MAIL.fullmatch, values))
    if words & _PERSON or mails:
        if not schema.person:
            yield Declaration(name, "person", True, "it names people: no lever for an optimizer")
        return
    if schema.person or len(values) < 2:
        return
    states = {value for value in values if value.lower() in _STATES}
    gone = [value for value in values if value.lower() in NO_LONGER]
    if schema.type == "date":
        if words & _AGES and not schema.ranks:
            yield Declaration(name, "ranks", True, f"newer documents may come first{evidence}")
    elif schema.type in ("keyword", "number") and len(values) <= MOST:
        numbered = all(map(_NUMBERED.fullmatch, values))
        if schema.type == "keyword" and (words & _STATUS or len(states) >= 2):
            if not schema.ranks:
                yield Declaration(name, "ranks", True, f"what holds may come first: {_some(values)}{evidence}")
            if gone and not schema.may_hide:
                number = sum(values[value] for value in gone)
                why = f"{number} documents that no longer hold might be filtered away"
                yield Declaration(name, "may_hide", sorted(gone), why)
        elif words & _VERSION and numbered and schema.type == "keyword" and not schema.ranks:
            yield Declaration(name, "ranks", True, f"a version may come first: {_some(values)}{evidence}")
    if schema.type == "boolean" and words & _STATES and not schema.ranks:
        yield Declaration(name, "ranks", True, f"documents with and without {name} may change places{evidence}")


def chosen_declarations(
    proposals: Sequence[Declaration], names: Sequence[str], filterable: Iterable[str] = ()
) -> list[Declaration]:
    """Return what a person declares: FIELD is what is proposed for it without `may_hide`, FIELD.KEY one key.

    Of a filterable field `FIELD.ranks`, `FIELD.person` and `FIELD.may_hide=VALUE,VALUE` need no proposal.
    Raises: HIVE-409 for another name.
    """
    chosen: list[Declaration] = []
    fields = {*filterable}
    for name in names:
        meant = [one for one in proposals if one.name == name or (one.field == name and one.key != "may_hide")]
        said, _, values = name.partition("=")
        field, _, key = said.rpartition(".")
        hidden = [value.strip() for value in values.split(",") if value.strip()]
        if not meant and field in fields:
            may_hide = [Declaration(field, "may_hide", hidden, "as a person said")] if hidden else []
            ranks, person = (Declaration(field, one, True, "as a person said") for one in _FLAGS)
            meant = {"ranks": [ranks], "person": [person], "may_hide": may_hide}.get(key, [])
        if not meant:
            known = [one.name for one in proposals]
            fix = did_you_mean(name, known, f"proposed are: {', '.join(known) or 'none'}; or name FIELD.ranks")
            raise HiveError.of("HIVE-409", f"nothing is proposed for {name}", path="fields", fix=fix, exit_code=2)
        chosen += [one for one in meant if one not in chosen]
    return chosen


def _words(name: str) -> set[str]:
    return {*re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())}


def _some(values: Iterable[str]) -> str:
    shown = sorted(values)
    return ", ".join(shown[:6]) + (", …" if len(shown) > 6 else "")
