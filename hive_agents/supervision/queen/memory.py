"""The queen's memory of one asker: messages, the runs last mentioned, and her open question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hive_agents.memory import ConversationStore
from hive_agents.models import Message

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace

AGENT = "queen"
LAST = 12
"""The number of earlier messages in a model's prompt."""


class Memory:
    """Her conversation with one person, in that person's tenant, which nobody else may read."""

    def __init__(self, workspace: Workspace, principal: Principal) -> None:
        self._store = ConversationStore(workspace, tenant=principal.tenant)
        self._id = self._store.create(AGENT, f"{AGENT}:{principal.user}", key=AGENT)

    def heard(self, text: str) -> None:
        self._store.append(self._id, Message(role="user", content=text))

    def said(self, text: str, runs: list[str], asked: dict[str, Any] | None) -> None:
        """Her answer, the runs that it speaks of, and the question {verb, options, words} that it ends with."""
        self._store.append(self._id, Message(role="assistant", content=text))
        if runs:
            self._store.set_output(self._id, "runs", runs)
        self._store.set_output(self._id, "asked", asked)

    def runs(self) -> list[str]:
        found = self._store.outputs(self._id).get("runs", [])
        return [str(one) for one in found]

    def asked(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self._store.outputs(self._id).get("asked")
        return found

    def recent(self) -> list[Message]:
        """Return the last messages, oldest first, including the current one."""
        return [entry.message for entry in self._store.messages(self._id)[-LAST - 1 :]]
