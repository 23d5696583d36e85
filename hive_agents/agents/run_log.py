"""The messages of a run's conversations, in order, as a reader may see them now."""

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
    """The messages of a run's conversations, each once, also those that other processes write."""

    def __init__(self, place: Workspace, row: RunRow, reader: Callable[[], Principal | None] = lambda: None) -> None:
        """`reader` returns who reads, at each call of `new`; None is the workspace's owner.

        Rights that `access/*.json` has withdrawn since the first call aren't restored by a newer token.
        """
        self._place, self._reader = place, reader
        self._store, self._row = ConversationStore(place, tenant=row.tenant), row
        self._cursors: dict[str, int] = {}
        self._heard: set[str] = set()
        self._tools: dict[tuple[str, str], str] = {}
        self._standing: Standing | None = None

    def new(self) -> list[dict[str, Any]]:
        """Return the messages since the last call, in order: {conversation_id, n, at, node, step, speaker, text, calls,
        tool, call_id, is_error, pointer}. The step is that of `steps_of`, null for a message of a person.

        The speaker is agent, tool, person, judge, or task for the first message of a visit.
        Raises: HIVE-417 for a reader whose token was revoked, or who was removed from `access/*.json`.
        """
        messages: list[dict[str, Any]] = []
        view = RunView(self._place, self._row.run_id, self._row.tenant, self._recognised())
        for conversation in self._store.of_run(self._row.run_id):
            for entry in self._store.messages(conversation, self._cursors.get(conversation, 0)):
                self._cursors[conversation] = entry.n
                if not self._is_copy(entry):
                    message = self._message(conversation, entry)
                    messages.append(_withheld(message) if view.withholds(conversation, entry) else message)
        rank = {place: n for n, place in enumerate(self._store.order(self._row.run_id))} if messages else {}
        return sorted(messages, key=lambda message: rank.get((message["conversation_id"], message["n"]), 0))

    def _recognised(self) -> Principal | None:
        """Return the reader with the rights that are left. Raises: HIVE-417."""
        reader = self._reader()
        if reader is None:
            return None
        self._standing = self._standing or Standing.of(self._place, reader)
        return self._standing.of_today(reader).now(self._place)

    def _is_copy(self, entry: Entry) -> bool:
        """Return whether an entry is a copy: the agent's conversation and those of its nodes share messages."""
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
            "step": entry.key if nodes else None,
            "speaker": _speaker(entry),
            "text": message.content,
            "calls": [call.model_dump() for call in message.tool_calls],
            "tool": self._tools.get((conversation, message.tool_call_id)),
            "call_id": message.tool_call_id or None,
            "is_error": entry.is_error,
            "pointer": entry.pointer,
        }


def _withheld(message: dict[str, Any]) -> dict[str, Any]:
    """Return the speaker and the tools of a message, without texts that may quote hidden documents."""
    calls = [call | {"args": {}} for call in message["calls"]]
    return message | {"text": WITHHELD, "calls": calls, "pointer": None}


def _speaker(entry: Entry) -> str:
    if entry.message.role != "user":
        return "agent" if entry.message.role == "assistant" else "tool"
    if entry.key.startswith("person:"):
        return "person"
    return "judge" if entry.key.endswith("/feedback") else "task"
