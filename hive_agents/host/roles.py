"""The parts of a host that restart after a failure, and the one that follows deployments on other hosts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from hive_agents import agents, ranking
from hive_agents.base import Busy, HiveError, Unwritable
from hive_agents.events import Bell
from hive_agents.runs import Hold, Leases, taken
from hive_agents.store import connected, notices

if TYPE_CHECKING:
    from hive_agents.runs import Lease
    from hive_agents.workspace import Workspace


POLL_SECONDS = 5.0


async def follow_deployments(workspace: Workspace) -> None:
    """Update active.json and agents/ after each deployment until cancelled, at once if the server notifies of it.

    The history decides what serves, not these files. They are written only after new deployments, so that people's
    edits in between stay.
    """
    loop, bell, followed = asyncio.get_running_loop(), Bell(None), None
    with bell, notices.listening(workspace.records, lambda: loop.call_soon_threadsafe(bell.ring)):
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


FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
RECORDS_PAUSE = 2.0
"""The longest pause after the records were away: a host whose records are back isn't ready until its parts are up."""
SOUND_SECONDS = 60.0
"""A task that ran longer restarts after `FIRST_PAUSE`."""
_log = logging.getLogger("hive_agents.host")

Work = Callable[[], Awaitable[object]]


class HostRole:
    """`state` is "up", "waiting" while another process holds the lease, or "down" in the pause after a failure."""

    def __init__(self, name: str, work: Work, *, leases: Leases | None = None) -> None:
        self.name, self.state = name, "down"
        self._work, self._leases = work, leases

    async def run(self) -> None:
        """Work until cancelled; with `leases`, only while no other process does."""
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while True:
            began, longest = loop.time(), LONGEST_PAUSE
            try:
                await (self._alone(self._leases) if self._leases is not None else self._up())
                _log.warning("%s ended, and begins again", self.name)
            except Exception as error:
                longest = RECORDS_PAUSE if isinstance(error, Busy | Unwritable) else LONGEST_PAUSE
                # Messages may quote what people wrote.
                kind = error.diagnostics[0].code if isinstance(error, HiveError) else type(error).__name__
                _log.warning("%s failed, and begins again: %s", self.name, kind)
            finally:
                self.state = "down"
            pause = FIRST_PAUSE if loop.time() - began > SOUND_SECONDS else min(pause, longest)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _up(self) -> None:
        self.state = "up"
        await self._work()

    async def _alone(self, leases: Leases) -> None:
        thread = f"hive:{self.name}"
        while True:
            lease = await taken(partial(leases.acquire, thread, thread))
            if lease is not None and await self._held(lease):
                return
            self.state = "waiting"
            await asyncio.sleep(min(1.0, leases.seconds / 3))

    async def _held(self, lease: Lease) -> bool:
        """Work while the lease lasts; return False if another process has taken it."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(self._up())
        try:
            async with Hold(lease, lambda _: loop.call_soon_threadsafe(task.cancel)):
                try:
                    await asyncio.wait([task])
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
        finally:
            self.state = "waiting"
        if task.cancelled():
            return False
        task.result()
        return True
