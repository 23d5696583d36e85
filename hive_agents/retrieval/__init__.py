"""Search over a workspace's documents: `SearchEngine.search(query, config) -> Ranking`."""

from hive_agents.retrieval.collection import Collection, collection_names, load_collection
from hive_agents.retrieval.config import RetrievalConfig, StoredConfig, find_config
from hive_agents.retrieval.engine import ConfigLike, Search, SearchEngine
from hive_agents.retrieval.indexing import IndexReport, build_index
from hive_agents.retrieval.ranking import Cut, Hit, Ranking

__all__ = [
    "Collection",
    "ConfigLike",
    "Cut",
    "Hit",
    "IndexReport",
    "Ranking",
    "RetrievalConfig",
    "Search",
    "SearchEngine",
    "StoredConfig",
    "build_index",
    "collection_names",
    "find_config",
    "load_collection",
]
