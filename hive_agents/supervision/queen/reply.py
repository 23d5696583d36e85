"""Replies of the queen: words, the runs mentioned, and the actions done.

Texts of runs are quoted as one line of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hive_agents.base import count, one_line, spelled

if TYPE_CHECKING:
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.events import EscalationTicket, Event
    from hive_agents.runs import RunRow

_DETAILS = ("tool", "key", "action", "feedback", "measure", "cause", "message", "title", "status", "by")


@dataclass
class Reply:
    """`actions` are {action, run_id, status}, as they happened; `asked` is the question {verb, options, words}."""

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
    """Return the effect of a command, by the run's row."""
    name = f"{row.run_id} ({row.agent or row.graph})"
    if action == "steer":
        rests = f" It is {row.status}: say resume {row.run_id}." if row.status in ("paused", "stopped") else ""
        return f"{name} is told before its next turn.{rests}"
    if action == "start":
        return f"{name} is {row.status}; `hive serve --headless` or `hive run --resume {row.run_id}` works on it."
    if row.control is not None:
        return f"{name} is asked to {row.control}: it does so after its present step."
    return f"{name} is {row.status}."


def run_line(row: RunRow) -> str:
    """Return one run: its id, agent, status, node and spend; with its error, quoted."""
    run = row.summary
    where = f" at {run['node']}" if run["node"] and row.status not in ("done", "failed") else ""
    control = f" (asked to {row.control})" if row.control else ""
    by = f" by {run['stopped_by']}" if run["stopped_by"] else ""
    line = f"{row.run_id} {row.agent or row.graph}: {row.status}{by}{where}{control}, {count(run['steps'], 'step')}"
    line += f", {run['tokens']:,} tokens, ${run['usd']:.4f}, since {run['started_at'][:16].replace('T', ' ')}"
    error = run["error"]
    return one_line(line, 400) + (f'; its error: "{one_line(error["message"])}"' if error else "")


def ticket_line(ticket: EscalationTicket) -> str:
    """Return one ticket: severity, cause, run and evidence."""
    evidence = "; ".join(one_line(one, 120) for one in ticket.evidence[:3])
    cause = ticket.cause.replace("_", " ")
    return f"{ticket.severity}: {cause} in {ticket.run_id} ({one_line(ticket.agent or 'no agent')}): {evidence}"


def event_line(event: Event) -> str:
    """Return an event's time, type and short details."""
    payload: Mapping[str, Any] = event.payload
    error = payload.get("error")
    details = [str(payload[name]) for name in _DETAILS if payload.get(name)]
    if error:
        details.append(str(error.get("message") if isinstance(error, Mapping) else error))
    where = f" {event.node_id}" if event.node_id else ""
    shown = f": {one_line(' · '.join(details))}" if details else ""
    return f"{event.time[11:19]} {event.type}{where}{shown}"


def request_line(request: ApprovalRequest) -> str:
    """Return one request: its id, kind and title, and the command that shows it."""
    return f'{request.id} ({request.kind}): "{one_line(spelled(request.title))}"; hive approvals show {request.id}'
