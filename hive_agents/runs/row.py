"""A run as its row in the store holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hive_agents.errors import HiveError

AGENT_GRAPH = "event_loop"
"""The graph of agents' runs."""

OPTIMIZER_GRAPH = "optimizer"

CHAT_GRAPH = "worker"
"""The graph of questions to the copilot: a turn that is simply repeated."""

ENDED = ("done", "failed")
"""A run in one of these is over; every other one can be resumed."""

ACTIVE = ("queued", "running", "waiting", "paused")
"""A run in one of these is under way, though it may rest."""

STATUSES = ("queued", "running", "waiting", "paused", "done", "failed", "stopped")

_COLUMNS = "run_id thread_id graph status tenant started_at ended_at node steps tokens usd stopped_by error"


@dataclass(frozen=True)
class RunRow:
    """A run of any graph; `summary` is its row as lists show it, which a damaged input or result doesn't hide.

    `control` is what somebody asked of whoever works on it: "pause", "stop" or nothing.
    """

    run_id: str
    thread_id: str
    graph: str
    agent: str | None
    status: str
    user: str
    control: str | None
    control_by: str | None
    input_text: str
    result_text: str | None
    summary: dict[str, Any]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> RunRow:
        """The row of a SELECT *."""
        summary = {name: found[name] for name in _COLUMNS.split()}
        try:
            summary["error"] = json.loads(summary["error"]) if summary["error"] else None
        except ValueError:
            summary["error"] = {"code": "HIVE-407", "message": "what was recorded here is damaged"}
        plain = {name: found[name] for name in ("run_id", "thread_id", "graph", "agent", "status", "user")}
        asked = {name: found[name] for name in ("control", "control_by")}
        return cls(**plain, **asked, input_text=found["input"], result_text=found["result"], summary=summary)

    @property
    def tenant(self) -> str:
        return str(self.summary["tenant"])

    @property
    def left(self) -> RunRow:
        """The run as it stands where its worker died: it waits for another one, a question for being resumed."""
        to = {"status": "stopped", "stopped_by": "interrupted"} if self.graph == CHAT_GRAPH else {"status": "queued"}
        return replace(self, status=to["status"], summary=self.summary | to)

    @property
    def broke_off(self) -> bool:
        """Whether it is stopped though nobody wanted it to: its worker was interrupted, or what it stands on failed."""
        by = self.summary["stopped_by"] or "interrupted"
        return self.status == "stopped" and (by in ("interrupted", "fault") or by.startswith("HIVE-"))

    @cached_property
    def value(self) -> dict[str, Any]:
        """What it was started with. Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("input", self.input_text)

    @cached_property
    def result(self) -> dict[str, Any] | None:
        """Raises: HIVE-407 (exit code 3) where it is damaged."""
        return self._read("result", self.result_text) if self.result_text else None

    def _read(self, name: str, text: str) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                return found
        why, fix = f"the {name} of run {self.run_id} is damaged", "start it anew"
        raise HiveError.of("HIVE-407", why, file=".hive/hive.db", path=f"runs.{name}", fix=fix)
