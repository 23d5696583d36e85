"""`hive runs logs`: who said what in a run, its tool calls and what came of them, in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, with_surface
from hive_agents.cli.terminal import write
from hive_agents.text import cut, safe_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from hive_agents.access import Principal, Standing
    from hive_agents.memory import Entry
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

POLL = 0.5
AT_WORK = ("queued", "running")
SHORT = 200
_NODE = re.compile(r"([^/#]+)#\d+(?:/|$)")


@with_surface()
def logs(
    surface: Surface,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of an agent.")],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run rests.")] = False,
) -> None:
    """Who said what in a run. With --follow and --json, a line a message, then one for the run."""
    import time
    from json import dumps

    from hive_agents.runs import RunStore, Scope
    from hive_agents.runtime import leases_of

    place = surface.workspace
    row = Scope(surface.asker.caller().principal).run(place, run)
    log = Log(place, row, lambda: surface.asker.caller().principal)
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
        _tell(surface, log.new())
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


class Log:
    """The messages of a run's conversations, each once, whoever writes them."""

    def __init__(self, place: Workspace, row: RunRow, reader: Callable[[], Principal | None] = lambda: None) -> None:
        """`reader` says who reads, each time something is shown; None is the workspace's owner.

        What `access/*.json` has taken from them since the first time, no token brings back.
        """
        from hive_agents.memory import ConversationStore

        self._place, self._reader = place, reader
        self._store, self._row = ConversationStore(place, tenant=row.tenant), row
        self._cursors: dict[str, int] = {}
        self._heard: set[str] = set()
        self._tools: dict[tuple[str, str], str] = {}
        self._standing: Standing | None = None

    def new(self) -> list[dict[str, Any]]:
        """What was said since, in order: {conversation_id, n, at, node, speaker, text, calls, tool, is_error, pointer}.

        The speaker is agent, tool, person, judge, or task for what a phase begins with.
        Raises: HIVE-417 for a reader whose token was revoked, or who is gone from `access/*.json`.
        """
        from hive_agents.agents import RunView

        found: list[dict[str, Any]] = []
        view = RunView(self._place, self._row.run_id, self._row.tenant, self._recognised())
        for conversation in self._store.of_run(self._row.run_id):
            for entry in self._store.messages(conversation, self._cursors.get(conversation, 0)):
                self._cursors[conversation] = entry.n
                if not self._is_copy(entry):
                    message = self._message(conversation, entry)
                    found.append(_withheld(message) if view.withholds(conversation, entry) else message)
        rank = {place: n for n, place in enumerate(self._store.order(self._row.run_id))} if found else {}
        return sorted(found, key=lambda one: rank.get((one["conversation_id"], one["n"]), 0))

    def _recognised(self) -> Principal | None:
        """Who reads, as far as they still stand. Raises: HIVE-417."""
        from hive_agents.access import Standing

        reader = self._reader()
        if reader is None:
            return None
        self._standing = self._standing or Standing.of(self._place, reader)
        return self._standing.of_today(reader).now(self._place)

    def _is_copy(self, entry: Entry) -> bool:
        """A phase with its own conversation mirrors its words into the agent's, and copies what people say there."""
        if entry.key in self._heard:
            return True
        if entry.key.startswith("person:"):
            self._heard.add(entry.key)
        return entry.key.startswith("mirror:")

    def _message(self, conversation: str, entry: Entry) -> dict[str, Any]:
        message = entry.message
        for call in message.tool_calls:
            self._tools[conversation, call.id] = call.name
        nodes = _NODE.findall(entry.key)  # a sub-agent's key begins with that of the call that it answers
        return {
            "conversation_id": conversation,
            "n": entry.n,
            "at": entry.at,
            "node": nodes[-1] if nodes else None,
            "speaker": _speaker(entry),
            "text": message.content,
            "calls": [call.model_dump() for call in message.tool_calls],
            "tool": self._tools.get((conversation, message.tool_call_id)),
            "is_error": entry.is_error,
            "pointer": entry.pointer,
        }


def _withheld(message: dict[str, Any]) -> dict[str, Any]:
    """Who spoke and which tools were called, for a reader who may not view what the run has read."""
    from hive_agents.approvals import WITHHELD

    calls = [call | {"args": {}} for call in message["calls"]]
    return message | {"text": WITHHELD, "calls": calls, "pointer": None}


def lines_of(message: dict[str, Any]) -> list[str]:
    """The message for a person; what tools gave is cut, what was said is whole.

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


def _speaker(entry: Entry) -> str:
    if entry.message.role != "user":
        return "agent" if entry.message.role == "assistant" else "tool"
    if entry.key.startswith("person:"):
        return "person"
    return "judge" if entry.key.endswith("/feedback") else "task"


def _short(text: str) -> str:

    return cut(" ".join(text.split()), SHORT)


def _tell(surface: Surface, messages: list[dict[str, Any]]) -> None:
    from json import dumps

    for one in messages:
        if surface.as_json:
            write(dumps(one))
        elif not surface.quiet:
            write("\n".join(lines_of(one)))
