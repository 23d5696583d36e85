"""A config of a workspace as a source of rankings."""

from __future__ import annotations

import time

from hive_agents.evaluation.evaluate import Scopes
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList
from hive_agents.ranking import RetrievalConfig, SearchEngine, named_config, require_sound
from hive_agents.workspace import Workspace


class ConfigSource:
    """A live source; a query with a principal is searched in that principal's scope."""

    live = True

    def __init__(self, workspace: Workspace, engine: SearchEngine, config: RetrievalConfig) -> None:
        self.name = config.name
        self._engine = engine
        self._config = config
        self._scopes = Scopes(workspace)

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        config = self._config
        index = self._engine.index(config.collection)
        scope = self._scopes.of(index, query.principal)
        started = time.perf_counter()
        (search,) = self._engine.run_on(scope, [query.query], config)
        seconds = time.perf_counter() - started
        return FoundList(tuple(scope.documents_of(search.returned[:k])), seconds)


def open_config(workspace: Workspace, reference: str) -> ConfigSource:
    """Return the source of a config, with a fresh index. Raises: every error of levels 1 and 2."""
    stored = named_config(workspace, reference)
    require_sound(workspace, stored)
    return ConfigSource(workspace, SearchEngine(workspace), stored.config)
