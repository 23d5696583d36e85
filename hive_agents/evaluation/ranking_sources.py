"""Sources of rankings by their references on the command line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.base import HiveError
from hive_agents.base.files import jsontext, load_value
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList, text_of
from hive_agents.evaluation.ranking_asking import Source as Source
from hive_agents.evaluation.recorded_rankings import read_json, read_json_lines, read_trec

if TYPE_CHECKING:
    from hive_agents.ranking import RetrievalConfig, SearchEngine
    from hive_agents.workspace import Workspace


class ConfigSource:
    """A live source; a query with a principal is searched in that principal's scope."""

    live = True

    def __init__(self, workspace: Workspace, engine: SearchEngine, config: RetrievalConfig) -> None:
        from hive_agents.evaluation.evaluate import Scopes

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
    from hive_agents.ranking import SearchEngine, named_config, require_sound

    stored = named_config(workspace, reference)
    require_sound(workspace, stored)
    return ConfigSource(workspace, SearchEngine(workspace), stored.config)


_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(#.+)?")


def open_source(reference: str, workspace: Callable[[], Workspace]) -> Source:
    """Return the source that `reference` names: a URL template, a file, `module:attribute`, or a config.

    `workspace` is called for a config only. Raises: HIVE-107 (exit code 2) where there is none, the faults of the file,
    HIVE-428 for a retriever that can't be loaded.
    """
    if reference.startswith(("http://", "https://")):
        from hive_agents.evaluation.ranking_endpoint import from_url

        return from_url(reference)
    if Path(reference).is_file():
        return _from_file(Path(reference), workspace)
    if _ATTRIBUTE.fullmatch(reference):
        from hive_agents.evaluation.ranking_retriever import load_retriever

        return load_retriever(reference)
    return _config(reference, workspace)


def _from_file(path: Path, workspace: Callable[[], Workspace]) -> Source:
    text = text_of(path)
    if not text.lstrip().startswith("{"):
        return read_trec(path, text)
    value = jsontext.object_in(text)  # None for several, one a line
    if value is None:
        return read_json_lines(path, text)
    if "retrieval" in value:
        return _config(str(path), workspace)
    if "url" in value:
        from hive_agents.evaluation.ranking_endpoint import EndpointFile, EndpointSource

        try:
            file = load_value(EndpointFile, jsontext.parse(text, path.name), path.name, text)
        except HiveError as error:
            raise HiveError(error.diagnostics, exit_code=2) from None
        return EndpointSource(path.name, file)
    lines = [line for line in text.splitlines() if line.strip()]
    # A single line that has a query id is JSON lines, too.
    return (
        read_json_lines(path, text)
        if len(lines) == 1 and {"id", "query_id", "qid"} & {*value}
        else read_json(path, value)
    )


def _config(reference: str, workspace: Callable[[], Workspace]) -> Source:
    try:
        opened = workspace()
    except HiveError:
        message = (
            f'"{reference}" is no file, no URL and no module:attribute, and there is no workspace that has a config'
        )
        fix = "name a run file, http://host/search?q={query}, module:attribute, or a config with -w DIR"
        raise HiveError.of("HIVE-107", message, fix=fix, exit_code=2) from None
    return open_config(opened, reference)
