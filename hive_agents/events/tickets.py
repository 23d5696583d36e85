"""Escalation tickets: problems of runs that the health judge found, stored as events only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, ValidationError

from hive_agents.base.files import AnyCase, Format
from hive_agents.events.types import Event, EventType, derived_id

TicketSeverity = Literal["low", "medium", "high", "critical"]
TicketCause = Literal["doom_loop", "stall", "excessive_retries", "repeated_errors", "budget_burn", "crash"]

SEVERITIES: tuple[TicketSeverity, ...] = get_args(TicketSeverity)
CAUSES: tuple[TicketCause, ...] = get_args(TicketCause)
ESCALATIONS = (EventType.ESCALATION_OPENED, EventType.ESCALATION_UPDATED, EventType.ESCALATION_RESOLVED)
"""The events whose payload is a ticket."""

TICKET_EVENTS = (*ESCALATIONS, EventType.HEALTH_TICKED)
"""The events that `tickets_of` reads; a ticket that only persists is updated by the event of the tick."""


class EscalationTicket(Format):
    """A problem of a run. There is at most one open ticket for each run and cause.

    `evidence` has one observation for people in each line; times are ISO 8601 in UTC; `ticks` counts the ticks that saw
    the problem. `assessment` is a model's view, `resolution` the reason why it was closed. `approval_id` is the run's
    own request to a person about the problem; its answer closes both.

    >>> ticket = EscalationTicket(id="t1", run_id="r1", severity="high", cause="stall", evidence=["nothing new"],
    ...                           first_seen="2026-03-01T08:00:00+00:00", last_seen="2026-03-01T08:30:00+00:00",
    ...                           suggested_action="ask the agent what it waits for")
    >>> ticket.status, ticket.ticks
    ('open', 1)
    """

    id: str
    run_id: str
    node_id: str | None = None
    severity: Annotated[TicketSeverity, AnyCase]
    cause: Annotated[TicketCause, AnyCase]
    evidence: list[str]
    first_seen: str
    last_seen: str
    ticks: Annotated[int, Field(ge=1)] = 1
    suggested_action: str
    tenant: str = "local"
    agent: str | None = None
    status: Literal["open", "resolved"] = "open"
    assessment: str | None = None
    resolution: str | None = None
    approval_id: str | None = None

    def told(self, kind: EventType, thread_id: str | None, at: str | int = "") -> Event:
        """Return the event of `kind` with the ticket; `at` distinguishes updates."""
        return Event(
            kind,
            self.run_id,
            thread_id,
            self.node_id,
            thread_id,
            self.tenant,
            self.model_dump(mode="json"),
            id=derived_id("health", self.id, kind.removeprefix("escalation."), at),
            time=self.last_seen,
        )

    def over(self, why: str, at: str) -> Self:
        """Return the ticket as resolved at `at` because of `why`."""
        return self.model_copy(update={"status": "resolved", "resolution": why, "last_seen": at})


def ticket_id(run_id: str, cause: TicketCause, n: int) -> str:
    """Return the id of the `n`th ticket, from 1, of a run and cause."""
    return derived_id("health", run_id, cause, n)


def worst(*severities: TicketSeverity) -> TicketSeverity:
    """
    >>> worst("medium", "critical", "low")
    'critical'
    """
    return max(severities, key=SEVERITIES.index)


def tickets_of(
    events: Iterable[Event], known: dict[str, EscalationTicket] | None = None
) -> dict[str, EscalationTicket]:
    """Return the tickets by id, open and resolved, after these events; `known` are those after earlier events.

    Events are expected oldest first; types that aren't in `TICKET_EVENTS` and invalid tickets are skipped.

    >>> ticket = EscalationTicket(id="t1", run_id="r1", severity="high", cause="stall", evidence=[], first_seen="a",
    ...                           last_seen="a", suggested_action="")
    >>> opened = Event(EventType.ESCALATION_OPENED, "r1", payload=ticket.model_dump())
    >>> ticked = Event(EventType.HEALTH_TICKED, payload={"tickets": {"t1": 2}}, time="b")
    >>> found = tickets_of([opened, ticked])["t1"]
    >>> found.ticks, found.last_seen
    (2, 'b')
    """
    tickets = dict(known or {})
    for event in events:
        if event.type == EventType.HEALTH_TICKED:
            for id, ticks in event.payload.get("tickets", {}).items():
                if id in tickets:
                    tickets[id] = tickets[id].model_copy(update={"ticks": ticks, "last_seen": event.time})
        elif event.type in ESCALATIONS:
            try:
                ticket = EscalationTicket.model_validate(dict(event.payload))
            except ValidationError:
                continue
            tickets[ticket.id] = ticket
    return tickets
