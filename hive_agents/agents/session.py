"""What all nodes of a run share: the agent, its tools and models, the ledger, the conversations and the events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hive_agents.agents.effects import Done, Effects
from hive_agents.agents.spec import AgentSpec
from hive_agents.agents.tools import ToolRegistry
from hive_agents.agents.viewing import NOTES, RunView
from hive_agents.approvals import ApprovalRequest, ApprovalStore, Filing, filed_by
from hive_agents.base import Outage, cached_property, encodable
from hive_agents.events import DURABLE, Event, EventLog, EventType, derived_id
from hive_agents.goals import Goal
from hive_agents.judging import FeedbackContext, Judgment
from hive_agents.memory import AcceptedNotes, AgentMemory, ConversationStore, DataBuffer, run_folder
from hive_agents.models import Chain
from hive_agents.runs import RunStore
from hive_agents.store import briefly, documents_read, undone_by
from hive_agents.workspace.settings import Role

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.access import Principal, Standing
    from hive_agents.agents.tool import Tool
    from hive_agents.workspace import Workspace

PARALLEL_CALLS = 8
PARALLEL_SUB_AGENTS = 4
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""Seconds between attempts to reach a model; the pause grows with the time waited so far."""


class Court(Protocol):
    """Judges results, logs decisions and files requests to people, as `runtime.Runtime` does."""

    async def evaluate(
        self,
        goal: Goal,
        result: Any,
        context: FeedbackContext | None = None,
        *,
        llm: Any = None,
        stronger: Any = None,
        attempt: int = 1,
    ) -> Judgment: ...

    async def weigh(
        self, goal: Goal, result: Any, context: FeedbackContext | None = None, *, llm: Any = None, attempt: int = 1
    ) -> tuple[Judgment, Callable[[], int]]: ...

    def log_decision(self, goal: Goal | str | None, result: Any, judgment: Judgment) -> int: ...

    def file_judgment(
        self, decision_id: int, *, title: str | None = None, thread_id: str | None = None, told: bool = False
    ) -> str: ...


class Stubs(Protocol):
    """What a trial puts in the place of the agents and effects of code."""

    def tool(self, tool: Tool) -> Tool: ...

    def read(self, tool: Tool, call: Callable[[], Any]) -> Any: ...

    async def agent(self, agent: Any, given: dict[str, Any]) -> dict[str, Any]: ...


@dataclass
class AgentSession:
    """One run of an agent in one process; reopened after a crash it finds its finished effects."""

    workspace: Workspace
    agent: AgentSpec
    goal: Goal
    run_id: str
    thread_id: str
    tools: ToolRegistry
    models: Callable[[Role], Chain]
    effects: Effects
    court: Court
    publish: Callable[[Sequence[Event]], Awaitable[None]]
    standing: Standing | None = None
    on_text: Callable[[str, str], object] | None = None
    stubs: Stubs | None = None
    patience: float = 0.0
    """Seconds for which the run waits for a model that can't be reached; 0 fails it."""
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PARALLEL_CALLS))
    summaries: asyncio.Lock = field(default_factory=asyncio.Lock)
    budgets: asyncio.Lock = field(default_factory=asyncio.Lock)
    delegations: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PARALLEL_SUB_AGENTS))
    _untold: dict[str, Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.effects.held_before_writing = self.store.lock
        self.effects.before_commit = self._log

    @property
    def principal(self) -> Principal | None:
        """The principal of the run, with those of its first rights that are left. Raises: HIVE-417."""
        return self.standing.now(self.workspace) if self.standing is not None else None

    @property
    def tenant(self) -> str:
        return self.standing.tenant if self.standing is not None else "local"

    @property
    def user(self) -> str:
        return self.standing.user if self.standing is not None else "local"

    @property
    def asking(self) -> dict[str, Any]:
        """The fields of a filing that say for whom the run asks, and who made the token that it was started by."""
        starter = self.standing.principal if self.standing is not None else None
        return {"on_behalf_of": self.user, "makers": filed_by(starter).get("makers", [])}

    @cached_property
    def store(self) -> ConversationStore:
        return ConversationStore(self.workspace, tenant=self.tenant)

    @cached_property
    def buffer(self) -> DataBuffer:
        return DataBuffer(self.workspace, tenant=self.tenant, run_id=self.run_id, stream_id=self.thread_id)

    @cached_property
    def conversation(self) -> str:
        """The agent's conversation, which people read and write to."""
        undone_by(lambda: vars(self).pop("conversation", None))
        return self.store.create(self.agent.id, self.run_id, key="agent")

    @cached_property
    def memory(self) -> AgentMemory | None:
        """The notes of this run; None for an agent without notes."""
        return AgentMemory(self.workspace, self.folder / "memory") if self.agent.memory is not None else None

    async def seed_notes(self, memory: AgentMemory, identity: str) -> None:
        """Begin the run's notes with those accepted for this thread or user; it has read what their runs have read."""
        adapt = self.agent.memory.adapt if self.agent.memory is not None else "run"
        begun: dict[str, Any] = {"text": "", "documents": []}
        if adapt != "run" and not memory.path.exists():
            of = self.user if adapt == "user" else f"thread:{self.thread_id}"
            kept = AcceptedNotes(self.workspace, tenant=self.tenant, agent_id=self.agent.id, of=of).all()
            notes = RunView.of_notes(self.workspace, self.tenant, self.principal, kept).values()
            read = [one for note in notes for one in documents_read(self.workspace, note.run_id or "").values()]
            begun = {"text": "".join(note.line for note in notes), "documents": sorted(frozenset().union(*read))}
            if kept:
                begun = await self.effects.within(NOTES, NOTES, "accepted", partial(Done, begun))
            if begun["documents"]:
                self.documents_read[NOTES] = frozenset(begun["documents"])
        memory.seed(identity, notes=begun["text"])

    @cached_property
    def documents_read(self) -> dict[str, frozenset[str]]:
        """The documents that the run's tool calls have returned, by the key of the call; calls add to it."""
        return documents_read(self.workspace, self.run_id)

    @property
    def folder(self) -> Path:
        return run_folder(self.workspace, self.run_id)

    async def emit(self, type: EventType, at: str, node: str | None = None, /, **payload: Any) -> None:
        """Publish an event at the key `at`; the log keeps one, however often the step is repeated."""
        await self._publish(self.event(type, at, node, **payload))

    def tell_later(self, type: EventType, at: str, node: str | None = None, /, **payload: Any) -> None:
        """Publish an event with the next one, or at the end of the step (`tell_rest`).

        It is logged in the ledger's next transaction, and comes to nothing with the one that this is called in.
        """
        event = self.event(type, at, node, **payload)
        if event.id not in self._untold:
            self._untold[event.id] = event
            undone_by(lambda: self._untold.pop(event.id, None))

    def _log(self) -> None:
        """Log what `tell_later` was told, in the transaction that this is called in."""
        due = {id: event for id, event in self._untold.items() if event.type in DURABLE and event.seq is None}
        if not due:
            return
        undone_by(lambda: self._untold.update(due))
        for event, new in EventLog(self.workspace).append([*due.values()]):
            if new:
                self._untold[event.id] = event
            else:
                self._untold.pop(event.id)

    async def tell_rest(self) -> None:
        """Publish what `tell_later` was told."""
        if self._untold:
            await self._publish()

    async def _publish(self, *events: Event) -> None:
        untold, self._untold = [*self._untold.values(), *events], {}
        await self.publish(untold)

    def event(self, type: EventType, at: str, node: str | None = None, /, **payload: Any) -> Event:
        """Return the event that `emit` publishes; its id is derived from the run, key and type."""
        id = derived_id("agent", self.run_id, at, type)
        return Event(type, self.run_id, self.thread_id, node, self.thread_id, self.tenant, _jsonable(payload), id=id)

    async def ask(self, filing: Filing) -> ApprovalRequest:
        """Return the request of a filing, pending or answered; filed once."""
        store, filing = ApprovalStore(self.workspace), self._filed(filing)
        request = store.get((await asyncio.to_thread(store.file, filing, told=True)).id)
        await self.emit(
            EventType.APPROVAL_REQUESTED, request.id, approval_id=request.id, kind=request.kind, title=request.title
        )
        return request

    async def granted(self, filing: Filing) -> bool:
        """Return whether a person approved such calls for the rest of the run."""
        store = ApprovalStore(self.workspace)
        return await briefly(partial(store.granted, self._filed(filing))) is not None

    def _filed(self, filing: Filing) -> Filing:
        return filing.model_copy(update={"run_id": self.run_id, "thread_id": self.thread_id, "tenant": self.tenant})

    def request(self, id: str) -> ApprovalRequest:
        return ApprovalStore(self.workspace).get(id)

    async def wait_out(self, key: str, why: str, asked: float = 0.0) -> None:
        """Raise Outage, with a growing pause, until the effect at `key` has waited for the run's whole `patience`.

        A server that asked for a longer rest than is left of it isn't waited for.
        """
        if not self.patience:
            return
        waited = await asyncio.to_thread(self.effects.waited, key)
        if waited + asked < self.patience:
            outage = Outage.of("HIVE-422", f"no model answers: {why}"[:500], fix="see `hive models test`", exit_code=3)
            outage.pause = max(asked, min(max(FIRST_PAUSE, waited), LONGEST_PAUSE, self.patience - waited))
            raise outage

    def withdraw(self, why: str) -> None:
        """Withdraw the run's open requests."""
        RunStore(self.workspace).withdraw(self.run_id, why=why)


def _jsonable(value: Any) -> Any:
    """Return plain JSON; other values become strings, and texts can be encoded as UTF-8."""
    return json.loads(encodable(json.dumps(value, ensure_ascii=False, default=str)))
