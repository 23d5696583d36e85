"""The index and the search engines of a workspace's settings, brought up to date together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hive_agents.engines import open_engines
from hive_agents.index import indexing
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.store import Progress


def build_index(
    workspace: Workspace,
    progress: Progress | None = None,
    *,
    write_seed: bool = False,
    accept: bool = False,
    quick: bool = False,
    rebuild: bool = False,
    plan: Callable[[indexing.PendingWork], None] | None = None,
    wait: float = 30.0,
) -> indexing.IndexReport:
    """Bring every collection's index up to date with `documents/`.

    Where a config was deployed, a change of fields, chunking, language or model builds a candidate, and the live index
    keeps the old ones, unless `accept`. A file is read only where its size, times or inode changed, and only changes
    are written; `rebuild` checks the database, reads all files and writes the whole index, with the same result.
    `quick` is for a check before each search: no candidate is built. `plan` is called with the work before it starts.
    Another process that writes is waited for, `wait` seconds at most. Engines of the settings get a copy first, so that
    a search finds either all of the old documents or all of the new.
    Raises: level 1 for a broken collection, HIVE-105 for a language, HIVE-401 for a wrong model, 402, 403, and 434 for
    an engine that can't be used.
    """
    return indexing.bring_up_to_date(
        workspace,
        partial(open_engines, workspace),
        progress,
        write_seed=write_seed,
        accept=accept,
        quick=quick,
        rebuild=rebuild,
        plan=plan,
        wait=wait,
    )
