"""Agents that really run: what their log says is what the judge reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.guards.budget import Limits
from hive_agents.events import EventBus, EventLog, tickets_of
from hive_agents.host.health import HealthJudge
from hive_agents.supervision.health.summary import get_worker_health_summary
from tests.agents.conftest import node, place
from tests.agents.loops import agent, said, sets, start

__all__ = ["place"]


async def judged(place: Workspace) -> list[tuple[str, str, str]]:
    async with EventBus(EventLog(place)) as bus:
        for _ in range(2):
            await HealthJudge(place, bus).tick()
    found = tickets_of(EventLog(place).replay()).values()
    return [(one.cause, one.severity, one.status) for one in found]


def pages() -> ToolRegistry:
    registry = ToolRegistry()

    def read_page(page: int) -> str:
        """Read a page."""
        return f"page {page}"

    registry.register(read_page)
    return registry


@pytest.mark.parametrize(
    ("answers", "limits", "expected"),
    [
        ([[("read_page", {"page": 1})]] * 5, Limits(), [("doom_loop", "critical", "open")]),
        ([[("read_page", {"page": n})] for n in range(9)], Limits(steps=4), [("budget_burn", "critical", "open")]),
        ([[("read_page", {"page": n})] for n in range(9)] + [[sets("text", "done")]], Limits(steps=100), []),
    ],
)
async def test_how_a_run_ended_is_what_its_ticket_is_about(
    place: Workspace, answers: list[Any], limits: Limits, expected: list[tuple[str, str, str]]
) -> None:
    spec = agent(node("read", output_keys=["text"], tools=["read_page"]))
    run = start(place, spec, said(*answers), tools=pages(), limits=limits)
    await run.work()
    assert await judged(place) == expected


async def test_a_defect_breaks_a_run_off_and_is_a_crash(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(place, agent(node("read", output_keys=["text"])), said([sets("text", "done")]))

    def broken(*_: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr("graphs.event_loop.compiled", broken)
    with pytest.raises(RuntimeError):
        await run.work()
    assert await judged(place) == [("crash", "critical", "open")]


async def test_a_run_that_reads_the_same_page_is_seen_while_it_runs(place: Workspace) -> None:
    """The agent's own guard looks at a turn's calls when they have all come back; the judge sees them before."""
    spec = agent(node("read", output_keys=["text"], tools=["read_page"]))
    seen: list[Any] = []

    def look() -> None:
        seen.extend(get_worker_health_summary(place))

    class Slow:
        name = "slow:model"

        def __init__(self) -> None:
            self.inner = said(*[[("read_page", {"page": n})] for n in (1, 2, 2)], [sets("text", "done")])

        async def complete(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.to_thread(look)
            return await self.inner.complete(*arguments, **options)

        def stream(self, *arguments: Any, **options: Any) -> Any:
            look()
            return self.inner.stream(*arguments, **options)

    run = start(place, spec, Slow(), tools=pages())  # type: ignore[arg-type]
    await run.work()
    assert [one.node for one in seen] == ["read"] * 4
    assert [one.status for one in seen] == ["running"] * 4
    assert [one.identical_calls for one in seen] == [1, 1, 1, 2]
    assert seen[-1].shares == {"steps": 0.02}
