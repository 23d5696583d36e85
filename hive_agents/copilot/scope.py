"""What a reader may view before anything is scored: their scope, what of it is certain, and its words."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.access import AccessLabels, CurrentLabels, Principal, ViewGate, permissions_of
from hive_agents.copilot.documents import declared
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.retrieval import ScopedIndex, SearchEngine, SqliteIndex
from hive_agents.workspace import Workspace

MOST_ASKED = 2000
"""Documents that a service which can't list is asked about one by one."""

# Kept as long as what they were read from is open; who may see what is decided afresh each time.
_labels: WeakKeyDictionary[SqliteIndex, CurrentLabels] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[ScopedIndex, Vocabulary] = WeakKeyDictionary()


def open_scope(workspace: Workspace, engine: SearchEngine, reader: Principal, collection: str) -> ScopedIndex:
    """Return the index as if it held only what the reader may view, as the permission service says it now."""
    index = engine.index(collection)
    labels = _labels.get(index)
    if labels is None:
        indexed = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
        labels = _labels[index] = CurrentLabels(workspace, indexed, index.created_at)
    visible = permissions_of(workspace).scope(reader, labels.now())
    return index.within(visible, owner=(reader.tenant, reader.user))


def certain_scope(
    workspace: Workspace, engine: SearchEngine, reader: Principal, scope: ScopedIndex, gate: ViewGate | None = None
) -> ScopedIndex:
    """Return what of a scope the reader may view for certain: fields, values and texts of errors come from it alone.

    That is the scope, unless its service can't list: then those of its first `MOST_ASKED` documents that the service
    allows when it is asked for each, through `gate` where one is given.
    """
    permissions = permissions_of(workspace)
    if permissions.lists:
        return scope
    may = (gate or ViewGate(permissions, reader)).allowed(scope.doc_ids()[:MOST_ASKED])
    index = engine.index(scope.collection.name)
    visible = np.array([doc_id in may for doc_id in index.doc_ids()], np.bool_)
    return index.within(visible, owner=(reader.tenant, reader.user))


def may_open(workspace: Workspace, scope: ScopedIndex, gate: ViewGate, doc_id: str) -> bool:
    """Return whether the reader may view a document that somebody names.

    Where the service lists what they may view, a document outside of the scope is asked about no further: a hidden one
    and one that doesn't exist take the same path and the same time.
    """
    if permissions_of(workspace).lists and not scope.holds(doc_id):
        return False
    return doc_id in gate.allowed([doc_id])


def vocabulary_of(known: ScopedIndex) -> Vocabulary:
    """Return the fields and values of a certain scope; the same for the same documents."""
    found = _vocabularies.get(known)
    if found is None:
        found = _vocabularies[known] = Vocabulary.of(declared(known.collection), known.values)
    return found
