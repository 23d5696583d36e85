"""What she answers: words, the runs that they speak of, and what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hive_agents.runs import RunRow


@dataclass
class Reply:
    """`actions` are {action, run_id, status}: what really happened; `asked` is {verb, options, words}, asked back."""

    lines: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)
    asked: dict[str, Any] | None = None

    def say(self, *lines: str) -> Reply:
        self.lines += lines
        return self

    def speak_of(self, *rows: RunRow) -> Reply:
        self.runs += [row.run_id for row in rows if row.run_id not in self.runs]
        return self

    def did(self, action: str, row: RunRow) -> Reply:
        self.actions.append({"action": action, "run_id": row.run_id, "status": row.status})
        return self.speak_of(row)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def done_line(action: str, row: RunRow) -> str:
    """What a command did, as the run's row says it."""
    name = f"{row.run_id} ({row.agent or row.graph})"
    if action == "steer":
        return f"{name} is told before its next turn."
    if action == "start":
        return f"{name} is {row.status}; `hive serve --headless` or `hive run --resume {row.run_id}` works on it."
    if row.control is not None:
        return f"{name} is asked to {row.control}: it does so after its present step."
    return f"{name} is {row.status}."
