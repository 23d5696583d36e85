"""A run of an agent and its row, its events and its lease: they say the same at any moment."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents.effects import Done, Effects
from hive_agents.agents.guards.budget import Budget, Limits
from hive_agents.agents.run import AgentRun
from hive_agents.base.errors import HiveError
from hive_agents.events import Event, EventBus, EventLog, EventType
from hive_agents.runs import Lease, Leases, RunStore, stop, taken
from hive_agents.runs.driver import Attempt, leases_of
from hive_agents.store import connected
from tests.host.hosting import prepared, queued, seams
from tests.records import held

GIVEN = {"what": "work", "seconds": 0.0}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return prepared(tmp_path / "ws")


async def test_whoever_hears_of_a_status_finds_it_in_the_row(place: Workspace) -> None:
    heard: list[tuple[str, str]] = []

    def look(event: Event) -> None:
        heard.append((str(event.type), RunStore(place).get(run).status))

    run = queued(place)
    async with EventBus(EventLog(place)) as bus:
        bus.subscribe(look, types={EventType.RUN_STARTED, EventType.RUN_COMPLETED})
        await AgentRun.resume(place, run, bus=bus, **seams(place.root)).work()
        await bus.drain()
    assert heard == [("run.started", "running"), ("run.completed", "done")]


async def test_an_end_that_is_recorded_is_cut_off_no_more(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that was asked to stop ends just before its time is up."""
    record, run = Attempt._record, queued(place, seconds=0.5)

    async def cut(attempt: Attempt, kind: EventType, at: str, status: str, *what: Any, **how: Any) -> bool:
        if status == "running":
            stop(place, run, "user:dana")
        else:
            attempt._cut()
        return await record(attempt, kind, at, status, *what, **how)

    monkeypatch.setattr(Attempt, "_record", cut)
    assert (await AgentRun.resume(place, run, **seams(place.root)).work())["status"] == "stopped"
    assert EventLog(place).replay(run_id=run)[-1].type is EventType.RUN_STOPPED


def test_a_key_brings_its_run_back_with_the_agent_that_it_was_started_with(place: Workspace) -> None:
    first = AgentRun.start(place, "toiler", GIVEN, key="k", hold=False, **seams(place.root))
    file = place.root / "agents" / "toiler.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"identity": "somebody else"}))
    again = AgentRun.start(place, "toiler", GIVEN, key="k", **seams(place.root))
    assert (again.run_id, again.agent.identity) == (first.run_id, first.agent.identity)
    assert leases_of(place).held() == frozenset()


def test_a_start_that_is_refused_leaves_the_thread_to_others(place: Workspace) -> None:
    AgentRun.start(place, "toiler", GIVEN, key="k", hold=False, **seams(place.root))
    with pytest.raises(HiveError, match="belongs to run"):
        AgentRun.start(place, "toiler", GIVEN | {"what": "else"}, key="k", thread_id="t", **seams(place.root))
    assert not leases_of(place).is_held("t")


async def test_a_lease_for_which_nobody_waits_any_more_is_let_go_of(place: Workspace) -> None:
    leases, begun, go_on = Leases(place), threading.Event(), threading.Event()
    assert leases.held() == frozenset()

    def slow() -> Lease | None:
        begun.set()
        go_on.wait()
        return leases.acquire("t", "r1")

    waiting = asyncio.create_task(taken(slow))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    await asyncio.wait([waiting])
    go_on.set()
    with connected(place.records) as connection:
        while not connection.execute("SELECT 1 FROM leases WHERE expires_at = 0").fetchall():
            await asyncio.sleep(0.01)


def test_a_run_that_is_stopped_while_it_waits_for_a_person_says_so(place: Workspace) -> None:
    run = AgentRun.start(place, "careful", GIVEN, **seams(place.root))
    (asked,) = run.go()["approval_ids"]
    stop(place, run.run_id, "user:dana")
    row = RunStore(place).get(run.run_id)
    ended = AgentRun.result_of(row)
    assert (ended["status"], ended["stopped_by"], ended["approval_ids"]) == ("stopped", "user:dana", [asked])


def test_a_run_that_is_broken_off_before_it_has_begun_is_stopped(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(run: AgentRun, **_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AgentRun, "work", interrupted)
    run = AgentRun.start(place, "toiler", GIVEN, **seams(place.root))
    ended = run.go()
    assert (ended["status"], ended["stopped_by"]) == ("stopped", "interrupted")
    monkeypatch.undo()
    assert run.go()["status"] == "done"


async def test_a_database_that_is_locked_for_a_while_holds_up_nothing_else(place: Workspace) -> None:
    run = queued(place)
    record = Effects(place, run, Budget(Limits()))

    async def nothing(_: bool) -> Done:
        return Done("done")

    with held(place):
        waiting = asyncio.create_task(record.once("a#1/1", "tool", "toil", nothing))
        await asyncio.sleep(0.2)  # never over where the loop waits for the lock
        assert not waiting.done()
    assert await waiting == "done"


def test_a_rule_that_can_not_be_read_stops_the_start_and_not_a_run(place: Workspace) -> None:
    (place.root / "rules").mkdir(exist_ok=True)
    rule = {"id": "broken", "condition": "result[", "action": "retry"}
    (place.root / "rules" / "broken.json").write_text(json.dumps(rule))
    with pytest.raises(HiveError, match=r"rules/broken\.json"):
        AgentRun.start(place, "toiler", GIVEN, hold=False, **seams(place.root))
    assert RunStore(place).list() == []
