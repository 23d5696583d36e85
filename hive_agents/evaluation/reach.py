"""What readers find who know a document's title, and what no question finds any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import sha256
from hive_agents.documents import words
from hive_agents.evaluation.golden import GoldenQuery, GoldenSet
from hive_agents.evaluation.readers import WITHIN, Reach
from hive_agents.evaluation.results import Evaluation, mean
from hive_agents.index import AnyIndex, Condition, scope_of
from hive_agents.ranking import RetrievalConfig, SearchEngine, needs_vectors

TITLES = 100
"""The most titles that are asked for."""


def known_items(index: AnyIndex) -> GoldenSet:
    """Return a question for each of at most `TITLES` titles, whose documents are relevant, in an order of chance.

    Documents of values that may be hidden are left out.
    """
    may_hide = {name: field.may_hide for name, field in index.collection.fields.items() if field.may_hide}
    by_title: dict[str, list[str]] = {}
    for doc_id, title, _ in index.documents():
        if words(title):
            by_title.setdefault(title, []).append(doc_id)
    excluded = having(index, may_hide)
    queries: list[GoldenQuery] = []
    for title in sorted(by_title, key=sha256):
        doc_ids = [doc_id for doc_id in by_title[title] if doc_id not in excluded]
        if doc_ids and len(queries) < TITLES:
            queries.append(GoldenQuery.model_construct(id=title, query=title, relevant=doc_ids))
    return GoldenSet(index.collection.name, WITHIN, tuple(queries), "", "")


def having(index: AnyIndex, values: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the documents that have one of these values in a field."""
    found: set[str] = set()
    for field, wanted in values.items():
        known = [value for value, _ in index.values(field)] if index.collection.fields[field].filterable else []
        present = [value for value in wanted if value in known]
        mask = index.select({field: Condition(include=tuple(present))}, checked=True) if present else None
        found |= set(index.documents_of(mask.nonzero()[0])) if mask is not None else set()
    return found


def demoted(index: AnyIndex, config: RetrievalConfig) -> set[str]:
    """Return the documents that a config demotes by a field that may rank: nobody counts on their place."""
    fields = index.collection.fields
    lower = {
        field: [value for value, factor in boost.items() if factor < 1]
        for field, boost in config.boosts.items()
        if field in fields and fields[field].ranks and fields[field].type != "date"
    }
    return having(index, lower)


def undeclared_hidden(index: AnyIndex, old: RetrievalConfig, new: RetrievalConfig) -> set[str]:
    """Return the documents that the filters of `new` hide, of those that `old` finds, without those that may be."""
    passing, before = index.select(new.conditions, checked=True), index.select(old.conditions, checked=True)
    if passing is None:
        return set()
    hidden = ~passing if before is None else before & ~passing
    lost = set(index.documents_of(hidden.nonzero()[0])) - set(index.documents_of(passing.nonzero()[0]))
    declared = {name: field.may_hide for name, field in index.collection.fields.items() if field.may_hide}
    return lost - having(index, declared)


def difference(
    engine: SearchEngine,
    old: RetrievalConfig,
    new: RetrievalConfig,
    evaluation: Evaluation,
    reader: Principal | None = None,
) -> Reach | None:
    """Return what readers who know a document's title lose; None for two collections. `evaluation` is that of `new`.

    With a `reader` it is about what they may view. Raises: as a search.
    """
    if old.collection != new.collection:
        return None

    def measure(whole: Any) -> Reach:
        index = whole if reader is None else scope_of(engine.workspace, whole, reader)
        known = known_items(index)
        left_out = demoted(index, new)
        if known.queries and any(map(needs_vectors, (old, new))):
            whole.learn(known.texts)
        found: list[list[tuple[bool, bool]]] = []
        for config in (old, new):
            searches = engine.run_on(index, known.texts, config) if known.queries else []
            lists = [index.documents_of(search.returned[:WITHIN]) for search in searches]
            found.append([
                (not set(query.relevant).isdisjoint(documents), bool(documents))
                for query, documents in zip(known, lists, strict=True)
            ])  # fmt: skip
        counted = [place for place, query in enumerate(known) if not left_out.issuperset(query.relevant)]
        shares = [mean(float(side[place][0]) for place in counted) for side in found]
        silent = {
            doc_id
            for place, query in enumerate(known)
            if found[0][place][1] and not found[1][place][1]
            for doc_id in query.relevant
        }
        answered_with = {hit.doc_id for query in evaluation.queries for hit in query.hits}
        hidden = undeclared_hidden(index, old, new) | (silent - answered_with)
        pair = None if None in shares else (shares[0], shares[1])
        return Reach(pair, len(hidden))  # type: ignore[arg-type]

    return engine.with_index(new.collection, measure)
