"""What a server can do, found out once and remembered in `.hive/endpoints.json`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from hive_agents.files import Format, atomic_write, locked, read_bytes
from hive_agents.llm.prices import CHARACTERS_PER_TOKEN

OutputWay = Literal["tool", "schema", "prompt"]
WAYS: tuple[OutputWay, ...] = ("tool", "schema", "prompt")
"""How a structured answer is asked for: a forced tool call, a JSON schema for the answer, or words and one repair."""


SAMPLES = 20
"""Counted answers that say how long a server's tokens are."""


class TokenLength(Format):
    """How many characters a server's tokens have, in what it is sent and in what it writes, as far as it counts.

    `counted` are the tokens of what was `sent`, `answered` those of what was `written`: more than can be read, as
    thoughts and the marks of a call count, too.

    >>> TokenLength().with_answer((1200, 300), (90, 45)).per_token
    (4.0, 2.0)
    """

    samples: int = 0
    sent: int = 0
    counted: int = 0
    written: int = 0
    answered: int = 0

    def with_answer(self, sent: tuple[int, int], written: tuple[int, int]) -> TokenLength:
        """Return it with the (characters, tokens) of one more answer, as long as more of them say more."""
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
        """Return the characters of a token in what is sent, and in what is written."""
        sent = self.sent / self.counted if self.counted else CHARACTERS_PER_TOKEN
        return sent, self.written / self.answered if self.written and self.answered else sent


class Abilities(Format):
    """`structured` is the way that worked, `without` what parameters are refused, `dimensions` a vector's."""

    structured: OutputWay | None = None
    without: list[str] = []
    dimensions: int = 0
    tokens: TokenLength = TokenLength()


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
