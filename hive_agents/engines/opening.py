"""The search engines of a workspace's settings."""

from __future__ import annotations

from hive_agents.index import Engine
from hive_agents.workspace import Workspace


def open_engines(workspace: Workspace) -> list[Engine]:
    """Return the engines of the settings, of which the first that has a lane provides it. Nothing is connected yet.

    Raises: HIVE-431 without trust, HIVE-411 where an extra is missing, HIVE-421 for a secret that can't be resolved.
    """
    engines: list[Engine] = []
    if workspace.settings.vectors.url:
        from hive_agents.engines.pgvector import PgVector
        from hive_agents.engines.postgres import open_database

        engines.append(PgVector(open_database(workspace)))
    if workspace.settings.search.url:
        from hive_agents.engines.opensearch import OpenSearch

        engines.append(OpenSearch.of(workspace))
    return engines
