"""Tickets from findings: opened, updated, resolved, and each published once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from hive_agents.base.files import Format
from hive_agents.events import (
    EscalationTicket,
    Event,
    EventLog,
    EventType,
    Publish,
    TicketSeverity,
    derived_id,
    tickets,
    tickets_of,
)
from hive_agents.supervision.health.detectors import Finding
from hive_agents.supervision.health.summary import WorkerHealth

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace


TOLD_AGAIN = 10
"""After how many ticks an unchanged ticket is published again."""

_TYPES = {
    "opened": EventType.ESCALATION_OPENED,
    "updated": EventType.ESCALATION_UPDATED,
    "resolved": EventType.ESCALATION_RESOLVED,
}


class TicketChange(Format):
    """The change of a ticket in a tick; `seen` is published with the tick's own event only."""

    kind: Literal["opened", "updated", "seen", "resolved"]
    ticket: EscalationTicket
    thread_id: str | None = None

    def assessed(self, severity: TicketSeverity, assessment: str | None) -> TicketChange:
        """Return the change with a model's assessment, which may only raise the severity."""
        if self.kind == "resolved":
            return self
        risen = tickets.worst(self.ticket.severity, severity)
        if self.kind == "seen" and risen == self.ticket.severity:
            return self
        changes = {"severity": risen, "assessment": assessment or self.ticket.assessment}
        kind = "updated" if self.kind == "seen" else self.kind
        return self.model_copy(update={"kind": kind, "ticket": self.ticket.model_copy(update=changes)})


class TicketBook:
    """The tickets of a workspace, read from its event log, so that all judges have the same."""

    def __init__(self, workspace: Workspace) -> None:
        self._log = EventLog(workspace)
        self._seq = 0
        self.tickets: dict[str, EscalationTicket] = {}
        self.last_tick: dt.datetime | None = None

    def catch_up(self) -> None:
        """Read the events since the last call. Raises: HIVE-402, HIVE-403, HIVE-407."""
        events = self._log.replay(self._seq, types=tickets.TICKET_EVENTS)
        if not events:
            return
        self.tickets = tickets_of(events, self.tickets)
        self._seq = events[-1].seq or self._seq
        ticks = [event.time for event in events if event.type == EventType.HEALTH_TICKED]
        if ticks:
            self.last_tick = dt.datetime.fromisoformat(ticks[-1])

    def of(self, tenant: str) -> list[EscalationTicket]:
        return [ticket for ticket in self.tickets.values() if ticket.tenant == tenant]

    def open(self) -> list[EscalationTicket]:
        return [ticket for ticket in self.tickets.values() if ticket.status == "open"]


def reconcile(
    known: Sequence[EscalationTicket],
    runs: Sequence[WorkerHealth],
    findings: Mapping[str, Sequence[Finding]],
    now: dt.datetime,
) -> list[TicketChange]:
    """Return the changes of the `known` tickets, open and resolved, of one tenant.

    `findings` are by run; `runs` are the existing ones of those with open tickets, and a ticket whose run isn't among
    them is resolved: the run was deleted. While a run is queued, waits or is paused its tickets don't change without a
    new finding.
    """
    at = stamp(now)
    changes: list[TicketChange] = []
    by_run: dict[str, list[EscalationTicket]] = {run.run_id: [] for run in runs}
    orphans: list[EscalationTicket] = []
    for ticket in known:
        by_run.get(ticket.run_id, orphans).append(ticket)
    for run in runs:
        own = by_run[run.run_id]
        found = {finding.cause: finding for finding in findings.get(run.run_id, [])}
        changes += [
            change
            for finding in found.values()
            if (change := _found(finding, run, [one for one in own if one.cause == finding.cause], at)) is not None
        ]
        reason = _why_over(run)
        if reason is not None:
            gone = [ticket for ticket in own if ticket.status == "open" and ticket.cause not in found]
            changes += [_resolved(ticket, reason, at, run.thread_id) for ticket in gone]
    deleted = [ticket for ticket in orphans if ticket.status == "open"]
    return [*changes, *(_resolved(ticket, "the run was deleted", at) for ticket in deleted)]


async def emit_escalation_ticket(publish: Publish, change: TicketChange) -> None:
    """Publish a ticket on the bus; the log stores each event once."""
    ticket = change.ticket
    at = ticket.ticks if change.kind == "updated" else ""
    await publish(ticket.told(_TYPES[change.kind], change.thread_id, at))


async def emit_tick(
    publish: Publish, tenant: str, runs: int, changes: Sequence[TicketChange], now: dt.datetime
) -> None:
    """Publish the judge's tick. It names the tickets seen, which saves an event for each."""
    seen = {change.ticket.id: change.ticket.ticks for change in changes if change.kind in ("updated", "seen")}
    counts = {kind: sum(change.kind == kind for change in changes) for kind in ("opened", "resolved")}
    findings = sum(change.kind != "resolved" for change in changes)
    payload = {"runs": runs, "findings": findings, **counts, "tickets": seen}
    id = derived_id("health", tenant, stamp(now))
    await publish(Event(EventType.HEALTH_TICKED, tenant=tenant, payload=payload, id=id, time=stamp(now)))


def stamp(now: dt.datetime) -> str:
    return now.astimezone(dt.UTC).isoformat(timespec="milliseconds")


def _found(finding: Finding, run: WorkerHealth, before: Sequence[EscalationTicket], at: str) -> TicketChange | None:
    ticket = next((one for one in before if one.status == "open"), None)
    if ticket is None:
        # A resolved ticket of a run's end isn't opened again.
        told = run.ended_at is not None and any(_between(run.ended_at, one.last_seen) >= 0 for one in before)
        return None if told else _opened(finding, run, len(before) + 1, at)
    severity, runs = tickets.worst(ticket.severity, finding.severity), run.status == "running"
    if runs and finding.lasting is not None and _between(ticket.first_seen, at) >= finding.lasting:
        severity = "critical"
    now = {"severity": severity, "evidence": finding.evidence, "suggested_action": finding.suggested_action}
    changed = any(getattr(ticket, name) != value for name, value in now.items())
    if not runs and not changed:
        return None
    lived = ticket.model_copy(
        update={**now, "node_id": finding.node or run.node, "last_seen": at, "ticks": ticket.ticks + 1}
    )
    told_again = changed or lived.ticks % TOLD_AGAIN == 0
    return TicketChange(kind="updated" if told_again else "seen", ticket=lived, thread_id=run.thread_id)


def _opened(finding: Finding, run: WorkerHealth, n: int, at: str) -> TicketChange:
    ticket = EscalationTicket(
        id=tickets.ticket_id(run.run_id, finding.cause, n),
        run_id=run.run_id,
        node_id=finding.node or run.node,
        severity=finding.severity,
        cause=finding.cause,
        evidence=finding.evidence,
        first_seen=at,
        last_seen=at,
        suggested_action=finding.suggested_action,
        tenant=run.tenant,
        agent=run.agent,
    )
    return TicketChange(kind="opened", ticket=ticket, thread_id=run.thread_id)


def _resolved(ticket: EscalationTicket, reason: str, at: str, thread_id: str | None = None) -> TicketChange:
    return TicketChange(kind="resolved", ticket=ticket.over(reason, at), thread_id=thread_id)


def _why_over(run: WorkerHealth) -> str | None:
    """Return why a ticket without a finding is resolved; None while the run rests."""
    if run.status == "running":
        return "healthy again"
    if run.active or (run.status == "stopped" and (run.stopped_by or "").startswith("service:")):
        return None  # what a service of ours stopped waits for a person's word, which closes the ticket
    reason = f": {run.error.message}" if run.error is not None else f" by {run.stopped_by}" if run.stopped_by else ""
    return {"done": "the run is done", "failed": f"the run failed{reason}"}.get(
        run.status, f"the run was stopped{reason}"
    )


def _between(first: str, then: str) -> float:
    return (dt.datetime.fromisoformat(then) - dt.datetime.fromisoformat(first)).total_seconds()
