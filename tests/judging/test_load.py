"""Criteria don't depend on how busy the machine is: no clock stops a regular expression."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hive_agents import Goal, Runtime, SuccessCriterion, Workspace
from hive_agents.agents.goal_judge import every_node_accepted

BUSY = 20
PATTERNS = (r"^ticket-\d{4}$", r"(a+)+$", r"\bapproved by [A-Z]\w+\b", r"(?i)total:\s*\d+(?:\.\d{2})?\s*(?:EUR|USD)")


@pytest.fixture
def busy() -> Iterator[None]:
    """A machine with a load of 20: processes that do nothing but count."""
    with ExitStack() as ends:
        for _ in range(BUSY):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ends.callback(process.wait)
            ends.callback(process.kill)
        yield


@pytest.mark.slow
def test_sixty_runs_with_regular_expressions_never_wait_for_a_person_for_time(
    text_workspace: Workspace, busy: None
) -> None:
    criteria = [SuccessCriterion(id=f"c{n}", metric="output_matches", target=one) for n, one in enumerate(PATTERNS)]
    goal = Goal(id="letter", name="Letter", success_criteria=criteria)
    text = ["ticket-0815", "a" * 4_000, "b " * 1_000 + "approved by Amira", "Sum. TOTAL: 12.50 EUR"]

    async def run(number: int) -> tuple[str, list[str]]:
        judgment = await Runtime(text_workspace, run_id=f"r{number}").evaluate(goal, text, llm=every_node_accepted)
        return str(judgment.action), judgment.absent

    async def all_runs() -> list[tuple[str, list[str]]]:
        return [await run(number) for number in range(60)]

    assert asyncio.run(all_runs()) == [("accept", [])] * 60
