"""The sources of documents whose schedule is due, run one after the other while the host has the triggers."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import threading
from typing import TYPE_CHECKING

from hive_agents.base import HiveError
from hive_agents.sources import running

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

POLL_SECONDS = 15.0
_log = logging.getLogger("hive_agents.host")


class _HostEnded(Exception):
    """The host ends: a run stops between two items, and the next one goes on there."""


async def run_due_sources(workspace: Workspace) -> None:
    """Run the sources that are due until cancelled; one that fails is tried again by its schedule."""
    ended = threading.Event()
    try:
        while True:
            for name in await asyncio.to_thread(_due, workspace):
                try:
                    report = await asyncio.to_thread(_run, workspace, name, ended)
                    _log.info("the source %s is %s", name, report)
                except HiveError as error:
                    _log.warning("the source %s can't be run: %s", name, error.diagnostics[0].code)
                except Exception as error:  # a fault of one source keeps no other from its turn
                    _log.warning("the source %s failed: %s", name, type(error).__name__)
            await asyncio.sleep(POLL_SECONDS)
    finally:
        ended.set()


def _due(workspace: Workspace) -> list[str]:
    try:
        return running.due_sources(workspace, dt.datetime.now(dt.UTC))
    except HiveError as error:  # a database in use: asked again
        _log.warning("the sources that are due can't be told: %s", error.diagnostics[0].code)
        return []


def _run(workspace: Workspace, name: str, ended: threading.Event) -> str:
    def progress(*_: object) -> None:
        if ended.is_set():
            raise _HostEnded

    return running.run_source(workspace, name, again=running.is_asked(workspace, name), progress=progress).status
