"""What a server can do, found out once and remembered in `.hive/endpoints.json`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hive_agents.files import Format, atomic_write, locked, read_bytes

Way = Literal["tool", "schema", "prompt"]
WAYS: tuple[Way, ...] = ("tool", "schema", "prompt")
"""How a structured answer is asked for: a forced tool call, a JSON schema for the answer, or words and one repair."""


class Abilities(Format):
    """`structured` is the way that worked, `without` what parameters are refused, `dimensions` a vector's."""

    structured: Way | None = None
    without: list[str] = []
    dimensions: int = 0


class AbilityFile:
    """The abilities of one model of one server; `file` None remembers them in this object alone."""

    def __init__(self, file: Path | None, server: str, model: str) -> None:
        self._file, self._key = file, f"{server} {model}"
        self._lock = threading.Lock()
        self.known = self._read().get(self._key, Abilities())

    def learn(self, change: Callable[[Abilities], Abilities]) -> None:
        """Apply a change, also to what other processes have learnt meanwhile."""
        with self._lock:
            if self._file is None:
                self.known = change(self.known)
                return
            with locked(self._file.with_suffix(".lock"), "remembering what a model server can do"):
                stored = self._read()
                self.known = stored[self._key] = change(stored.get(self._key, self.known))
                told = {key: one.model_dump() for key, one in sorted(stored.items())}
                atomic_write(self._file, json.dumps(told, indent=2).encode() + b"\n", mode=0o600)

    def _read(self) -> dict[str, Abilities]:
        try:
            stored = json.loads(read_bytes(self._file)) if self._file is not None else {}
            return {key: Abilities.model_validate(one) for key, one in stored.items()}
        except (OSError, ValueError, AttributeError, ValidationError):
            return {}  # what can't be read is found out again
