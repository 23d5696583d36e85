"""Requests that were sent to models and aren't in the ledger: the server bills them also when the process dies."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hive_agents.base import HiveError
from hive_agents.base.files import disk_errors, make_folder, opened, read_bytes

FILE = ".sent"
"""In the run's folder; the agent sees no files whose names begin with a dot."""


class Sent:
    """Requests to models by the key of their effect, in a file of the run.

    A line is written just before a request is sent, without fsync: it has to survive a killed process, not a power
    failure, and must not delay the model. Failures to write are ignored.

    >>> import tempfile
    >>> sent = Sent(lambda folder=Path(tempfile.mkdtemp()): folder)
    >>> sent.add("write#1/1/model")
    >>> sent.add("write#1/1/model")
    >>> sent.add("write#1/1/model", -1)  # it was refused, and costs nothing
    >>> sent.count("write#1/1/model"), sent.count("write#1/2/model")
    (1, 0)
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        """`folder` returns the run's folder; called each time, for a link may have replaced it."""
        self._folder = folder

    def add(self, key: str, number: int = 1) -> None:
        with suppress(HiveError):
            path = self._folder() / FILE
            with disk_errors(path):
                make_folder(path.parent)
                with os.fdopen(opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                    file.write(f"{number:+d} {key}\n".encode())

    def count(self, key: str) -> int:
        """Return how many requests of an effect were sent."""
        text = ""
        with suppress(OSError, HiveError):
            text = read_bytes(self._folder() / FILE).decode(errors="replace")
        lines = (line.partition(" ") for line in text.splitlines())
        return max(0, sum(int(number) for number, _, line_key in lines if line_key == key))
