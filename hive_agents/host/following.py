"""Files of a host that follow what was deployed on another one: the records are shared, folders aren't."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hive_agents import agents, ranking
from hive_agents.base import HiveError
from hive_agents.events import Bell
from hive_agents.store import connected, listening

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

POLL_SECONDS = 5.0
_log = logging.getLogger("hive_agents.host")


async def follow_deployments(workspace: Workspace) -> None:
    """Update active.json and agents/ after each deployment until cancelled, at once if the server notifies of it.

    The history decides what serves, not these files. They are written only after new deployments, so that people's
    edits in between stay.
    """
    loop, bell, followed = asyncio.get_running_loop(), Bell(None), None
    with bell, listening(workspace.records, lambda: loop.call_soon_threadsafe(bell.ring)):
        while True:
            try:
                newest = await asyncio.to_thread(_newest, workspace)
                if newest != followed:
                    await asyncio.to_thread(_follow, workspace)
                    followed = newest
            except HiveError as error:  # a deployment in progress, or no connection: tried again
                _log.warning("deployments can't be followed: %s", error.diagnostics[0].code)
            await bell.wait(POLL_SECONDS)


def _newest(workspace: Workspace) -> tuple[int, int]:
    """Return the numbers of the newest deployments, which aren't verified against the audit log here."""
    tables = ("config_versions", "agent_versions")
    with connected(workspace.records) as connection:
        config, agent = (connection.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0 for table in tables)
    return int(config), int(agent)


def _follow(workspace: Workspace) -> None:
    ranking.follow_history(workspace)
    agents.follow_history(workspace)
