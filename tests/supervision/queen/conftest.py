"""A colony of two tenants: an agent, its runs, tickets about them, and people with different roles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, owner
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.events import Event, EventLog, EventType
from hive_agents.events.tickets import EscalationTicket
from hive_agents.host.queen import Queen
from hive_agents.memory import ConversationStore
from hive_agents.runs import Lease, Leases, RunRow, RunStore
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.conftest import make_workspace

DANA = Principal("acme", "dana")
OTTO = Principal("acme", "otto", roles=frozenset({"reader", "operator"}))
ROOT = Principal("acme", "root", roles=frozenset({"reader", "operator", "admin"}))
PETE = Principal("globex", "pete")
GINA = Principal("globex", "gina", roles=frozenset({"reader", "operator"}))
OWNER = owner()
KINDS = {"open": EventType.ESCALATION_OPENED, "resolved": EventType.ESCALATION_RESOLVED}


WORKERS: list[Lease] = []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents={})
    write_json(workspace, "goals/digest.json", GOAL | {"description": "A weekly digest of the news about bees"})
    write_json(workspace, "agents/digest.json", agent_json())
    write_json(workspace, "agents/idle.json", agent_json(id="idle", capability="cannot_handle"))
    yield workspace
    while WORKERS:
        WORKERS.pop().release()


@pytest.fixture
def queen(place: Workspace) -> Queen:
    return Queen(place)


def run_of(place: Workspace, who: Principal | None = DANA, status: str = "running", agent: str = "digest") -> RunRow:
    """A run; somebody works on one that is running, and never gets to its end."""
    store = RunStore(place)
    row, _ = store.insert("event_loop", {"input": {}}, agent=agent, owner=who)
    if status != "queued":
        store.update(row.run_id, status)
    if status == "running" and (lease := Leases(place).acquire(row.thread_id, row.run_id)) is not None:
        WORKERS.append(lease)
    return store.get(row.run_id)


def ticket_for(row: RunRow, severity: Any = "high", **changes: Any) -> EscalationTicket:
    at = "2026-01-01T10:00:00+00:00"
    ticket = EscalationTicket(
        id=f"t-{row.run_id}",
        run_id=row.run_id,
        severity=severity,
        cause="doom_loop",
        evidence=["search_documents was called 7 times with the same arguments"],
        first_seen=at,
        last_seen=at,
        suggested_action="another query",
        tenant=row.tenant,
        agent=row.agent,
    )
    return ticket.model_copy(update=changes)


def told(place: Workspace, ticket: EscalationTicket) -> Event:
    """The ticket in the log, as the health judge tells it."""
    event = Event(KINDS[ticket.status], ticket.run_id, tenant=ticket.tenant, payload=ticket.model_dump(mode="json"))
    return EventLog(place).append([event])[0][0]


def status_of(place: Workspace, row: RunRow) -> str:
    found = RunStore(place).get(row.run_id)
    return f"{found.status}, to {found.control}" if found.control else found.status


def words_to(place: Workspace, row: RunRow) -> list[str]:
    store = ConversationStore(place, tenant=row.tenant)
    return [entry.message.content for one in store.of_run(row.run_id) for entry in store.messages(one)]


def requests(place: Workspace, status: Any = None) -> list[ApprovalRequest]:
    return ApprovalStore(place).list(status)


def decided(place: Workspace, request: ApprovalRequest, verb: Any, message: str | None = None) -> Event:
    """A person's answer in the store, and the event that tells of it."""
    ApprovalStore(place).decide(request.id, verb, by="dana", message=message)
    payload = {"approval_id": request.id, "status": ApprovalStore(place).get(request.id).status}
    event = Event(EventType.APPROVAL_DECIDED, tenant=request.tenant, payload=payload)
    return EventLog(place).append([event])[0][0]


def script(place: Workspace, *lines: dict[str, Any]) -> None:
    text = '[models]\nembedding = "none"\nqueen = ["scripted:queen.jsonl"]\n'
    (place.root / "hive.toml").write_text(text)
    (place.root / "queen.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    place.__dict__.pop("settings", None)
