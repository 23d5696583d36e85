"""The context of the queen's graph: her policy, one asker's conversation, and the model, if any."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hive_agents.base import fenced, one_line
from hive_agents.memory import ConversationStore
from hive_agents.models import ChatResult, Message, ModelError, Usage, prompts
from hive_agents.runs import ACTIVE
from hive_agents.store import audit
from hive_agents.supervision.queen.action_log import ActionLog
from hive_agents.supervision.queen.answers import Answers
from hive_agents.supervision.queen.escalations import Escalations
from hive_agents.supervision.queen.mandate import Mandate
from hive_agents.supervision.queen.reply import Reply, run_line, ticket_line
from hive_agents.supervision.queen.rulings import Rulings
from hive_agents.supervision.queen.tools import TOOLS, Hands

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.events import EscalationTicket
    from hive_agents.models import Chain
    from hive_agents.supervision.queen.colony import Colony
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


CALLS = 8
"""Most tool calls of a model in one answer."""
_log = logging.getLogger("hive_agents.queen")


@dataclass
class QueenSession:
    """The handling of one message, ticket or decision; `colony` has the scope of its sender."""

    colony: Colony
    chain: Chain | None = None
    reply: Reply = field(default_factory=Reply)
    spent: Usage = field(default_factory=Usage)
    model_calls: int = 0

    @cached_property
    def escalations(self) -> Escalations:
        return Escalations(self.colony, ActionLog(self.colony.workspace))

    @cached_property
    def rulings(self) -> Rulings:
        return Rulings(self.colony, ActionLog(self.colony.workspace))

    @cached_property
    def memory(self) -> Memory:
        if self.colony.principal is None:
            raise ValueError("a message comes from somebody")
        return Memory(self.colony.workspace, self.colony.principal)

    async def words_for(self, ticket: EscalationTicket) -> str:
        """Return what a model adds to the words about a ticket; nothing without one, or where it fails."""
        if self.chain is None:
            return ""
        fence = _fence()
        task = f"A ticket came. In at most two sentences, what should the worker, or the person asked, know?\n{fence}\n"
        try:
            system = await asyncio.to_thread(self._system, fence)
            messages = [system, Message(role="user", content=f"{task}{ticket_line(ticket)}\n{fence}")]
            return (await self._asked(messages, tools=False)).text
        except ModelError as error:
            _log.warning("no model's words about ticket %s: %s", ticket.id, error.kind)
            return ""

    async def think(self, turns: Sequence[Message], calls: int) -> Message:
        """Return the model's next turn: calls of tools, or its answer. Raises: ModelError."""
        assert self.chain is not None
        known = await asyncio.to_thread(self.memory.recent)
        system = await asyncio.to_thread(self._system, _fence())
        found = await self._asked([system, *known, *turns], tools=calls < CALLS)
        # Providers may leave the ids out, and each result must name its call.
        named = [
            call.model_copy(update={"id": call.id or f"call-{calls + number}"})
            for number, call in enumerate(found.tool_calls[: CALLS - calls])
        ]
        if not named and not found.text.strip():
            raise ModelError("garbage", "the model gave no answer")
        return Message(role="assistant", content=found.text, tool_calls=named)

    async def act(self, text: str, turn: Message) -> list[Message]:
        """Return the results of a turn's calls, in their order."""
        hands = Hands(self.colony, Mandate(text, await asyncio.to_thread(self.memory.runs)), self.reply)
        found = [(call.id, await hands.call(call)) for call in turn.tool_calls]
        return [Message(role="tool", content=fenced(text), tool_call_id=id) for id, text in found]

    async def answer(self, text: str, fault: str | None) -> None:
        """Answer from data; after a model's fault the answer says so, and its actions aren't repeated."""
        if self.reply.actions:
            done = ", ".join(f"{one['action']} {one['run_id']}" for one in self.reply.actions)
            self.reply.say(f"The model failed after this was done: {done}.")
            return
        last, asked = await asyncio.to_thread(lambda: (self.memory.runs(), self.memory.asked()))
        self.reply = await Answers(self.colony, last, asked).answer(text)
        if fault is not None:
            self.reply.say(f"(Answered from data alone: {one_line(fault)})")

    def conclude(self, text: str, turn: Message) -> None:
        """The model's words, and beside them what was really done, or that nothing was."""
        self.reply.say(turn.content.strip())
        for one in self.reply.actions:
            self.reply.say(f"Done: {one['action']} {one['run_id']}, which is {one['status']}.")
        if not self.reply.actions and Mandate(text).orders():
            self.reply.say("No run was changed.")
        self.reply.runs = [one for one in self.reply.runs if one in self.reply.text] or self.reply.runs[:1]

    def usage(self) -> dict[str, Any]:
        return {"model_calls": self.model_calls, **self.spent.model_dump(exclude={"priced", "estimated"})}

    async def _asked(self, messages: list[Message], *, tools: bool) -> ChatResult:
        assert self.chain is not None
        self.model_calls += 1
        try:
            found = await self.chain.complete(messages, tools=TOOLS if tools else ())
        except ModelError as error:
            self.spent += error.usage
            raise
        self.spent += found.usage
        return found

    def _system(self, fence: str) -> Message:
        rows, tickets = self.colony.runs(ACTIVE, 20), self.colony.tickets()[:10]
        lines = [*map(run_line, rows), *(f"ticket {one.id}, {ticket_line(one)}" for one in tickets)]
        text = prompts.load(
            "queen",
            self.colony.workspace,
            asker=self.colony.by,
            now=audit.now()[:16],
            colony=self.colony.hide("\n".join(lines)) or "nothing is active",
            fence=fence,
        )
        return Message(role="system", content=text)


def _fence() -> str:
    return f"-----{secrets.token_hex(8)}-----"
