"""Notices by which writers on a server wake waiting hosts; a lost notice only delays them until their next poll."""

from __future__ import annotations

import os
import select
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from hive_agents.base import HiveError
from hive_agents.store.database import DatabasePlace, RecordsConnection, connect_to
from hive_agents.workspace import RemoteDatabase

if TYPE_CHECKING:
    from hive_agents.store.postgres import PostgresConnection

AGAIN_SECONDS = 1.0
"""Pause before a listener reconnects."""


def notify(connection: RecordsConnection) -> None:
    """Wake the listeners on every host when the transaction is committed; a file has none."""
    if not isinstance(connection, sqlite3.Connection):
        cast("PostgresConnection", connection).notify()


class listening:
    """A `with` block in which `heard` is called, from another thread, whenever some host has called `notify`.

    It is called after a reconnection, too, since notices may have been missed. A file gives no notices: its readers
    poll.
    """

    def __init__(self, place: DatabasePlace, heard: Callable[[], object]) -> None:
        self._place, self._heard = place, heard
        self._closing: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        if isinstance(self._place, RemoteDatabase):
            self._closing = os.pipe()
            self._thread = threading.Thread(target=self._listen, args=(self._place,), name="hive-listen", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closing is not None:
            os.close(self._closing[1])

    def _listen(self, place: RemoteDatabase) -> None:
        import psycopg

        assert self._closing is not None
        closing = self._closing[0]
        try:
            while not _readable(closing, timeout=0):
                with suppress(HiveError, psycopg.Error, OSError):
                    self._relay(connect_to(place), closing)
                _readable(closing, timeout=AGAIN_SECONDS)
        except RuntimeError:
            pass  # the listener has closed its event loop
        finally:
            os.close(closing)

    def _relay(self, connection: PostgresConnection, closing: int) -> None:
        try:
            connection.listen()
            self._heard()
            while not _readable(closing, connection.raw.fileno()):
                if connection.heard():
                    self._heard()
        finally:
            connection.close()


def _readable(closing: int, *others: int, timeout: float | None = None) -> bool:
    """Wait for any of the descriptors; return whether the first one is at its end."""
    poll = select.poll()
    for file in (closing, *others):
        poll.register(file, select.POLLIN | select.POLLHUP)
    return any(file == closing for file, _ in poll.poll(None if timeout is None else timeout * 1_000))
