"""Runs, tickets and events in words: what runs wrote stands there as one line of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hive_agents.text import one_line

if TYPE_CHECKING:
    from hive_agents.events import Event
    from hive_agents.events.tickets import EscalationTicket
    from hive_agents.runs import RunRow

_DETAILS = ("tool", "key", "action", "feedback", "measure", "cause", "message", "title", "status", "by")


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "run"), counted(0, "ticket")
    ('1 run', '0 tickets')
    """
    return f"{number} {noun if number == 1 else noun + 's'}"


def listed(names: Sequence[str], last: str = "or") -> str:
    """
    >>> listed(["r1", "r2", "r3"])
    'r1, r2 or r3'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}" if names else ""


def run_line(row: RunRow) -> str:
    """One run: its id, agent, status, node and spend; with its error, quoted."""
    told = row.summary
    where = f" at {told['node']}" if told["node"] and row.status not in ("done", "failed") else ""
    asked = f" (asked to {row.control})" if row.control else ""
    why = f" by {told['stopped_by']}" if told["stopped_by"] else ""
    line = f"{row.run_id} {row.agent or row.graph}: {row.status}{why}{where}{asked}, {counted(told['steps'], 'step')}"
    line += f", {told['tokens']:,} tokens, ${told['usd']:.4f}, since {told['started_at'][:16].replace('T', ' ')}"
    error = told["error"]
    return one_line(line, 400) + (f'; its error: "{one_line(error["message"])}"' if error else "")


def ticket_line(ticket: EscalationTicket) -> str:
    evidence = "; ".join(one_line(one, 120) for one in ticket.evidence[:3])
    cause = ticket.cause.replace("_", " ")
    return f"{ticket.severity}: {cause} in {ticket.run_id} ({one_line(ticket.agent or 'no agent')}): {evidence}"


def event_line(event: Event) -> str:
    """What happened and when, with the details that are short."""
    payload: Mapping[str, Any] = event.payload
    error = payload.get("error")
    details = [str(payload[name]) for name in _DETAILS if payload.get(name)]
    if error:
        details.append(str(error.get("message") if isinstance(error, Mapping) else error))
    where = f" {event.node_id}" if event.node_id else ""
    told = f": {one_line(' · '.join(details))}" if details else ""
    return f"{event.time[11:19]} {event.type}{where}{told}"
