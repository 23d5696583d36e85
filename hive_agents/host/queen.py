"""Run the queen on tickets and decisions from the event log, and on people's messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError
from hive_agents.events import ESCALATIONS, Consumer, Event, EventLog, EventType, tickets_of
from hive_agents.models import Chain, open_chain, tracing
from hive_agents.runs import ACTIVE, load_graph
from hive_agents.supervision.queen import QUEEN, ActionLog, Colony, QueenSession, Worker, is_ruling
from hive_agents.workspace.credentials import CredentialStore, Secret, redacted
from hive_agents.workspace.settings import Role

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
"""Replaces every text of a run while the credentials to redact can't be read."""

_log = logging.getLogger("hive_agents.queen")


class Queen:
    """The queen of a workspace. `models` opens the chain of her role, by default that of the settings.

    Her policy acts with and without a model; without one she answers messages from data alone.
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
        """Handle events from where she stopped, and repeat unfinished work periodically, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._settle_again())
            tasks.create_task(self._consumer.run(self.bus, poll=poll))

    async def catch_up(self) -> int:
        """Handle the events that are in the log; return their number."""
        return await self._consumer.catch_up()

    async def settle(self) -> None:
        """Complete interrupted actions, and handle missed decisions and open tickets."""
        session = self._session(None)
        for entry in await asyncio.to_thread(self._log.unfinished):
            actor = session.rulings if is_ruling(entry) else session.escalations
            await _tried(asyncio.to_thread(actor.act, entry.key))
        for approval_id in await asyncio.to_thread(session.rulings.missed):
            await _tried(self._invoke({"approval_id": approval_id}, session))
        for ticket in await asyncio.to_thread(session.colony.tickets):
            await _tried(self._invoke({"ticket": ticket.model_dump(mode="json")}, session))

    async def handle(self, event: Event) -> None:
        """Handle one event, idempotently. Raises: whatever fails; the event may then be delivered again."""
        session = self._session(None)
        if event.type in ESCALATIONS:
            if tickets_of([event]):  # one without a valid ticket is skipped
                await self._invoke({"ticket": dict(event.payload)}, session)
        elif event.type is EventType.APPROVAL_DECIDED:
            await self._invoke({"approval_id": str(event.payload.get("approval_id"))}, session)
        elif event.run_id is not None:
            for key in await asyncio.to_thread(session.rulings.left_for, event.run_id):
                await asyncio.to_thread(session.rulings.act, key)

    async def ask(self, text: str, principal: Principal) -> dict[str, Any]:
        """Return her answer in the asker's scope: {answer, runs, actions: [{action, run_id, status}], usage}.

        Raises: HIVE-409 (exit code 2) for no words.
        """
        if not text.strip():
            raise HiveError.of("HIVE-409", "there is no message", fix="ask in your own words", exit_code=2)
        session = await asyncio.to_thread(self._session, principal)  # which looks the asker's rights up
        state = await self._invoke({"text": text.strip()}, session)
        reply: dict[str, Any] = state["reply"]
        return reply

    def overview(self, principal: Principal) -> dict[str, Any]:
        """Return {runs, tickets, actions} that the asker may see: active runs, open tickets, her last actions."""
        colony = self.colony(principal)
        return {
            "runs": [row.summary for row in colony.runs(ACTIVE)],
            "tickets": [ticket.model_dump(mode="json") for ticket in colony.tickets()],
            "actions": [entry.to_json() for entry in colony.actions()],
        }

    def colony(self, principal: Principal | None) -> Colony:
        """Return the colony in the scope of `principal`, None for her own; its texts are redacted."""
        credentials = cache(lambda: credentials_of(self.workspace))
        return Colony(
            self.workspace,
            principal,
            start=self._start,
            propose=self._propose or self._proposed,
            workers=lambda: workers_of(self.workspace),
            hide=lambda text: redacted(text, credentials()[0]),
            quote=lambda text: redacted(text, credentials()[0]) if credentials()[1] or not text else WITHHELD,
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
            state: dict[str, Any] = await load_graph("queen").ainvoke(value, context=session)
        return state

    def _session(self, principal: Principal | None) -> QueenSession:
        return QueenSession(self.colony(principal), self._chain)

    @cached_property
    def _chain(self) -> Chain | None:
        """Her models; None without any, and where they can't be opened: tickets are handled without one."""
        names = self.workspace.settings.models.of("queen")
        if not self.workspace.settings.models.queen:
            names = [name for name in names if not name.startswith("scripted:")]  # scripts for agents
        try:
            if self._models is not None:
                return self._models("queen")
            return open_chain(names, self.workspace.settings, workspace=self.workspace) if names else None
        except HiveError as error:
            _log.warning("no model: %s", error.diagnostics[0].code)
            return None

    async def _proposed(self, agent: str, patch: list[dict[str, Any]], by: str, reason: str) -> str:
        from hive_agents.agents.evolution import propose

        for_whom = None if by == QUEEN else by
        call = partial(propose, self.workspace, agent, patch, by="agent:queen", reason=reason, on_behalf_of=for_whom)
        return (await asyncio.to_thread(call)).file

    async def _start(self, agent: str, input: dict[str, Any], principal: Principal | None) -> str:
        from hive_agents.agents import AgentRun

        start = partial(AgentRun.start, self.workspace, agent, input, principal=principal, hold=False)
        run = await asyncio.to_thread(start)
        return run.run_id


async def _tried(work: Awaitable[object]) -> None:
    """Await `work`; a failure is logged, and the work is repeated later."""
    try:
        await work
    except Exception as error:
        # Messages may quote what people wrote.
        _log.warning("what was left undone failed: %s", type(error).__name__)


def workers_of(workspace: Workspace) -> list[Worker]:
    """Return the agents that can serve, described by their goals."""
    from hive_agents.agents import known_agents, serving_agent
    from hive_agents.goals import load_goal

    workers = []
    for id in known_agents(workspace):
        with suppress(HiveError):
            agent, _ = serving_agent(workspace, id)
            about = agent.goal
            with suppress(HiveError):
                goal = load_goal(workspace, agent.goal)
                about = ". ".join(filter(None, (goal.name, goal.description)))
            inputs = agent.node(agent.entry).input_keys
            workers.append(Worker(agent.id, about, agent.capability, tuple(inputs)))
    return workers


def credentials_of(workspace: Workspace) -> tuple[list[Secret], bool]:
    """Return the workspace's credentials, and whether all could be read."""
    store, credentials = CredentialStore(workspace), []
    try:
        names = store.names()
    except HiveError:
        return [], False
    for name in names:
        with suppress(HiveError):
            credentials.append(store.get(name))
    return credentials, len(credentials) == len(names)
