"""`hive runs logs`: who said what in a run, its tool calls and what came of them, in order."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hive_agents.cli.surface import WHO_ASKS, Surface, with_surface
from hive_agents.cli.terminal import write
from hive_agents.text import cut, safe_line

POLL = 0.5
AT_WORK = ("queued", "running")
SHORT = 200


@with_surface(as_user=WHO_ASKS)
def logs(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent.")],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run rests.")] = False,
) -> None:
    """Who said what in a run. With --follow and --json, a line a message, then one for the run."""
    import time
    from json import dumps

    from hive_agents.agents import RunLog
    from hive_agents.runs import RunStore, Scope
    from hive_agents.runtime import leases_of

    place = surface.workspace
    row = Scope(surface.asker.caller().principal).run(place, run)
    log = RunLog(place, row, lambda: surface.asker.caller().principal)
    if not follow:
        found = log.new()
        if surface.as_json:
            surface.show({"runs": [row.summary], "messages": found})
        else:
            _tell(surface, found)
        return
    alone = False
    while True:
        row = RunStore(place).get(run)  # first: what was said before it came to rest is read after it
        if not _tell(surface, log.new()):
            return  # whoever followed has seen enough
        if row.status not in AT_WORK:
            break
        if not (alone or surface.quiet or leases_of(place).is_held(row.thread_id)):
            write(f"{run} waits for a process: `hive serve --headless`, or `hive run --resume {run}`", err=True)
            alone = True
        time.sleep(POLL)
    if surface.as_json:
        write(dumps({"runs": [row.summary]}))
    elif not surface.quiet:
        write(f"{run} is {row.status}")


def lines_of(message: dict[str, Any]) -> list[str]:
    """Return the message for a person; what tools gave is cut, what was said is whole.

    >>> said = {"at": "2026-01-01T10:00:00+00:00", "node": "ask", "speaker": "agent", "text": "Bees?\\nOr wasps?"}
    >>> lines_of(said | {"calls": [{"name": "look", "args": {"n": 1}}]})
    ['10:00:00  ask: Bees?', '          Or wasps?', '10:00:00  ask calls look {"n": 1}']
    """
    from json import dumps

    at, node, speaker = message["at"][11:19], message["node"] or "agent", message["speaker"]
    if speaker == "tool":
        pointer = message["pointer"] or ""
        failed = " failed" if message["is_error"] else ""
        told = f"{_short(message['text'].removesuffix(pointer))} {pointer}".strip()
        return [safe_line(f"{at}    {message['tool']}{failed} → {told}")]
    who = {"agent": node, "judge": f"judge to {node}", "task": f"to {node}"}.get(speaker, speaker)
    text = _short(message["text"]) if speaker == "task" else message["text"].rstrip()
    first, *more = map(safe_line, text.split("\n"))
    said = [safe_line(f"{at}  {who}: {first}"), *(f"          {line}" for line in more)] if text else []
    made = [
        f"{at}  {node} calls {call['name']} {_short(dumps(call['args'], ensure_ascii=False))}"
        for call in message["calls"]
    ]
    return said + [safe_line(line) for line in made]


def _short(text: str) -> str:

    return cut(" ".join(text.split()), SHORT)


def _tell(surface: Surface, messages: list[dict[str, Any]]) -> bool:
    """Write the messages, as long as somebody reads them."""
    from json import dumps

    told = (dumps(one) if surface.as_json else "\n".join(lines_of(one)) for one in messages)
    return all(map(write, told)) if surface.as_json or not surface.quiet else True
