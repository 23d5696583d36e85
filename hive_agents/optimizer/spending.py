"""The cost of a run's model calls, written to disk before each call, so that calls of a killed process count, too."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hive_agents.base.files import atomic_write, read_bytes
from hive_agents.models import Meter, Usage
from hive_agents.workspace.settings import Optimizer


class Spending:
    """Calls, tokens and dollars over all processes of a run, against the limits of `settings`.

    It continues from `usage`, or from the file `ledger` where that counts more calls.
    """

    def __init__(self, settings: Optimizer, usage: Mapping[str, Any] | None = None, ledger: Path | None = None) -> None:
        self._settings, self._ledger = settings, ledger
        meters = [_meter(usage or {}), _meter(_read(ledger))]
        self.meter = max(meters, key=lambda meter: (meter.calls, meter.usage.input_tokens))
        self._lock = threading.Lock()

    def to_json(self) -> dict[str, Any]:
        return {"model_calls": self.meter.calls, **self.meter.usage.model_dump()}

    @property
    def refusal(self) -> str | None:
        """Why no further call is allowed: a limit is reached, or one of dollars can't be kept without a known price."""
        calls, limit, usage = self._settings.llm_calls, self._settings.max_usd, self.meter.usage
        if self.meter.calls >= calls:
            return f"llm_calls: all {calls} model calls are used"
        if limit and usage.usd >= limit:
            return f"max_usd: ${usage.usd:.4f} of ${limit:g} are spent"
        if limit and not usage.priced:
            return f"max_usd: the limit of ${limit:g} can't be kept, because the model's price isn't known"
        return None

    @property
    def overspent(self) -> bool:
        """Whether the limit of dollars is reached."""
        return bool(self._settings.max_usd) and self.meter.usage.usd >= self._settings.max_usd

    def pay(self, usage: Usage) -> None:
        """Count and record usage other than a chat model's call. Thread-safe."""
        with self._lock:
            self.meter.usage += usage
            self.record()

    def reserve(self) -> None:
        """Record a call that is about to be made."""
        self._write(self.to_json() | {"model_calls": self.meter.calls + 1})

    def record(self) -> None:
        """Record the spending so far."""
        self._write(self.to_json())

    def _write(self, usage: dict[str, Any]) -> None:
        if self._ledger is not None:
            atomic_write(self._ledger, json.dumps(usage).encode(), mode=0o600)


def _meter(usage: Mapping[str, Any]) -> Meter:
    counted = {key: value for key, value in usage.items() if key != "model_calls"}
    return Meter(calls=usage.get("model_calls", 0), usage=Usage(**counted))


def _read(ledger: Path | None) -> dict[str, Any]:
    try:
        usage = json.loads(read_bytes(ledger)) if ledger is not None else {}
    except (FileNotFoundError, ValueError):
        return {}
    return usage if isinstance(usage, dict) else {}
