"""Term numbers: append-only, so that stored token runs stay valid."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np

from hive_agents.store import transaction


class TermVocabulary:
    """Words to numbers; `save` writes the new ones."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers = dict(connection.execute("SELECT term, term_no FROM terms").fetchall())
        self._saved = len(self._numbers)

    def numbers(self, words: Sequence[str]) -> bytes:
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32).tobytes()

    def save(self) -> None:
        new = list(self._numbers.items())[self._saved :]
        if new:
            with transaction(self._connection):
                self._connection.executemany("INSERT INTO terms (term, term_no) VALUES (?, ?)", new)
