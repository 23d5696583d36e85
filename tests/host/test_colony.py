"""A whole colony: twenty real runs in a host, the health judge's tickets, and what the queen makes of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.guards.budget import Limits
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import ApprovalStore
from hive_agents.cli.main import main
from hive_agents.events import EscalationTicket, EventLog, tickets_of
from hive_agents.events.tickets import TICKET_EVENTS
from hive_agents.host.health import HealthJudge
from hive_agents.host.host import Host
from hive_agents.host.queen import Queen
from hive_agents.memory import ConversationStore
from hive_agents.models import Chain, ChatResult, Message, Tool
from hive_agents.runs import RunStore
from tests.agents.conftest import GOAL, agent_json, node, write_json
from tests.agents.loops import Told, say, sets

pytestmark = pytest.mark.slow

COLONY = {"fine": 10, "asks": 2, "loops": 3, "hangs": 2, "burns": 2, "crashes": 1}
TICK = dt.timedelta(seconds=120)
END = {"fine": "done", "asks": "waiting", "loops": "failed", "hangs": "running", "burns": "failed", "crashes": "failed"}


def answering(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
    """Whatever the run's input asks for."""
    told = next(one.content for one in messages if one.role == "user" and "kind" in one.content)
    kind = next(kind for kind in COLONY if f'kind: "{kind}"' in told)
    turns = sum(one.role == "assistant" for one in messages)
    if kind == "crashes":
        raise RuntimeError("a defect")
    if kind == "asks" and not turns:
        return say([("ask_user", {"question": "For whom?"})])
    if kind == "loops":
        return say([("look", {"page": 1})])
    if kind == "hangs" and not turns:
        return say([("hang", {})])
    if kind == "burns":
        return say([("look", {"page": turns})])
    return say([sets("text", "done")])


def tools(released: asyncio.Event) -> ToolRegistry:
    registry = ToolRegistry()

    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    async def hang() -> str:
        """Wait for what doesn't come."""
        await released.wait()
        return "it came"

    registry.register(look, side_effect="read")
    registry.register(hang, side_effect="read")
    return registry


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    (root / "collections").mkdir(parents=True)
    # As long as the simulated hour: its clock isn't that of the leases.
    toml = '[models]\nembedding = "none"\n[runs]\nlease_seconds = 9000.0\n'
    (root / "hive.toml").write_text(toml, encoding="utf-8")
    found = Workspace(root)
    write_json(found, "goals/digest.json", GOAL)
    work = node("work", input_keys=["kind"], output_keys=["text"], tools=["look", "hang"])
    policy = [{"match": "*", "decision": "allow"}]
    write_json(found, "agents/worker.json", agent_json(work, id="worker", tool_policy=policy))
    return found


def tickets(place: Workspace) -> list[EscalationTicket]:
    return list(tickets_of(EventLog(place).replay(types=TICKET_EVENTS)).values())


async def test_the_judge_files_what_is_wrong_and_nothing_else_and_the_queen_acts_on_each(
    place: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    released = asyncio.Event()
    seams: dict[str, Any] = {"tools": tools(released), "models": lambda role: Chain([Told(answering)])}
    kinds = {
        AgentRun.start(
            place,
            "worker",
            {"kind": kind},
            hold=False,
            limits=Limits(steps=12 if kind == "burns" else 200),
            **seams,
        ).run_id: kind
        for kind, count in COLONY.items()
        for _ in range(count)
    }
    store = RunStore(place)

    async with Host(place, roles=("runs",), **seams) as host:
        async with asyncio.timeout(120):
            while any(store.get(run).status != END[kind] for run, kind in kinds.items()):
                await asyncio.sleep(0.1)
        judge, queen = HealthJudge(place, host.bus), Queen(place, host.bus)
        await queen.catch_up()  # a new queen begins where the log ends
        began = dt.datetime.now(dt.UTC)
        for n in range(31):  # an hour
            await judge.tick(began + n * TICK)
            await queen.catch_up()

        found = tickets(place)
        causes = Counter((kinds[one.run_id], one.cause, one.severity) for one in found)
        assert causes == {
            ("loops", "doom_loop", "critical"): 3,
            ("hangs", "stall", "high"): 2,
            ("burns", "budget_burn", "critical"): 2,
            ("crashes", "crash", "critical"): 1,
        }
        assert all(one.evidence for one in found)

        # Medium: she spoke to the two that hang; high: she pauses them. Each ticket that is grave asks a person once.
        hanging = [run for run, kind in kinds.items() if kind == "hangs"]
        for run in hanging:
            said = ConversationStore(place)
            (words,) = [
                entry.message.content for entry in said.messages(said.of_run(run)[0]) if entry.key.startswith("person:")
            ]
            assert "nothing new" in words
            assert store.get(run).control == "pause"
        asked = [one for one in ApprovalStore(place).list("pending") if one.requester == "service:queen"]
        assert Counter(one.context["run_id"] for one in asked) == Counter(one.run_id for one in found)

        await asyncio.sleep(2)  # a worker hears of it within a second
        released.set()
        async with asyncio.timeout(120):
            while any(store.get(run).status != "paused" for run in hanging):
                await asyncio.sleep(0.05)
        await queen.catch_up()

    capsys.readouterr()
    assert await asyncio.to_thread(main, ["queen", "--json", "-w", str(place.root)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {one["run_id"] for one in shown["tickets"]} == {one.run_id for one in found}
    assert {one["run_id"] for one in shown["actions"]} >= {one.run_id for one in found}
    assert {one["run_id"] for one in shown["runs"]} >= set(hanging)
