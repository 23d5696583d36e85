"""What a golden query is measured on: all documents, or those that its principal may view."""

from __future__ import annotations

from hive_agents.access import AccessLabels, known_principal, permissions_of
from hive_agents.retrieval import ScopedIndex, SqliteIndex
from hive_agents.workspace import Workspace


class Scopes:
    """The scopes of one measurement: a principal's is settled when it is first asked for, so that no other pays."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._settled: dict[tuple[int, str], tuple[SqliteIndex, ScopedIndex]] = {}

    def of(self, index: SqliteIndex, user: str | None) -> SqliteIndex | ScopedIndex:
        """The index as `user` knows it; None means all of it.

        Raises: HIVE-409 for a user that `access/*.json` doesn't name, and the faults of these files.
        """
        if user is None:
            return index
        known = self._settled.get((id(index), user))
        if known is None:
            known = self._settled[id(index), user] = (index, scope_of(self._workspace, index, user))
        return known[1]


def scope_of(workspace: Workspace, index: SqliteIndex, user: str) -> ScopedIndex:
    """The documents that the copilot would search for `user`, as the access files say now. Raises: as `Scopes.of`."""
    principal = known_principal(workspace, user)
    documents = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
    return index.within(permissions_of(workspace).scope(principal, documents), ("golden", principal.tenant, user))
