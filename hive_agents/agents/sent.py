"""What of a run the records don't know yet, in files of its folder: requests that were sent, and results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import disk_errors, make_folder, opened, read_bytes

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
FILE, KEPT = ".sent", ".kept"
"""In the run's folder; the agent sees no files whose names begin with a dot."""


class Sent:
    """Requests to models by the key of their effect, in a file of the run, and results that could not be recorded.

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
        self._write(FILE, f"{number:+d} {key}")

    def count(self, key: str) -> int:
        """Return how many requests of an effect were sent."""
        lines = (line.partition(" ") for line in self._lines(FILE))
        return max(0, sum(int(number) for number, _, line_key in lines if line_key == key))

    def keep(self, key: str, outcome: dict[str, Any]) -> None:
        """Keep what came of an effect."""
        self._write(KEPT, json.dumps({"key": key, **outcome}, allow_nan=False))

    def outcome(self, key: str) -> dict[str, Any] | None:
        """Return what came of an effect and was kept, None where nothing was."""
        for line in reversed(self._lines(KEPT)):
            with suppress(ValueError, LookupError, TypeError):  # a line that a crash truncated
                if (kept := json.loads(line))["key"] == key:
                    return {"result": kept["result"], "usage": kept["usage"]}
        return None

    def _write(self, name: str, line: str) -> None:
        with suppress(HiveError):
            path = self._folder() / name
            with disk_errors(path):
                try:
                    handle = opened(path, _APPEND, 0o600)
                except FileNotFoundError:  # the run has no folder yet
                    make_folder(path.parent)
                    handle = opened(path, _APPEND, 0o600)
                with os.fdopen(handle, "ab") as file:
                    file.write(f"{line}\n".encode())

    def _lines(self, name: str) -> list[str]:
        with suppress(OSError, HiveError):
            return read_bytes(self._folder() / name).decode(errors="replace").splitlines()
        return []
