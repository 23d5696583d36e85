"""How writers on a server wake the hosts that wait for what they wrote; a lost notice costs a poll, no more."""

from __future__ import annotations

import os
import select
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from hive_agents.errors import HiveError
from hive_agents.store.database import DatabasePlace, RecordsConnection, connect_to
from hive_agents.workspace import RemoteDatabase

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

AGAIN_SECONDS = 1.0
"""Pause before a listener whose connection was lost tries another one."""


def notify(connection: RecordsConnection) -> None:
    """Wake all who listen, on every host, as soon as the transaction is committed; a file has nobody who listens."""
    if not isinstance(connection, sqlite3.Connection):
        cast("PostgresConnection", connection).notify()


class listening:
    """A `with` block in which `heard` is called, from another thread, whenever some host has called `notify`.

    It is called, too, when a lost connection stands again, for what was told meanwhile. A file tells of nothing: its
    readers poll.
    """

    def __init__(self, place: DatabasePlace, heard: Callable[[], object]) -> None:
        self._place, self._heard = place, heard
        self._over: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        if isinstance(self._place, RemoteDatabase):
            self._over = os.pipe()
            self._thread = threading.Thread(target=self._listen, args=(self._place,), name="hive-listen", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._over is not None:
            os.close(self._over[1])

    def _listen(self, place: RemoteDatabase) -> None:
        import psycopg

        assert self._over is not None
        over = self._over[0]
        try:
            while not _readable(over, timeout=0):
                with suppress(HiveError, psycopg.Error, OSError):
                    self._listened(connect_to(place), over)
                _readable(over, timeout=AGAIN_SECONDS)
        except RuntimeError:
            pass  # whoever was to be told has closed its event loop
        finally:
            os.close(over)

    def _listened(self, connection: PostgresConnection, over: int) -> None:
        try:
            connection.listen()
            self._heard()
            while not _readable(over, connection.raw.fileno()):
                if connection.heard():
                    self._heard()
        finally:
            connection.close()


def _readable(over: int, *others: int, timeout: float | None = None) -> bool:
    """Wait for any of them; whether the first one is at its end."""
    poll = select.poll()
    for file in (over, *others):
        poll.register(file, select.POLLIN | select.POLLHUP)
    return any(file == over for file, _ in poll.poll(None if timeout is None else timeout * 1_000))
