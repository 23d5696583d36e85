"""`SearchEngine`, the entry point of retrieval: a query and a config give a ranking."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

from hive_agents.base import EngineFault, HiveError
from hive_agents.base.files import formats
from hive_agents.documents import load_collection
from hive_agents.engines import breaker, open_engines
from hive_agents.index import Engine, LaneIndex, SqliteIndex, StaleIndex, generation, indexing
from hive_agents.models import span
from hive_agents.models.embedding import Reranker, providers
from hive_agents.ranking.config import RetrievalConfig, find_config
from hive_agents.ranking.deployed import active_config
from hive_agents.ranking.hits import Ranking, present
from hive_agents.ranking.pipeline import RERANK, run
from hive_agents.ranking.stages import Search, finish, retrieve, retrieve_many
from hive_agents.workspace import Workspace

T = TypeVar("T")
ConfigLike: TypeAlias = str | Mapping[str, Any] | RetrievalConfig | None


class SearchEngine:
    r"""Searches a workspace's index; cheap to open, safe to share between threads.

    Without `engines` the settings' search engines aren't used.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> words = {"name": "words", "collection": "knowledge-base", "retrieval": {"method": "keyword", "top_k": 5}}
    >>> _ = place.index()
    >>> ranking = SearchEngine(place).search("who dances?", config=words)
    >>> [(hit.rank, hit.doc_id, hit.title) for hit in ranking.hits]
    [(1, 'bees.md', 'Bees')]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        workspace: Workspace,
        reranker: Reranker | None = None,
        *,
        state: generation.State = "live",
        engines: bool = True,
    ) -> None:
        self.workspace = workspace
        self.reranker = reranker
        self._state = state
        self._engines = engines
        self._indexes: dict[str, SqliteIndex] = {}
        self._lock = threading.Lock()

    @cached_property
    def here(self) -> SearchEngine:
        """The same over this host's own index alone, for when an engine of the settings is away."""
        return SearchEngine(self.workspace, self.reranker, state=self._state, engines=False)

    @property
    def breakers(self) -> dict[str, breaker.EngineBreaker]:
        """The breakers of the settings' search engines, by kind."""
        return breaker.breakers_of(self.workspace)

    def greet(self, kind: str) -> None:
        """Ask a search engine whether it answers. Raises: HIVE-434, and what `open_engines` raises."""
        self._opened[kind].greet()

    @cached_property
    def _opened(self) -> dict[str, Engine]:
        return {engine.kind: engine for engine in open_engines(self.workspace)}

    def has_own_index(self) -> bool:
        """Return whether this host can answer without search engines of the settings."""
        return indexing.is_indexed(self.workspace)

    @cached_property
    def _configured_reranker(self) -> Reranker | None:
        return providers.open_reranker(self.workspace)

    def search(self, query: str, config: ConfigLike = None) -> Ranking:
        """Return the ranking of one query.

        `config` is a name, a dict or a `RetrievalConfig`; None means the active one.

        Raises: HIVE-409 for a query without words, HIVE-401 without a model, HIVE-206 to 208 for filters, HIVE-406
        before the first `index()`.
        """
        return self.search_many([query], config)[0]

    def search_many(self, queries: Sequence[str], config: ConfigLike = None) -> list[Ranking]:
        """Return a ranking for each query, in order; the vector lane is computed as one batch."""
        chosen = self.resolve(config)

        def show(index: SqliteIndex) -> list[Ranking]:
            return [present(index, search, chosen) for search in self.run_on(index, queries, chosen)]

        with span("search", workspace=self.workspace, hive__config=chosen.name, hive__queries=len(queries)):
            return self.with_index(chosen.collection, show)

    def run(self, queries: Sequence[str], config: RetrievalConfig) -> list[Search]:
        """As `search_many`, without the texts that only a reader needs."""
        return self.with_index(config.collection, lambda index: self.run_on(index, queries, config))

    def index(self, collection: str) -> SqliteIndex:
        """Return the current index of a collection; it stays open until it is replaced."""
        with self._lock:
            index = self._indexes.get(collection)
            if index is None or not index.is_live():
                schema = load_collection(self.workspace, collection)
                engines = partial(open_engines, self.workspace) if self._engines else tuple
                index = SqliteIndex(self.workspace, schema, self._state, engines=engines)
                self._indexes[collection] = index
            return index

    def resolve(self, config: ConfigLike) -> RetrievalConfig:
        if isinstance(config, RetrievalConfig):
            return config
        if config is None or config == "active":
            return active_config(self.workspace).stored.config
        if isinstance(config, str):
            return find_config(self.workspace, config).config
        return formats.load_value(RetrievalConfig, dict(config), "config")

    def with_index(self, collection: str, work: Callable[[SqliteIndex], T]) -> T:
        """Return the result of `work` on one state of the index; repeated if the index is replaced meanwhile."""
        for _ in range(5):
            index = self.index(collection)
            try:
                return work(index)
            except StaleIndex:
                continue
            except EngineFault:  # expected of a replaced generation: its copy in the engine is deleted
                if index.is_live():
                    raise
        raise HiveError.of(
            "HIVE-402", "the index keeps changing under the search", fix="try again when indexing is done"
        )

    def run_on(self, index: LaneIndex, queries: Sequence[str], config: RetrievalConfig) -> list[Search]:
        """As `run`, on an index from `with_index`, or on a scope of it."""
        searches = retrieve_many(index, queries, config)
        if config.rerank.enabled:
            searches = [self.rerank(index, search, config) for search in searches]
        return [finish(search, config) for search in searches]

    # The single stages, for a caller with a view gate between them.
    retrieve = staticmethod(retrieve)
    finish = staticmethod(finish)
    present = staticmethod(present)

    def rerank(
        self,
        index: LaneIndex,
        search: Search,
        config: RetrievalConfig,
        *,
        allowed: Callable[[Sequence[str]], Collection[str]] | None = None,
    ) -> Search:
        """Return the same candidates with the first `rerank.candidates` in order of relevance, the others behind them.

        `allowed` gets doc_ids and returns those whose text may be sent to the reranker; it is called at most once for
        each `rerank.candidates` candidates. The others are skipped: they stay behind, without relevance.

        Raises: HIVE-214 without a reranker.
        """
        if search.cut.reason == "abstain":
            return search
        of = replace(search.of, index=index, reranker=self.required_reranker, allowed=allowed)
        return replace(search, state=run(search.state, of, config, RERANK))

    @property
    def required_reranker(self) -> Reranker:
        """The reranker that searches use. Raises: HIVE-214 without one."""
        reranker = self.reranker or self._configured_reranker
        if reranker is None:
            raise HiveError.of(
                "HIVE-214",
                "the config reranks, and no reranker is configured",
                path="rerank.enabled",
                fix="set models.reranker in hive.toml, or disable rerank",
            )
        return reranker

    @property
    def saved_seconds(self) -> float:
        """The seconds that the cache of the reranker's scores has saved so far."""
        from hive_agents.models.embedding import CachedReranker

        return self.reranker.saved_seconds if isinstance(self.reranker, CachedReranker) else 0.0


__all__ = ["ConfigLike", "Search", "SearchEngine"]
