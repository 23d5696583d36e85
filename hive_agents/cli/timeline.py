"""What happened in a run, a line an event: nodes, verdicts, tools, people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_agents.cli.surface import count
from hive_agents.text import safe_line

if TYPE_CHECKING:
    from hive_agents.events import Event


def line_of(event: Event) -> str | None:
    """Return the event for a person; None for one that a timeline leaves out.

    >>> from hive_agents.events import Event, EventType
    >>> told = {"level": 2, "action": "retry", "feedback": "Too long."}
    >>> line_of(Event(EventType.JUDGMENT_MADE, node_id="write", payload=told))
    'write: RETRY (level 2): Too long.'
    """
    told = _event_line(event)
    return None if told is None else safe_line(told)


def _event_line(event: Event) -> str | None:
    kind, told = str(event.type), dict(event.payload)
    where = f"{event.node_id}: " if event.node_id else ""
    if kind == "judgment.made":
        level = "the goal" if told.get("level") == "goal" else f"level {told.get('level')}"
        words = " ".join(str(told.get("feedback") or "").split())
        return f"{where}{str(told.get('action')).upper()} ({level})" + (f": {words}" if words else "")
    if kind == "node.started":
        visit = told.get("visit")
        return f"{where}begins" + (f", visit {visit}" if visit != 1 else "")
    if kind == "node.completed":
        turns = count(int(told.get("iterations") or 0), "iteration")
        return f"{where}completed after {turns}{_list(' → ', told.get('targets'))}"
    if kind == "node.failed":
        return f"{where}failed: {(told.get('error') or {}).get('message')}"
    if kind == "tool.completed":
        return None if told.get("tool") == "set_output" else f"{where}{told.get('tool')}"
    if kind == "tool.failed":
        # The tool's words are for its agent, and mostly begin with its name.
        why = str(told.get("error")).removeprefix(f"{told.get('tool')} did not run or failed: ")
        return f"{where}{told.get('tool')} failed: {why}"
    if kind == "output.set":
        return f"{where}sets {told.get('key')}"
    if kind.startswith("subagent."):
        words = told.get("message") or told.get("error") or told.get("status") or told.get("task") or ""
        return f"{where}sub-agent {told.get('agent')} {kind.removeprefix('subagent.')}: {words}"
    if kind == "approval.requested":
        return f"{where}asks {told.get('approval_id')}: {told.get('title')}"
    if kind.startswith("budget."):
        return f"{where}budget of {told.get('measure')} {kind.removeprefix('budget.')}"
    if kind.startswith("run."):
        return _run(kind.removeprefix("run."), told)
    return None


def _run(kind: str, told: dict[str, Any]) -> str:
    error = (told.get("error") or {}).get("message")
    waits = _list(" for ", told.get("approval_ids"))
    by = f" by {told['by']}" if told.get("by") else ""
    return f"run {kind}{waits}{by}" + (f": {error}" if error else "")


def _list(before: str, names: Any) -> str:
    return before + ", ".join(names) if names else ""
