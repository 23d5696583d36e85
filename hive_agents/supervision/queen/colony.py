"""The queen's view and actions, always in the scope of the asker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hive_agents import runs
from hive_agents.access import Standing, asked_by
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.base import HiveError, NotFound
from hive_agents.events import ESCALATIONS, SEVERITIES, EscalationTicket, Event, EventLog, EventType, tickets_of
from hive_agents.memory import DataBuffer
from hive_agents.runs import Scope
from hive_agents.supervision.queen.action_log import ActionEntry, ActionLog
from hive_agents.supervision.queen.workers import Worker
from hive_agents.workspace.credentials import CredentialStore

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.approvals import ApprovalRequest
    from hive_agents.memory import BufferScope
    from hive_agents.runs import RunRow
    from hive_agents.workspace import Workspace

QUEEN = "service:queen"
"""Her name in records of her own actions."""

FORWARDED = "approve lets the run go on, reject stops it, respond tells it your words"
MOST = 1000
"""The most runs that are read, newest first."""

Start = Callable[[str, dict[str, Any], "Principal | None"], Awaitable[str]]
"""(agent, inputs, whom it works for) -> the id of the queued run."""
Propose = Callable[[str, list[dict[str, Any]], str, str], Awaitable[str]]
"""(agent, JSON patch, for whom, reason) -> the file of the proposal."""


class Colony:
    """The colony as `principal` may see and change it; without one, as her own policy does.

    `runs.scope.Scope` says what that is. Requests are filed here, and never decided.

    `quote` redacts secrets in a text written by a run, before it is shortened, or replaces the text; `hide` redacts
    them in a text composed of such.

    Raises, in every method: HIVE-409 (exit code 2) for what doesn't exist in this scope, HIVE-415 for what needs
    another role; HIVE-402, HIVE-403 and HIVE-407 from the database.
    """

    def __init__(
        self,
        workspace: Workspace,
        principal: Principal | None,
        *,
        start: Start | None = None,
        propose: Propose | None = None,
        workers: Callable[[], Sequence[Worker]] = tuple,
        hide: Callable[[str], str] = str,
        quote: Callable[[str], str] | None = None,
    ) -> None:
        self.workspace, self.principal, self.scope = workspace, principal, Scope(principal)
        self.workers, self.hide, self.quote = workers, hide, quote or hide
        self._start, self._propose = start, propose
        self._store = runs.RunStore(workspace)
        self._standing = Standing.of(workspace, principal) if principal is not None else None

    def require_still(self) -> None:
        """Narrow the scope to the rights that its principal has now: a model may think for minutes.

        Raises: HIVE-417 where they were ended.
        """
        if self._standing is not None:
            self.principal = self._standing.now(self.workspace)
            self.scope = Scope(self.principal)

    @property
    def by(self) -> str:
        """The name that is stored with an action."""
        return QUEEN if self.principal is None else asked_by(self.principal.user)

    # What she sees

    def runs(self, status: str | Sequence[str] | None = None, limit: int = MOST) -> list[RunRow]:
        """Return the runs in scope, newest first."""
        return [self._clean(row) for row in self.scope.runs(self.workspace, status, limit=limit)]

    def run(self, run_id: str) -> RunRow:
        """Return a run; one outside the scope is unknown."""
        try:
            return self._clean(self.scope.run(self.workspace, run_id))
        except NotFound:  # its words may guess at a run of somebody else
            raise _unknown(f"there is no run {run_id} that you may see", "ask what is running") from None

    def log(self, run_id: str, limit: int = 20) -> list[Event]:
        """Return the last events of a run, oldest first."""
        found = EventLog(self.workspace).replay(run_id=self.run(run_id).run_id)[-limit:]
        return [replace(event, payload=self.shown(dict(event.payload))) for event in found]

    def tickets(self, *, resolved: bool = False) -> list[EscalationTicket]:
        """Return the open tickets, the most severe first; with `resolved` all."""
        found = self._told().values()
        mine = {row.run_id for row in self.runs()} if self.scope.user is not None else None
        kept = [one for one in found if (resolved or one.status == "open") and (mine is None or one.run_id in mine)]
        return sorted(map(self.clean, kept), key=lambda one: (-SEVERITIES.index(one.severity), one.first_seen))

    def ticket(self, ticket_id: str) -> EscalationTicket:
        for one in self.tickets(resolved=True):
            if one.id == ticket_id:
                return one
        raise _unknown(f"there is no ticket {ticket_id} that you may see", "ask for the tickets")

    def waiting(self, limit: int) -> tuple[list[ApprovalRequest], int]:
        """Return the newest pending requests and their number; a reader sees those of their own runs."""
        if not self.scope.approves:
            found = self._asked_by({row.run_id for row in self.runs()})
            return [*map(self._quoted, found[:limit])], len(found)
        store, tenant = ApprovalStore(self.workspace), self.scope.tenant
        tenants = None if tenant is None else {tenant}
        newest, _ = store.page(limit, status="pending", tenants=tenants)
        return [*map(self._quoted, newest)], store.count_pending(tenants)

    def waiting_for(self, run_id: str) -> list[ApprovalRequest]:
        """Return the pending requests by a run or about it."""
        return [*map(self._quoted, self._asked_by({self.run(run_id).run_id}))]

    def actions(self, limit: int = 10) -> list[ActionEntry]:
        """Return her own actions, newest first."""
        mine = {row.run_id for row in self.runs()} if self.scope.user is not None else None
        found = ActionLog(self.workspace).newest(tenant=self.scope.tenant)
        return [one for one in found if mine is None or one.run_id in mine][:limit]

    def credentials(self) -> list[str]:
        """Return references, such as `credential:mail`, for admins; a value is never read here."""
        self._require(self.scope.administers, "the names of credentials", "an admin")
        return [f"credential:{name}" for name in CredentialStore(self.workspace).names()]

    def value(self, run_id: str, key: str, scope: BufferScope = "execution") -> Any:
        """Return a value of the data buffer that a run of the asker's sees; None without one."""
        return self.shown(self._buffer(run_id, scope).read(key, scope))

    # What she does

    def pause(self, run_id: str) -> RunRow:
        return runs.pause(self.workspace, self.run(run_id).run_id, self.by)

    def resume(self, run_id: str) -> RunRow:
        return runs.resume(self.workspace, self.run(run_id).run_id, self.by)

    def stop(self, run_id: str) -> RunRow:
        return runs.stop(self.workspace, self.run(run_id).run_id, self.by)

    def steer(self, run_id: str, words: str, *, key: str | None = None) -> RunRow:
        """Append a message to the worker's conversation, read before its next turn; with a `key` once."""
        row = self.run(run_id)
        runs.say(self.workspace, row.run_id, words, key=key)
        return row

    async def start(self, agent: str, input: dict[str, Any]) -> RunRow:
        """Queue a run that works for the asker; operators and admins may."""
        self._require(self.scope.operates and self._start is not None, "to start an agent", "an operator")
        assert self._start is not None
        return await asyncio.to_thread(self.run, await self._start(agent, input, self.principal))

    def write(self, run_id: str, key: str, value: Any, scope: BufferScope = "execution") -> int:
        """Set a value of the data buffer; returns its version. More than one run's own takes an operator."""
        return self._buffer(run_id, scope).write(key, value, scope)

    def forward(self, ticket_id: str, question: str) -> ApprovalRequest:
        """Ask a person about a ticket, once for each question; whoever may decide requests answers."""
        ticket = self.ticket(ticket_id)
        asked = {"ticket_id": ticket.id, "run_id": ticket.run_id, "cause": ticket.cause, "question": question}
        filing = Filing(
            kind="ticket",
            title=f"{ticket.agent or 'a run'}: {question}",
            requester=QUEEN,
            tenant=ticket.tenant,
            context=asked | {"asked_by": self.by, "answers": FORWARDED},
            allowed_decisions=["approve", "reject", "respond"],
            idempotency_key=f"queen/{ticket.id}/{self.by}/{question}",
        )
        return ApprovalStore(self.workspace).file(filing)

    async def propose(self, agent: str, patch: list[dict[str, Any]], reason: str) -> str:
        """Propose a new version of an agent, as a JSON patch; return the file's name."""
        self._require(self.scope.operates and self._propose is not None, "to propose a version", "an operator")
        assert self._propose is not None
        return await self._propose(agent, patch, self.by, reason)

    def shown(self, value: Any) -> Any:
        """Return JSON data with its texts as they may be quoted."""
        if isinstance(value, dict):
            return {key: self.shown(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.shown(inner) for inner in value]
        return self.quote(value) if isinstance(value, str) else value

    def clean(self, ticket: EscalationTicket) -> EscalationTicket:
        """Return the ticket with redacted secrets."""
        quoted = ("evidence", "suggested_action", "assessment", "resolution")
        return ticket.model_copy(update={name: self.shown(getattr(ticket, name)) for name in quoted})

    def _told(self) -> dict[str, EscalationTicket]:
        """Return the tickets of the scope; ticks name the unchanged ones, of which only later ones count."""
        log, tenant = EventLog(self.workspace), self.scope.tenant
        events = log.replay(types=ESCALATIONS, tenant=tenant)
        last_told = {event.payload.get("id"): event.seq or 0 for event in events}
        still = [last_told[one.id] for one in tickets_of(events).values() if one.status == "open"]
        if still:
            events += log.replay(min(still), types=[EventType.HEALTH_TICKED], tenant=tenant)
        return tickets_of(sorted(events, key=lambda event: event.seq or 0))

    def _asked_by(self, run_ids: Collection[str]) -> list[ApprovalRequest]:
        """Return the pending requests of these runs, newest first; her own requests about a run belong to no run."""
        store, tenant = ApprovalStore(self.workspace), self.scope.tenant
        about = store.list("pending", tenant=tenant, kind="ticket", requester=QUEEN)
        found = {one.id: one for one in about if one.context.get("run_id") in run_ids}
        found |= {one.id: one for one in store.list("pending", tenant=tenant, run_ids=run_ids)}
        return sorted(found.values(), key=lambda one: one.created_at, reverse=True)

    def _quoted(self, request: ApprovalRequest) -> ApprovalRequest:
        return request.model_copy(update={"title": self.quote(request.title)})

    def _clean(self, row: RunRow) -> RunRow:
        error = row.summary["error"]
        return row if error is None else replace(row, summary=row.summary | {"error": self.shown(error)})

    def _buffer(self, run_id: str, scope: BufferScope) -> DataBuffer:
        row = self.run(run_id)
        self._require(scope == "execution" or self.scope.operates, f"values of the scope {scope}", "an operator")
        return DataBuffer(self.workspace, tenant=row.tenant, run_id=row.run_id, stream_id=row.thread_id)

    def _require(self, allowed: bool, what: str, who: str) -> None:
        if not allowed:
            raise HiveError.of("HIVE-415", f"{what}: not in your scope", fix=f"it takes {who}", exit_code=1)


def _unknown(message: str, fix: str) -> HiveError:
    return HiveError.of("HIVE-409", message, fix=fix, exit_code=2)
