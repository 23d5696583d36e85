"""The policy: what each severity makes her do, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.events import Event, EventBus, EventLog, EventType, tickets_of
from hive_agents.host.queen import Queen
from hive_agents.runs import RunStore, control
from hive_agents.supervision.queen import ActionLog
from hive_agents.supervision.queen.escalations import actions_for
from tests.supervision.queen.conftest import decided, requests, run_of, status_of, ticket_for, told, words_to


@pytest.mark.parametrize(
    ("severity", "status", "actions"),
    [
        ("low", "running", "note"),
        ("low", "failed", "note"),
        ("medium", "running", "steer"),
        ("medium", "paused", "steer"),
        ("medium", "failed", "note"),
        ("high", "running", "pause ask"),
        ("high", "waiting", "pause ask"),
        ("high", "stopped", "ask"),
        ("high", "failed", "ask"),
        ("critical", "running", "stop ask"),
        ("critical", "done", "ask"),
        ("critical", None, "note"),
    ],
)
def test_the_least_interference_that_a_severity_asks_for(severity: str, status: str | None, actions: str) -> None:
    assert list(actions_for(severity, status)) == actions.split()


@pytest.mark.parametrize(
    ("severity", "status", "asked", "words"),
    [("low", "queued", 0, 0), ("medium", "queued", 0, 1), ("high", "paused", 1, 0), ("critical", "stopped", 1, 0)],
)
async def test_each_severity_acts_once(
    place: Workspace, queen: Queen, severity: str, status: str, asked: int, words: int
) -> None:
    row = run_of(place, status="queued")
    event = told(place, ticket_for(row, severity))
    for _ in range(3):
        await queen.handle(event)
    await Queen(place).handle(event)
    assert (status_of(place, row), len(requests(place)), len(words_to(place, row))) == (status, asked, words)
    if words:
        assert "7 times" in words_to(place, row)[0]
        assert "another query" in words_to(place, row)[0]


async def test_two_queens_at_once_are_one(place: Workspace) -> None:
    row = run_of(place, status="queued")
    event = told(place, ticket_for(row))
    await asyncio.gather(*(Queen(place).handle(event) for _ in range(3)), Queen(place).settle())
    assert (status_of(place, row), len(requests(place))) == ("paused", 1)


async def test_a_run_that_is_worked_on_is_asked_to_rest(place: Workspace, queen: Queen) -> None:
    row = run_of(place)
    await queen.handle(told(place, ticket_for(row)))
    assert status_of(place, row) == "running, to pause"
    assert RunStore(place).get(row.run_id).control_by == "service:queen"


async def test_a_rising_severity_acts_again_and_a_falling_one_does_not(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued")
    for severity, status in (("medium", "queued"), ("high", "paused"), ("medium", "paused"), ("high", "paused")):
        await queen.handle(told(place, ticket_for(row, severity)))
        assert status_of(place, row) == status
    await queen.handle(told(place, ticket_for(row, "critical")))
    assert (status_of(place, row), len(words_to(place, row))) == ("stopped", 1)
    assert [one.status for one in requests(place)] == ["pending", "superseded"]


async def test_who_comes_late_acts_on_how_the_ticket_stands(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued")
    first = told(place, ticket_for(row, "critical"))
    told(place, ticket_for(row, "critical", status="resolved"))
    await queen.handle(first)
    assert (status_of(place, row), requests(place)) == ("queued", [])


async def test_a_paused_run_stays_paused_when_its_ticket_is_resolved(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    await queen.handle(told(place, ticket_for(row, status="resolved")))
    assert (status_of(place, row), [one.status for one in requests(place)]) == ("paused", ["pending"])


async def test_a_person_is_asked_about_a_run_that_has_ended(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="failed")
    await queen.handle(told(place, ticket_for(row, "critical", cause="crash")))
    (request,) = requests(place)
    assert (request.tenant, request.risk, request.context["state"]) == ("acme", "high", "over")
    await queen.handle(decided(place, request, "approve"))
    assert status_of(place, row) == "failed"


class Killed(BaseException):
    """What no handler in between takes for a failure."""


STEPS = [
    ("medium", control.ConversationStore, "append", 1),
    *(("medium", ActionLog, name, nth) for name, nth in (("begin", 1), ("note", 1), ("note", 2))),
    ("high", control.RunStore, "move", 1),
    ("high", ApprovalStore, "file", 1),
    *(("high", ActionLog, name, nth) for name, nth in (("begin", 1), ("note", 1), ("note", 2), ("note", 4))),
]


def dies(monkeypatch: Any, owner: Any, name: str, nth: int, after: bool) -> None:
    """Let the nth call of a method kill whoever makes it, before or after it did its work."""
    real, calls = getattr(owner, name), 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            raise Killed
        result = real(*arguments, **named)
        if calls == nth:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, dying)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("severity", "owner", "name", "nth"), STEPS, ids=lambda one: getattr(one, "__name__", one))
async def test_killed_anywhere_she_neither_repeats_nor_loses(
    place: Workspace, monkeypatch: Any, severity: str, owner: Any, name: str, nth: int, after: bool
) -> None:
    row = run_of(place, status="queued")
    event = told(place, ticket_for(row, severity))
    dies(monkeypatch, owner, name, nth, after)
    with pytest.raises(Killed):
        await Queen(place).handle(event)
    monkeypatch.undo()
    await Queen(place).settle()
    await Queen(place).handle(event)
    expected = ("queued", 0, 1) if severity == "medium" else ("paused", 1, 0)
    assert (status_of(place, row), len(requests(place)), len(words_to(place, row))) == expected
    assert [entry.status for entry in ActionLog(place).newest()] == ["done"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (ActionLog, "begin"),
        (control.ConversationStore, "append"),
        (RunStore, "move"),
        (ActionLog, "note"),
        (ApprovalStore, "record_outcome"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
async def test_killed_over_an_answer_she_carries_it_out_once(
    place: Workspace, queen: Queen, monkeypatch: Any, owner: Any, name: str, after: bool
) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    event = decided(place, requests(place)[0], "respond", "use the archive")
    dies(monkeypatch, owner, name, 1, after)
    with pytest.raises(Killed):
        await Queen(place).handle(event)
    monkeypatch.undo()
    await Queen(place).settle()
    await Queen(place).handle(event)
    assert (status_of(place, row), words_to(place, row)) == ("queued", ["use the archive"])
    assert requests(place)[0].outcome is not None


async def test_a_restarted_queen_catches_up_from_the_log(place: Workspace) -> None:
    await Queen(place).catch_up()
    row = run_of(place, status="queued")
    told(place, ticket_for(row))
    await Queen(place).catch_up()
    assert status_of(place, row) == "paused"
    decided(place, requests(place)[0], "approve")
    await Queen(place).catch_up()
    await Queen(place).catch_up()
    assert (status_of(place, row), len(requests(place))) == ("queued", 1)


@pytest.mark.parametrize(
    ("severity", "verb", "status", "words"),
    [
        ("high", "approve", "queued", []),
        ("high", "reject", "stopped", []),
        ("high", "respond", "queued", ["use the archive"]),
        ("critical", "approve", "queued", []),
        ("critical", "reject", "stopped", []),
    ],
)
async def test_what_a_person_answers_is_carried_out_once(
    place: Workspace, queen: Queen, severity: str, verb: str, status: str, words: list[str]
) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row, severity)))
    event = decided(place, requests(place)[0], verb, "use the archive" if verb == "respond" else None)
    await queen.handle(event)
    assert (status_of(place, row), words_to(place, row)) == (status, words)
    (request,) = requests(place)
    assert request.outcome is not None
    RunStore(place).update(row.run_id, "running")
    await queen.handle(event)
    await Queen(place).settle()
    assert (status_of(place, row), words_to(place, row)) == ("running", words)


async def test_an_answer_that_nobody_told_of_is_found(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    ApprovalStore(place).decide(requests(place)[0].id, "approve", by="dana")
    await queen.settle()
    assert status_of(place, row) == "queued"


async def test_an_answer_waits_for_a_run_on_its_way_to_rest(place: Workspace, queen: Queen) -> None:
    row = run_of(place)
    await queen.handle(told(place, ticket_for(row)))
    await queen.handle(decided(place, requests(place)[0], "approve"))
    assert status_of(place, row) == "running, to pause"
    RunStore(place).update(row.run_id, "paused")
    await queen.handle(Event(EventType.RUN_PAUSED, row.run_id))
    assert status_of(place, row) == "queued"


async def test_an_event_that_claims_a_decision_is_none(place: Workspace, queen: Queen) -> None:
    """What counts is the request in the store, whatever an event says of it."""
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    for id in (requests(place)[0].id, "a-1", "None"):
        claim = {"approval_id": id, "status": "approved"}
        await queen.handle(Event(EventType.APPROVAL_DECIDED, row.run_id, payload=claim))
    assert (status_of(place, row), requests(place)[0].status) == ("paused", "pending")


async def test_at_work_she_takes_events_as_they_come_and_what_was_left(place: Workspace, monkeypatch: Any) -> None:
    """A ticket from before her first start, a faulty event, one that fails at first, and one that comes by the bus."""
    before, during = run_of(place, status="queued"), run_of(place, status="queued")
    told(place, ticket_for(before))
    faults = [HiveError.of("HIVE-402", "locked")]
    real = RunStore.move

    def move(*arguments: Any, **named: Any) -> Any:
        if faults and arguments[1] == during.run_id:
            raise faults.pop()
        return real(*arguments, **named)

    monkeypatch.setattr(RunStore, "move", move)
    async with asyncio.timeout(60), EventBus(EventLog(place)) as bus:
        work = asyncio.create_task(Queen(place, bus).run(poll=0.02))
        while status_of(place, before) != "paused":
            await asyncio.sleep(0.01)
        await bus.publish(Event(EventType.ESCALATION_OPENED, "r1", payload={"severity": "critical"}))
        ticket = ticket_for(during).model_dump(mode="json")
        await bus.publish(Event(EventType.ESCALATION_OPENED, during.run_id, tenant="acme", payload=ticket))
        while status_of(place, during) != "paused" or len(requests(place)) < 2:
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert faults == []


async def test_an_answer_closes_the_ticket_that_it_was_about(place: Workspace, queen: Queen) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    await queen.handle(decided(place, requests(place)[0], "approve"))
    (ticket,) = tickets_of(EventLog(place).replay()).values()
    assert (ticket.status, status_of(place, row)) == ("resolved", "queued")
    assert "dana" in str(ticket.resolution)


async def test_a_ticket_that_is_over_takes_its_request_with_it_once_the_run_goes_on(
    place: Workspace, queen: Queen
) -> None:
    row = run_of(place, status="queued")
    await queen.handle(told(place, ticket_for(row)))
    RunStore(place).move(row.run_id, "paused", "user:dana", to="queued")
    await queen.handle(told(place, ticket_for(row, status="resolved", resolution="healthy again")))
    assert [one.status for one in requests(place)] == ["superseded"]
