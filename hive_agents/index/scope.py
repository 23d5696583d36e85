"""The part of an index that somebody may search."""

from __future__ import annotations

import numpy as np

from hive_agents.access import AccessLabels, Principal, permissions_of
from hive_agents.index.index import ScopedIndex, SqliteIndex
from hive_agents.workspace import Workspace


def scope_of(workspace: Workspace, index: SqliteIndex, *principals: Principal) -> ScopedIndex:
    """Return the part of the index that all of the principals may search, by the present access files.

    Raises: the diagnostics of `access/*.json` where a file is faulty.
    """
    documents = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
    visible = [permissions_of(workspace).scope(principal, documents) for principal in principals]
    owner = ("golden", *((principal.tenant, principal.user) for principal in principals))
    return index.within(np.logical_and.reduce(visible), owner)
