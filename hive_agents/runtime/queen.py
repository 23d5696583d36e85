"""The queen at work: she hears of tickets and decisions from the event log, and of people by their messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from hive_agents.credentials import CredentialStore, Secret, redacted
from hive_agents.errors import HiveError
from hive_agents.events import ESCALATIONS, Consumer, Event, EventLog, EventType, tickets_of
from hive_agents.llm import Chain, open_chain
from hive_agents.runs import ACTIVE
from hive_agents.runtime.context import load_graph
from hive_agents.settings import Role
from hive_agents.supervision.queen import QUEEN, ActionLog, Colony, QueenSession, Worker, is_ruling
from hive_agents.telemetry import tracing

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.events import Bus
    from hive_agents.supervision.queen import Propose
    from hive_agents.workspace import Workspace

AT_REST = frozenset(
    {EventType.RUN_PAUSED, EventType.RUN_STOPPED, EventType.RUN_WAITING, EventType.RUN_COMPLETED, EventType.RUN_FAILED}
)
TYPES = AT_REST | {*ESCALATIONS, EventType.APPROVAL_DECIDED}
SETTLE_SECONDS = 300.0
WITHHELD = "(not shown: HIVE-421, the credentials can't be read)"
"""In place of every text of a run where a secret in it couldn't be told from other words."""

_log = logging.getLogger("hive_agents.queen")


class Queen:
    """The queen of a workspace. `models` opens the chain of her role, that of the settings by default.

    Without a model her policy and her answers from data do all there is to do; with one, her policy acts all the same.
    """

    def __init__(
        self,
        workspace: Workspace,
        bus: Bus | None = None,
        *,
        models: Callable[[Role], Chain] | None = None,
        propose: Propose | None = None,
    ) -> None:
        self.workspace, self.bus = workspace, bus
        self._models, self._propose = models, propose
        self._log = ActionLog(workspace)

    async def run(self, poll: float = 1.0) -> None:
        """Take every event from where she stopped, and now and then what was left undone, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settle_again())
            tasks.create_task(self._consumer.run(self.bus, poll=poll))

    async def catch_up(self) -> int:
        """Handle what the log holds by now; how many events that were."""
        return await self._consumer.catch_up()

    async def settle(self) -> None:
        """Do what she had begun when she was killed, and what was answered or went wrong while she was away."""
        session = self._session(None)
        for entry in await asyncio.to_thread(self._log.unfinished):
            hand = session.rulings if is_ruling(entry) else session.escalations
            await _tried(asyncio.to_thread(hand.act, entry.key))
        for approval_id in await asyncio.to_thread(session.rulings.missed):
            await _tried(self._invoke({"approval_id": approval_id}, session))
        for ticket in await asyncio.to_thread(session.colony.tickets):
            await _tried(self._invoke({"ticket": ticket.model_dump(mode="json")}, session))

    async def handle(self, event: Event) -> None:
        """Act on one event, as often as it comes. Raises: what went wrong; the same event may then come again."""
        session = self._session(None)
        if event.type in ESCALATIONS:
            if tickets_of([event]):  # one that holds no ticket will hold none the next time
                await self._invoke({"ticket": dict(event.payload)}, session)
        elif event.type is EventType.APPROVAL_DECIDED:
            await self._invoke({"approval_id": str(event.payload.get("approval_id"))}, session)
        elif event.run_id is not None:
            for key in await asyncio.to_thread(session.rulings.left_for, event.run_id):
                await asyncio.to_thread(session.rulings.act, key)

    async def ask(self, text: str, principal: Principal) -> dict[str, Any]:
        """Her answer to a message, in the asker's scope: {answer, runs, actions: [{action, run_id, status}], usage}.

        Raises: HIVE-409 (exit code 2) for no words.
        """
        if not text.strip():
            raise HiveError.of("HIVE-409", "there is no message", fix="ask in your own words", exit_code=2)
        found = await self._invoke({"text": text.strip()}, self._session(principal))
        reply: dict[str, Any] = found["reply"]
        return reply

    def overview(self, principal: Principal) -> dict[str, Any]:
        """{runs, tickets, actions} that the asker may see: active runs, open tickets, her last actions."""
        colony = self.colony(principal)
        return {
            "runs": [row.summary for row in colony.runs(ACTIVE)],
            "tickets": [ticket.model_dump(mode="json") for ticket in colony.tickets()],
            "actions": [entry.to_json() for entry in colony.actions()],
        }

    def colony(self, principal: Principal | None) -> Colony:
        """Return the colony in the scope of `principal`, None for her own; no credential's value comes out of it."""
        known = cache(lambda: credentials_of(self.workspace))
        return Colony(
            self.workspace,
            principal,
            start=self._start,
            propose=self._propose or self._proposed,
            workers=lambda: workers_of(self.workspace),
            hide=lambda text: redacted(text, known()[0]),
            quote=lambda text: redacted(text, known()[0]) if known()[1] or not text else WITHHELD,
        )

    @property
    def _consumer(self) -> Consumer:
        return Consumer(EventLog(self.workspace), "queen", self.handle, types=TYPES)

    async def _settle_again(self) -> None:
        while True:
            await _tried(self.settle())
            await asyncio.sleep(SETTLE_SECONDS)

    async def _invoke(self, value: dict[str, Any], session: QueenSession) -> dict[str, Any]:
        with tracing(self.workspace):
            found: dict[str, Any] = await load_graph("queen").ainvoke(value, context=session)
        return found

    def _session(self, principal: Principal | None) -> QueenSession:
        return QueenSession(self.colony(principal), self._chain)

    @cached_property
    def _chain(self) -> Chain | None:
        """Her models; None without any, and where those named cannot be had: a ticket doesn't wait for one."""
        names = self.workspace.settings.models.of("queen")
        if not self.workspace.settings.models.queen:
            names = [name for name in names if not name.startswith("scripted:")]  # an agent's lines, which aren't hers
        try:
            if self._models is not None:
                return self._models("queen")
            return open_chain(names, self.workspace.settings, workspace=self.workspace) if names else None
        except HiveError as error:
            _log.warning("no model: %s", error.diagnostics[0].code)
            return None

    async def _proposed(self, agent: str, patch: list[dict[str, Any]], by: str, reason: str) -> str:
        from hive_agents.agents.evolution import propose

        def proposed() -> str:
            asked_by = None if by == QUEEN else by
            made = propose(self.workspace, agent, patch, by="agent:queen", reason=reason, on_behalf_of=asked_by)
            return made.file

        return await asyncio.to_thread(proposed)

    async def _start(self, agent: str, input: dict[str, Any], principal: Principal | None) -> str:
        from hive_agents.runtime.agent_run import AgentRun

        start = partial(AgentRun.start, self.workspace, agent, input, principal=principal, hold=False)
        run = await asyncio.to_thread(start)
        return run.run_id


async def _tried(work: Awaitable[object]) -> None:
    """What fails is logged, and done the next time: nothing else waits for it."""
    try:
        await work
    except Exception as error:
        # Messages may hold what people wrote: the kind of fault says enough here.
        _log.warning("what was left undone failed: %s", type(error).__name__)


def workers_of(workspace: Workspace) -> list[Worker]:
    """Return the agents as they serve, and what their goals say of them; without those that can't."""
    from hive_agents.agents import known_agents, serving_agent
    from hive_agents.goals import load_goal

    found = []
    for id in known_agents(workspace):
        with suppress(HiveError):
            agent, _ = serving_agent(workspace, id)
            about = agent.goal
            with suppress(HiveError):
                goal = load_goal(workspace, agent.goal)
                about = ". ".join(filter(None, (goal.name, goal.description)))
            inputs = agent.node(agent.entry).input_keys
            found.append(Worker(agent.id, about, agent.capability, tuple(inputs)))
    return found


def credentials_of(workspace: Workspace) -> tuple[list[Secret], bool]:
    """Return the workspace's credentials, and whether that is all: a run may have written one somewhere."""
    store, found = CredentialStore(workspace), []
    try:
        names = store.names()
    except HiveError:
        return [], False
    for name in names:
        with suppress(HiveError):
            found.append(store.get(name))
    return found, len(found) == len(names)
