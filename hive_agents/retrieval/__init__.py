"""Search over a workspace's documents: `SearchEngine.search(query, config) -> Ranking`."""

from hive_agents.retrieval.collection import Collection, collection_names, load_collection
from hive_agents.retrieval.config import RetrievalConfig, StoredConfig, find_config
from hive_agents.retrieval.engine import ConfigLike, SearchEngine
from hive_agents.retrieval.indexing import IndexReport, build_index
from hive_agents.retrieval.presentation import present
from hive_agents.retrieval.ranking import Cut, Hit, Ranking
from hive_agents.retrieval.scoped import ScopedIndex
from hive_agents.retrieval.stages import Search, finish, retrieve

__all__ = [
    "Collection",
    "ConfigLike",
    "Cut",
    "Hit",
    "IndexReport",
    "Ranking",
    "RetrievalConfig",
    "ScopedIndex",
    "Search",
    "SearchEngine",
    "StoredConfig",
    "build_index",
    "collection_names",
    "find_config",
    "finish",
    "load_collection",
    "present",
    "retrieve",
]
