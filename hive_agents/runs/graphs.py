"""The installed graphs, by name."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from hive_agents.base import HiveError

GROUP = "hive_agents.graphs"


def load_graph(name: str, checkpointer: Any = None) -> Any:
    """Return the compiled graph `name`, with a checkpointer if one is given.

    Raises: HIVE-411 where the package isn't installed with its entry points.
    """
    graph = _installed(name)
    return graph if checkpointer is None else graph.builder.compile(checkpointer=checkpointer)


@cache
def _installed(name: str) -> Any:
    found = next((point for point in entry_points(group=GROUP) if point.name == name), None)
    if found is None:
        raise HiveError.of("HIVE-411", f'no graph "{name}" is installed', fix="install hive-agents with pip")
    return found.load()
