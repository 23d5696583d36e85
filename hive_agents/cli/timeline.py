"""A run's events as lines of text, and `hive runs logs`: its messages, tool calls and tool results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import cut, safe_line
from hive_agents.cli.surface import WHO_ASKS, Surface, count, with_surface
from hive_agents.cli.terminal import write

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
        said = f": {text}" if text else ""  # an agent in code has no task
        return f"{where}sub-agent {payload.get('agent')} {kind.removeprefix('subagent.')}{said}"
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


POLL = 0.5
AT_WORK = ("queued", "running")
SHORT = 200


@with_surface(as_user=WHO_ASKS)
def logs(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent.")],
    follow: Annotated[bool, typer.Option("--follow", help="Print new messages until the run stops or waits.")] = False,
) -> None:
    """Show the messages of a run. --follow with --json prints a line for each message, then one for the run."""
    import time
    from json import dumps

    from hive_agents.agents import RunLog
    from hive_agents.runs import RunStore, Scope, leases_of

    place = surface.workspace
    row = Scope(surface.asker.caller().principal).run(place, run)
    log = RunLog(place, row, lambda: surface.asker.caller().principal)
    if not follow:
        messages = log.new()
        if surface.as_json:
            surface.show({"runs": [row.summary], "messages": messages})
        else:
            _write_messages(surface, messages)
        return
    warned = False
    while True:
        row = RunStore(place).get(run)  # before the messages, so that none is missed when it has stopped
        if not _write_messages(surface, log.new()):
            return  # the reader of the output is gone
        if row.status not in AT_WORK:
            break
        if not (warned or surface.quiet or leases_of(place).is_held(row.thread_id)):
            write(f"{run} waits for a process: `hive serve --headless`, or `hive run --resume {run}`", err=True)
            warned = True
        time.sleep(POLL)
    if surface.as_json:
        write(dumps({"runs": [row.summary]}))
    elif not surface.quiet:
        write(f"{run} is {row.status}")


def lines_of(message: dict[str, Any]) -> list[str]:
    """Return the lines of a message; tool results are shortened, what an agent or person said is not.

    >>> message = {"at": "2026-01-01T10:00:00+00:00", "node": "ask", "speaker": "agent", "text": "Bees?\\nOr wasps?"}
    >>> lines_of(message | {"calls": [{"name": "look", "args": {"n": 1}}]})
    ['10:00:00  ask: Bees?', '          Or wasps?', '10:00:00  ask calls look {"n": 1}']
    """
    from json import dumps

    at, node, speaker = message["at"][11:19], message["node"] or "agent", message["speaker"]
    if speaker == "tool":
        pointer = message["pointer"] or ""
        failed = " failed" if message["is_error"] else ""
        result = f"{_short(message['text'].removesuffix(pointer))} {pointer}".strip()
        return [safe_line(f"{at}    {message['tool']}{failed} → {result}")]
    label = {"agent": node, "judge": f"judge to {node}", "task": f"to {node}"}.get(speaker, speaker)
    text = _short(message["text"]) if speaker == "task" else message["text"].rstrip()
    first, *more = map(safe_line, text.split("\n"))
    lines = [safe_line(f"{at}  {label}: {first}"), *(f"          {line}" for line in more)] if text else []
    for call in message["calls"]:
        arguments = _short(dumps(call["args"], ensure_ascii=False))
        lines.append(safe_line(f"{at}  {node} calls {call['name']} {arguments}"))
    return lines


def _short(text: str) -> str:
    return cut(" ".join(text.split()), SHORT)


def _write_messages(surface: Surface, messages: list[dict[str, Any]]) -> bool:
    """Write the messages; return False when the reader of the output is gone."""
    from json import dumps

    if surface.quiet and not surface.as_json:
        return True
    return all(write(dumps(message) if surface.as_json else "\n".join(lines_of(message))) for message in messages)
