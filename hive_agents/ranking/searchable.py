"""The `Workspace` of the public API: a workspace folder with its index and search engine.

Other packages use the base class, `hive_agents.workspace.workspace.Workspace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hive_agents.workspace import workspace

if TYPE_CHECKING:
    from hive_agents.index import indexing
    from hive_agents.ranking.engine import SearchEngine


class Workspace(workspace.Workspace):
    r"""One workspace folder.

    Raises: HIVE-410 when `root` has no `collections/`.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> words = {"name": "words", "collection": "knowledge-base", "retrieval": {"method": "keyword", "top_k": 5}}
    >>> place.index().documents
    1
    >>> place.engine().search("who dances?", config=words).hits[0].doc_id
    'bees.md'
    >>> folder.cleanup()
    """

    # Imported on call, so that opening a workspace is cheap.

    def index(self) -> indexing.IndexReport:
        """Bring the index up to date with the documents; see `build_index`."""
        from hive_agents.ranking.indexed import build_index

        return build_index(self)

    def engine(self) -> SearchEngine:
        """Return a search engine over the index; cheap to open, safe to share between threads."""
        from hive_agents.ranking.engine import SearchEngine

        return SearchEngine(self)
