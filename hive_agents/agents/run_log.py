"""What was said in a run: the messages of its conversations, in order, as a reader may see them now."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hive_agents.access import Standing
from hive_agents.agents.viewing import RunView
from hive_agents.approvals import WITHHELD
from hive_agents.memory import ConversationStore

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.memory import Entry
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

_NODE = re.compile(r"([^/#]+)#\d+(?:/|$)")


class RunLog:
    """The messages of a run's conversations, each once, whoever writes them."""

    def __init__(self, place: Workspace, row: RunRow, reader: Callable[[], Principal | None] = lambda: None) -> None:
        """`reader` says who reads, each time something is shown; None is the workspace's owner.

        What `access/*.json` has taken from them since the first time, no token brings back.
        """
        self._place, self._reader = place, reader
        self._store, self._row = ConversationStore(place, tenant=row.tenant), row
        self._cursors: dict[str, int] = {}
        self._heard: set[str] = set()
        self._tools: dict[tuple[str, str], str] = {}
        self._standing: Standing | None = None

    def new(self) -> list[dict[str, Any]]:
        """Return what was said since, in order: {conversation_id, n, at, node, speaker, text, calls, tool, call_id,
        is_error, pointer}.

        The speaker is agent, tool, person, judge, or task for what a phase begins with.
        Raises: HIVE-417 for a reader whose token was revoked, or who is gone from `access/*.json`.
        """
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
        """Return who reads, as far as they still stand. Raises: HIVE-417."""
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
            "call_id": message.tool_call_id or None,
            "is_error": entry.is_error,
            "pointer": entry.pointer,
        }


def _withheld(message: dict[str, Any]) -> dict[str, Any]:
    """Return who spoke and which tools were called, for a reader who may not view what the run has read."""
    calls = [call | {"args": {}} for call in message["calls"]]
    return message | {"text": WITHHELD, "calls": calls, "pointer": None}


def _speaker(entry: Entry) -> str:
    if entry.message.role != "user":
        return "agent" if entry.message.role == "assistant" else "tool"
    if entry.key.startswith("person:"):
        return "person"
    return "judge" if entry.key.endswith("/feedback") else "task"
