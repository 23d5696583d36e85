"""Abilities of model servers, which are probed once and stored in `.hive/endpoints.json`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hive_agents.base.files import Format, atomic_write, locked, read_bytes
from hive_agents.models.prices import CHARACTERS_PER_TOKEN

OutputWay = Literal["tool", "schema", "prompt"]
WAYS: tuple[OutputWay, ...] = ("tool", "schema", "prompt")
"""Ways to a structured answer: a forced tool call, a JSON schema for the answer, or the prompt, with one repair."""

SAMPLES = 20
"""Answers with a token count from which a server's token length is estimated."""


class TokenLength(Format):
    """Totals of characters and tokens of up to `SAMPLES` answers, for the number of characters in a token.

    `counted` is the tokens of the characters `sent`, `answered` those of the characters `written`: thoughts and the
    syntax of calls count there, too.

    >>> TokenLength().with_answer((1200, 300), (90, 45)).per_token
    (4.0, 2.0)
    """

    samples: int = 0
    sent: int = 0
    counted: int = 0
    written: int = 0
    answered: int = 0

    def with_answer(self, sent: tuple[int, int], written: tuple[int, int]) -> TokenLength:
        """Return the totals with the (characters, tokens) of one more answer; unchanged after `SAMPLES`."""
        if self.samples >= SAMPLES or sent[1] <= 0 or written[1] < 0:
            return self
        return TokenLength(
            samples=self.samples + 1,
            sent=self.sent + sent[0],
            counted=self.counted + sent[1],
            written=self.written + written[0],
            answered=self.answered + written[1],
        )

    @property
    def per_token(self) -> tuple[float, float]:
        """The characters of a token in requests, and in answers."""
        sent = self.sent / self.counted if self.counted else CHARACTERS_PER_TOKEN
        return sent, self.written / self.answered if self.written and self.answered else sent


class Abilities(Format):
    """`structured` is the way that worked, `without` the refused parameters, `dimensions` the length of a vector."""

    structured: OutputWay | None = None
    without: list[str] = []
    dimensions: int = 0
    tokens: TokenLength = TokenLength()


class AbilityFile:
    """The abilities of one model of one server; with `file` None only this object has them."""

    def __init__(self, file: Path | None, server: str, model: str) -> None:
        self._file, self._key = file, f"{server} {model}"
        self._lock = threading.Lock()
        self.known = self._read().get(self._key, Abilities())

    def learn(self, change: Callable[[Abilities], Abilities]) -> None:
        """Apply a change to the stored abilities, which other processes may have changed, too."""
        with self._lock:
            if self._file is None:
                self.known = change(self.known)
                return
            with locked(self._file.with_suffix(".lock"), "remembering what a model server can do"):
                stored = self._read()
                self.known = stored[self._key] = change(stored.get(self._key, self.known))
                entries = {key: abilities.model_dump() for key, abilities in sorted(stored.items())}
                atomic_write(self._file, json.dumps(entries, indent=2).encode() + b"\n", mode=0o600)

    def _read(self) -> dict[str, Abilities]:
        try:
            stored = json.loads(read_bytes(self._file)) if self._file is not None else {}
            return {key: Abilities.model_validate(entry) for key, entry in stored.items()}
        except (OSError, ValueError, AttributeError, ValidationError):
            return {}  # an unreadable file is replaced
