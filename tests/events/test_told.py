"""What happens outside of agents' runs is told in the event log, too, in the order in which it happened."""

from __future__ import annotations

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.events import EventLog
from hive_agents.ranking import build_index


def told(place: Workspace) -> list[tuple[str, object]]:
    return [(str(event.type), dict(event.payload)) for event in EventLog(place).replay()]


def test_an_index_that_changed_nothing_tells_nothing(text_workspace: Workspace) -> None:
    build_index(text_workspace)
    (kind, counts), *others = told(text_workspace)
    assert kind == "index.completed"
    assert isinstance(counts, dict)
    assert counts["added"] == counts["documents"] > 0
    assert others == []
    build_index(text_workspace)
    assert len(told(text_workspace)) == 1


def test_a_request_is_told_when_it_is_filed_and_when_it_is_decided_once(text_workspace: Workspace) -> None:
    store = ApprovalStore(text_workspace)
    filing = Filing(kind="ticket", title="is it stuck?", requester="service:queen", idempotency_key="t1")
    request = store.file(filing)
    store.file(filing)
    store.decide(request.id, "reject", by="dana", reason="no")
    store.decide(request.id, "reject", by="dana", reason="no")
    (asked, first), (decided, last) = told(text_workspace)
    assert (asked, decided) == ("approval.requested", "approval.decided")
    assert isinstance(first, dict)
    assert isinstance(last, dict)
    assert first["approval_id"] == last["approval_id"] == request.id
    assert (last["status"], last["by"], last["decision"]) == ("rejected", "user:dana", "reject")


def test_a_request_of_an_agent_that_is_no_run_is_told_too(text_workspace: Workspace) -> None:
    """As those of the optimizer, and of the queen about a new version of an agent."""
    request = ApprovalStore(text_workspace).file(Filing(kind="deploy", title="v2?", requester="agent:optimizer"))
    ((asked, payload),) = told(text_workspace)
    assert asked == "approval.requested"
    assert isinstance(payload, dict)
    assert payload["approval_id"] == request.id
