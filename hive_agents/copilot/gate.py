"""What a reader may view: a scope before anything is scored, and a gate that asks afresh before anything is shown."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.access import AccessLabels, Documents, PermissionFault, PermissionService, Principal, permissions_of
from hive_agents.copilot.documents import declared
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.retrieval import ScopedIndex, SearchEngine
from hive_agents.retrieval.index import SqliteIndex
from hive_agents.workspace import Workspace

MOST_ASKED = 2000
"""Documents that a service which can't list is asked about one by one."""
log = logging.getLogger(__name__)

# Kept as long as what they were read from is open; who may see what is decided afresh each time.
_labels: WeakKeyDictionary[SqliteIndex, Documents] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[ScopedIndex, Vocabulary] = WeakKeyDictionary()


class ViewGate:
    """One reader's gate; nothing that was answered before counts."""

    def __init__(self, permissions: PermissionService, reader: Principal) -> None:
        self._permissions, self._reader = permissions, reader

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        """Return those of `doc_ids` that the reader may view now; none where the service fails in any way."""
        asked = frozenset(doc_ids)
        if not asked:
            return asked
        try:
            return asked & frozenset(self._permissions.ask(self._reader, sorted(asked)))
        except Exception as error:
            self._failed(str(error) if isinstance(error, PermissionFault) else type(error).__name__)
            return frozenset()

    def _failed(self, why: str) -> None:
        log.warning("permissions: %s; all that was asked about is denied", why)


class TurnGate(ViewGate):
    """The gate of one turn: after a fault nobody is asked again, so that a turn waits for it once.

    `fault` says what went wrong; None as long as nothing did.
    """

    fault: str | None = None

    def allowed(self, doc_ids: Sequence[str]) -> frozenset[str]:
        return super().allowed(doc_ids) if self.fault is None else frozenset()

    def _failed(self, why: str) -> None:
        super()._failed(why)
        self.fault = why


def open_scope(workspace: Workspace, engine: SearchEngine, reader: Principal, collection: str) -> ScopedIndex:
    """Return the index as if it held only what the reader may view, as the permission service says it now."""
    index = engine.index(collection)
    documents = _labels.get(index)
    if documents is None:
        documents = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
        _labels[index] = documents
    visible = permissions_of(workspace).scope(reader, documents)
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


def vocabulary_of(known: ScopedIndex) -> Vocabulary:
    """Return the fields and values of a certain scope; the same for the same documents."""
    found = _vocabularies.get(known)
    if found is None:
        found = _vocabularies[known] = Vocabulary.of(declared(known.collection), known.values)
    return found
