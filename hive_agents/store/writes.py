"""Detection of writes to a database, without reading it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hive_agents.base import Busy
from hive_agents.store.database import connect, database_errors, file_identity


class Writes:
    """Detects writes by any other connection, in any process; not thread-safe.

    A look takes microseconds and never waits, so an event loop may take it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int, int] | None = None
        self._version = -1

    def since_last_look(self) -> bool:
        """Return whether something was written since the last call; True at the first one, and in doubt.

        Look before reading, so that no write is missed. Raises: as `connect`.
        """
        if self._connection is None or self._file != file_identity(self._path):
            self.close()
            self._connection = connect(self._path)
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._file = file_identity(self._path)
        try:
            with database_errors(self._path):
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except Busy:
            return True
        before, self._version = self._version, int(version)
        return before != self._version

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._version = None, -1
