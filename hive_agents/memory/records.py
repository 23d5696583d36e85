"""One connection to the workspace's database, shared by the threads of a store."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import TYPE_CHECKING

from hive_agents.store import connect, database_errors

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


class Records:
    """Hands out the connection to one thread at a time, open from the first use on.

    `opened` counts how often it was opened: what was cached from an earlier file is then no longer true.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.database
        self.opened = 0
        self._lock = threading.RLock()
        self._connection: tuple[Connection, tuple[int, int]] | None = None

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Raises: HIVE-402 locked, HIVE-403 disk, HIVE-407 damaged."""
        with self._lock:
            # A restored or rebuilt database is another file, and a forked process may not use its parent's.
            if self._connection is None or self._connection[1] != self._identity():
                connection = connect(self.path)
                self._connection = connection, self._identity()
                weakref.finalize(self, connection.close)
                self.opened += 1
            with database_errors(self.path):
                yield self._connection[0]

    def close(self) -> None:
        """The next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection[0].close()
                self._connection = None

    def _identity(self) -> tuple[int, int]:
        return os.getpid(), self.path.stat().st_ino if self.path.exists() else 0
