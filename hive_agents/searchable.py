"""The `Workspace` of the public API: the folder, with its index and its search engine.

Everything below takes the folder alone (`hive_agents.workspace`), which is this class's base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents import workspace

if TYPE_CHECKING:
    from hive_agents.retrieval import IndexReport, SearchEngine


class Workspace(workspace.Workspace):
    """One workspace folder.

    Raises: HIVE-410 when `root` has no `collections/`.
    """

    # Both import when they are called, so that opening a workspace stays cheap.

    def index(self) -> IndexReport:
        """Bring the index up to date with the documents; see `hive_agents.retrieval.build_index`."""
        from hive_agents.retrieval import build_index

        return build_index(self)

    def engine(self) -> SearchEngine:
        """Return a search engine over the index; cheap to open, safe to share between threads."""
        from hive_agents.retrieval import SearchEngine

        return SearchEngine(self)
