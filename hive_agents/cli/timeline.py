"""A run's events as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_agents.base import safe_line
from hive_agents.cli.surface import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hive_agents.events import Event


def line_of(event: Event) -> str | None:
    """Return the line of an event; None for one that a timeline leaves out.

    >>> from hive_agents.events import Event, EventType
    >>> payload = {"level": 2, "action": "retry", "feedback": "Too long."}
    >>> line_of(Event(EventType.JUDGMENT_MADE, node_id="write", payload=payload))
    'write: RETRY (level 2): Too long.'
    """
    line = _event_line(event)
    return None if line is None else safe_line(line)


def _event_line(event: Event) -> str | None:
    kind, payload = str(event.type), event.payload
    where = f"{event.node_id}: " if event.node_id else ""
    if kind == "judgment.made":
        level = "the goal" if payload.get("level") == "goal" else f"level {payload.get('level')}"
        feedback = " ".join(str(payload.get("feedback") or "").split())
        return f"{where}{str(payload.get('action')).upper()} ({level})" + (f": {feedback}" if feedback else "")
    if kind == "node.started":
        visit = payload.get("visit")
        return f"{where}begins" + (f", visit {visit}" if visit != 1 else "")
    if kind == "node.completed":
        turns = count(int(payload.get("iterations") or 0), "iteration")
        return f"{where}completed after {turns}{_list(' → ', payload.get('targets'))}"
    if kind == "node.failed":
        return f"{where}failed: {(payload.get('error') or {}).get('message')}"
    if kind == "tool.completed":
        return None if payload.get("tool") == "set_output" else f"{where}{payload.get('tool')}"
    if kind == "tool.failed":
        # Errors are written for the agent, and mostly begin with the tool's name.
        error = str(payload.get("error")).removeprefix(f"{payload.get('tool')} did not run or failed: ")
        return f"{where}{payload.get('tool')} failed: {error}"
    if kind == "output.set":
        return f"{where}sets {payload.get('key')}"
    if kind.startswith("subagent."):
        text = payload.get("message") or payload.get("error") or payload.get("status") or payload.get("task") or ""
        return f"{where}sub-agent {payload.get('agent')} {kind.removeprefix('subagent.')}: {text}"
    if kind == "approval.requested":
        return f"{where}asks {payload.get('approval_id')}: {payload.get('title')}"
    if kind.startswith("budget."):
        return f"{where}budget of {payload.get('measure')} {kind.removeprefix('budget.')}"
    if kind.startswith("run."):
        return _run(kind.removeprefix("run."), payload)
    return None


def _run(kind: str, payload: Mapping[str, Any]) -> str:
    error = (payload.get("error") or {}).get("message")
    waits = _list(" for ", payload.get("approval_ids"))
    by = f" by {payload['by']}" if payload.get("by") else ""
    return f"run {kind}{waits}{by}" + (f": {error}" if error else "")


def _list(prefix: str, names: Any) -> str:
    return prefix + ", ".join(names) if names else ""
