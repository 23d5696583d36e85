"""What was sent to models and is not in the ledger: a server counts it, whoever died before the answer was recorded."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hive_agents.files import disk_errors, make_folder, opened, read_bytes


class Sent:
    """Requests to models by the key of their effect, in a file of the run.

    It is written just before a request goes out, without waiting for the disk: it has to outlive a process that is
    killed, not a machine, and it must not keep a model waiting.

    >>> import tempfile
    >>> sent = Sent(Path(tempfile.mkdtemp()) / "r1" / ".sent")
    >>> sent.add("write#1/1/model")
    >>> sent.add("write#1/1/model")
    >>> sent.add("write#1/1/model", -1)  # it was refused, and costs nothing
    >>> sent.count("write#1/1/model"), sent.count("write#1/2/model")
    (1, 0)
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, key: str, number: int = 1) -> None:
        with disk_errors(self._path):
            make_folder(self._path.parent)
            with os.fdopen(opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                file.write(f"{number:+d} {key}\n".encode())

    def count(self, key: str) -> int:
        """Return how many requests of an effect are out."""
        text = ""
        with suppress(FileNotFoundError):
            text = read_bytes(self._path).decode(errors="replace")
        lines = (line.partition(" ") for line in text.splitlines())
        return max(0, sum(int(number) for number, _, of in lines if of == key))
