"""Before a guard ends a node a person is asked: by an escalation ticket and a request, which close together."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hive_agents.agents.node_requests import Pending, words_of
from hive_agents.agents.spending import somebody
from hive_agents.approvals import Filing
from hive_agents.events import ESCALATIONS, EscalationTicket, EventLog, EventType, tickets, tickets_of

if TYPE_CHECKING:
    from hive_agents.agents.node_work import NodeWork
    from hive_agents.approvals import ApprovalRequest

_CAUSES: dict[str, tickets.TicketCause] = {
    "doom_loop": "doom_loop",
    "stalled": "stall",
    "max_iterations": "excessive_retries",
}
ACTION = "approve lets it go on, respond tells it your words and lets it go on, reject ends it"


async def reprieved(work: NodeWork, key: str, fault: Mapping[str, str]) -> tuple[bool, str] | None:
    """Return whether the node may go on, and the message about it; None where no person can be asked.

    Opens the ticket that the health judge would open, or takes over its open one, and puts the request's id into it, so
    that the queen knows who decides it. Raises: Pending while a person is asked.
    """
    session = work.session
    if work.delegated or not await asyncio.to_thread(somebody, session):
        return None
    noted = await session.effects.note(f"{key}/ticket", await asyncio.to_thread(_ticket, work, fault))
    ticket = EscalationTicket.model_validate(session.effects.find(noted))
    request = await session.ask(_filing(work, key, ticket))
    ticket = ticket.model_copy(update={"approval_id": request.id})
    # A ticket that the judge had opened is published again, with the request's id.
    kind, at = (EventType.ESCALATION_OPENED, "") if ticket.ticks == 1 else (EventType.ESCALATION_UPDATED, request.id)
    await session.publish([ticket.told(kind, session.thread_id, at)])
    if not request.decided:
        raise Pending([request.id])
    goes_on = request.status in ("approved", "responded")
    over = ticket.over(f"{_who(request)} {request.status} the request", _now())
    await session.publish([over.told(EventType.ESCALATION_RESOLVED, session.thread_id)])
    if not goes_on:
        return False, f"{fault['message']}; {words_of(request)}"
    words = words_of(request) if request.status == "responded" else "You may go on; try another way"
    return True, f"{fault['message']}. {words}"


def _ticket(work: NodeWork, fault: Mapping[str, str]) -> dict[str, Any]:
    """Return the open ticket of the run and cause, with one more tick, or a new one."""
    session, cause = work.session, _CAUSES[fault["reason"]]
    events = EventLog(session.workspace).replay(types=ESCALATIONS, run_id=session.run_id)
    earlier = [ticket for ticket in tickets_of(events).values() if ticket.cause == cause]
    now = _now()
    open_ticket = next((ticket for ticket in earlier if ticket.status == "open"), None)
    if open_ticket is not None:
        seen_again = {"last_seen": now, "ticks": open_ticket.ticks + 1}
        return open_ticket.model_copy(update=seen_again).model_dump(mode="json")
    return EscalationTicket(
        id=tickets.ticket_id(session.run_id, cause, len(earlier) + 1),
        run_id=session.run_id,
        node_id=work.node.id,
        severity="high",
        cause=cause,
        evidence=[fault["message"]],
        first_seen=now,
        last_seen=now,
        suggested_action=ACTION,
        tenant=session.tenant,
        agent=work.agent.id,
    ).model_dump(mode="json")


def _filing(work: NodeWork, key: str, ticket: EscalationTicket) -> Filing:
    names = ("agent", "node_id", "severity", "cause", "evidence", "suggested_action", "first_seen")
    fields = ticket.model_dump(mode="json")
    return Filing(
        kind="ticket",
        title=f"{ticket.agent}: {ticket.cause.replace('_', ' ')}, {ticket.severity}; may run {ticket.run_id} go on?",
        requester=f"agent:{work.agent.id}",
        **work.session.asking,
        context={name: fields[name] for name in names}
        | {"ticket_id": ticket.id, "run_id": ticket.run_id, "state": "waiting", "answers": ACTION},
        allowed_decisions=["approve", "reject", "respond"],
        idempotency_key=f"run:{work.session.run_id}:{key}/reprieve",
    )


def _who(request: ApprovalRequest) -> str:
    return request.decisions[-1].by if request.decisions else "nobody"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
