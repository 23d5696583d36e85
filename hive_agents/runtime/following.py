"""Files of a host that follow what was deployed on another one: the records are shared, folders aren't."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hive_agents import agents, retrieval
from hive_agents.errors import HiveError
from hive_agents.events import Bell
from hive_agents.store import connected, listening

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

POLL_SECONDS = 5.0
_log = logging.getLogger("hive_agents.host")


async def follow_deployments(workspace: Workspace) -> None:
    """Let active.json and agents/ follow the history until cancelled: at once where the server tells of a deployment.

    What serves is the history, with or without them. Only a history that has grown is followed, so that what people
    edit here in between stays.
    """
    loop, bell, followed = asyncio.get_running_loop(), Bell(None), None
    with bell, listening(workspace.records, lambda: loop.call_soon_threadsafe(bell.ring)):
        while True:
            try:
                now = await asyncio.to_thread(_newest, workspace)
                if now != followed:
                    await asyncio.to_thread(_follow, workspace)
                    followed = now
            except HiveError as error:  # a deployment goes on here, or the server is away: there is a next time
                _log.warning("deployments can't be followed: %s", error.diagnostics[0].code)
            await bell.wait(POLL_SECONDS)


def _newest(workspace: Workspace) -> tuple[int, int]:
    """Return the numbers of the newest deployments; the audit log says later whether they count."""
    tables = ("config_versions", "agent_versions")
    with connected(workspace.records) as connection:
        found = [connection.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0 for table in tables]
    return int(found[0]), int(found[1])


def _follow(workspace: Workspace) -> None:
    retrieval.follow_history(workspace)
    agents.follow_history(workspace)
