"""What a guard would end passes by a person first; the ticket and the request tell the same, and close together."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.events import EscalationTicket, EventBus, EventLog, tickets_of
from hive_agents.host.health import HealthJudge
from hive_agents.host.queen import Queen
from tests.agents.conftest import node, place
from tests.agents.loops import Told, agent, said, sets, start

__all__ = ["place"]

SAME = [("read_page", {"page": 1})]


def reading(place: Workspace, model: Told, **changes: Any) -> AgentRun:
    registry = ToolRegistry()

    def read_page(page: int) -> str:
        """Read a page."""
        return f"page {page}"

    registry.register(read_page)
    return start(
        place, agent(node("read", output_keys=["text"], tools=["read_page"], **changes)), model, tools=registry
    )


def tickets(place: Workspace) -> list[EscalationTicket]:
    return list(tickets_of(EventLog(place).replay()).values())


def asked(place: Workspace) -> ApprovalRequest:
    (request,) = ApprovalStore(place).list("pending")
    return request


def waiting(place: Workspace, run: AgentRun) -> ApprovalRequest:
    """The request by which the run asks whether it may go on."""
    assert run.go()["status"] == "waiting"
    return asked(place)


def test_a_loop_asks_before_it_ends_and_its_ticket_tells_the_same(staffed: Workspace) -> None:
    run = reading(staffed, said(SAME, SAME, SAME))
    request = waiting(staffed, run)
    (ticket,) = tickets(staffed)
    assert (ticket.cause, ticket.status, ticket.approval_id) == ("doom_loop", "open", request.id)
    assert (request.kind, request.run_id, request.context["ticket_id"]) == ("ticket", run.run_id, ticket.id)
    assert request.context["evidence"] == ticket.evidence
    assert "round in circles" in ticket.evidence[0]


@pytest.mark.parametrize(("verb", "words"), [("approve", None), ("respond", "read page 2 instead")])
def test_let_go_on_it_begins_to_count_anew_and_both_are_closed(staffed: Workspace, verb: Any, words: Any) -> None:
    model = said(SAME, SAME, SAME, SAME, [sets("text", "done")])
    run = reading(staffed, model)
    ApprovalStore(staffed).decide(waiting(staffed, run).id, verb, by="dana", message=words)
    assert run.go()["outputs"] == {"text": "done"}
    (ticket,) = tickets(staffed)
    assert (ticket.status, "dana" in str(ticket.resolution)) == ("resolved", True)
    assert (words or "try another way") in model.prompts[3][-1].content


async def test_refused_it_fails_and_nobody_is_asked_about_what_was_decided(staffed: Workspace) -> None:
    run = reading(staffed, said(SAME, SAME, SAME))
    assert (await run.work())["status"] == "waiting"
    ApprovalStore(staffed).decide(asked(staffed).id, "reject", by="dana", reason="enough")
    ended = await run.work()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "rejected")
    assert "enough" in ended["error"]["message"]
    async with EventBus(EventLog(staffed)) as bus:
        await HealthJudge(staffed, bus).tick()
    assert [one.status for one in tickets(staffed)] == ["resolved"]
    assert ApprovalStore(staffed).list("pending") == []


def test_a_node_whose_iterations_run_out_may_be_given_as_many_again(staffed: Workspace) -> None:
    model = said("one", "two", "three", [sets("text", "done")])
    run = reading(staffed, model, max_iterations=2)
    request = waiting(staffed, run)
    assert request.context["cause"] == "excessive_retries"
    ApprovalStore(staffed).decide(request.id, "approve", by="dana")
    assert run.go()["status"] == "done"


async def test_the_queen_asks_nobody_else_about_what_the_run_asks_itself(staffed: Workspace) -> None:
    run = reading(staffed, said(SAME, SAME, SAME))
    await run.work()
    async with EventBus(EventLog(staffed)) as bus:
        queen = Queen(staffed, bus)
        await queen.catch_up()
    assert [one.requester for one in ApprovalStore(staffed).list("pending")] == ["agent:digest"]
    assert run.store.get(run.run_id).status == "waiting"


def test_where_nobody_can_be_asked_the_guard_ends_the_run_at_once(place: Workspace) -> None:
    ended = reading(place, said(SAME, SAME, SAME)).go()
    assert (ended["status"], ended["stopped_by"]) == ("failed", "doom_loop")
    assert ApprovalStore(place).list() == []
