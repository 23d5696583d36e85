"""An hour with twenty runs, of which eight are unwell, as they leave their rows and events."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents.events import EventBus, EventLog
from hive_agents.host.health import HealthJudge
from tests.conftest import make_workspace
from tests.supervision.health.colony import TICK, Colony

UNWELL = {
    ("loop1", "doom_loop"): "critical",
    ("loop2", "doom_loop"): "critical",
    ("loop3", "doom_loop"): "critical",
    ("stall1", "stall"): "high",
    ("stall2", "stall"): "high",
    ("burn1", "budget_burn"): "high",
    ("burn2", "budget_burn"): "critical",
    ("crash", "crash"): "high",
}


def begin(colony: Colony) -> None:
    for n in range(1, 4):
        colony.run(f"loop{n}")
    for n in range(1, 3):
        colony.run(f"stall{n}")
        colony.run(f"burn{n}")
    colony.run("crash")
    colony.lease("crash")
    for n in range(12):
        colony.run(f"well{n}")


def minutes(colony: Colony, tick: int) -> None:
    """What happens between two ticks."""
    for n in range(1, 4):  # one, two and three calls in turn, for ever
        for turn in range(tick * 6, tick * 6 + 6):
            colony.call(f"loop{n}", f"page={turn % n}", turn)
    for n in range(1, 3):
        colony.judged(f"stall{n}", "retry" if tick < 3 else "continue", tick)
        colony.call(f"burn{n}", f"page={tick}", tick)
        if n == 1 or tick < 20:
            colony.row(f"burn{n}", steps=min(196, 100 + tick * 5))
    if tick == 20:
        colony.end("burn2", "failed", "steps", "HIVE-423")
    for n in range(12):
        healthy(colony, f"well{n}", n, tick)


def healthy(colony: Colony, run_id: str, n: int, tick: int) -> None:
    if n == 0:  # waits for a person all the time
        colony.row(run_id, status="waiting")
    elif n == 1:  # "page 11 … 12 … 13"
        colony.call(run_id, f"page={tick + 11}", tick)
    elif n == 2:  # is sent back now and then
        colony.call(run_id, f"draft={tick}", tick)
        colony.judged(run_id, "retry" if tick % 2 else "accept", tick)
    elif n == 3:  # a tool fails now and then, in the same way
        for call in range(6):
            told = {"error": "timeout"} if call == 0 else {}
            colony.call(run_id, f"{tick}/{call}", tick, n=call, **told)
    elif n == 4:  # asks twice in a row
        for turn in range(2):
            colony.call(run_id, f"page={tick}", tick * 2 + turn)
    elif n == 5 and tick == 5:
        colony.end(run_id, "done")
    elif n == 6 and tick == 5:
        colony.end(run_id, "stopped", "user:dana")
    elif n == 7 and tick == 5:
        colony.end(run_id, "failed", "rejected", "HIVE-422")
    elif n == 8:  # paused by a person
        colony.row(run_id, status="paused")
    elif n == 9:  # a slow tool: something new every 14 minutes
        if tick % 7 == 0:
            colony.tell(run_id, "output.set", key=f"part{tick}")
    elif n == 10:  # one phase after the other, each with the same first call
        for turn in range(2):
            colony.call(run_id, "list", turn, tool="list_data_files")
        colony.tell(run_id, "node.completed")
    elif n == 11:
        colony.call(run_id, f"page={tick}", tick)


async def hour(colony: Colony, *, ticks: int = 30, restarts: tuple[int, ...] = ()) -> None:
    begin(colony)
    async with EventBus(EventLog(colony.workspace)) as bus:
        judge = HealthJudge(colony.workspace, bus)
        for tick in range(ticks):
            colony.now += TICK
            minutes(colony, tick)
            colony.flush()
            await judge.tick(colony.now)
            if tick in restarts:
                judge = HealthJudge(colony.workspace, bus)


async def test_exactly_the_unwell_runs_get_a_ticket_each(colony: Colony) -> None:
    await hour(colony)
    tickets = colony.tickets()
    assert {(one.run_id, one.cause): one.severity for one in tickets} == UNWELL
    assert len(tickets) == len(UNWELL)
    assert all(one.status == "open" and one.evidence and one.node_id == "collect" for one in tickets)
    evidence = {one.run_id: one.evidence[0] for one in tickets}
    assert "same turn of tool calls" in evidence["loop1"]
    assert "same 3 turns" in evidence["loop3"]
    assert "60 min or more" in evidence["stall1"]
    assert evidence["burn1"] == "95 % or more of 200 steps are spent"
    assert evidence["burn2"].startswith("the run failed: HIVE-423")
    assert "nobody has taken it up" in evidence["crash"]
    ticks = {one.run_id: one.ticks for one in tickets}
    assert ticks["loop1"] == 30
    assert ticks["crash"] == 30
    told = colony.told()
    assert (told.count("escalation.opened"), told.count("escalation.resolved")) == (8, 0)
    assert len(told) < 8 * 10, "evidence in steps keeps the number of events small"
    assert len(colony.told("health")) == 30


@pytest.mark.sqlite_file  # two workspaces, in one schema
async def test_a_restarted_judge_tells_the_same(colony: Colony, tmp_path: Path) -> None:
    other = Colony(make_workspace(tmp_path / "other", embedding=False))
    await hour(colony, ticks=14)
    await hour(other, ticks=14, restarts=(0, 3, 4, 11))
    assert other.tickets() == colony.tickets() != []
    assert other.told() == colony.told()
