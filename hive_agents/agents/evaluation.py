"""Evaluate an agent on its goal's eval cases, several times each: passed and flaky cases, and their cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.agents.deployed import serving_agent
from hive_agents.agents.evolution.verdict import Rehearsed
from hive_agents.agents.rehearsal import Stage, rehearse
from hive_agents.agents.verify import sound_agent
from hive_agents.goals import load_goal


@dataclass(frozen=True)
class CaseRuns:
    """The runs of one case."""

    id: str
    runs: Sequence[Rehearsed]

    @property
    def passed(self) -> int:
        return sum(one.passed for one in self.runs)

    @property
    def flaky(self) -> bool:
        """Whether some runs passed and others failed."""
        return 0 < self.passed < len(self.runs)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "runs": len(self.runs),
            "passed": self.passed,
            "flaky": self.flaky,
            "why": next((one.why for one in self.runs if one.why), None),
            "violated": sorted({name for one in self.runs for name in one.violated}),
            "tokens": sum(one.tokens for one in self.runs),
            "usd": sum(one.usd for one in self.runs),
        }


def evaluate_agent(stage: Stage, agent_id: str, *, repeats: int = 1) -> list[CaseRuns]:
    """Return `repeats` rehearsals of every case by the serving agent; not to be called on an event loop.

    Raises: HIVE-107 for an unknown agent, what is wrong with it, HIVE-401 without a model that answers.
    """
    agent, row = serving_agent(stage.workspace, agent_id)
    if row is None:
        agent = sound_agent(stage.workspace, agent_id, tools=stage.tools)
    goal = load_goal(stage.workspace, agent.goal)
    found = []
    for number, case in enumerate(goal.eval_cases):
        runs = [asyncio.run(rehearse(stage, agent, goal, case)) for _ in range(repeats)]
        found.append(CaseRuns(case.id, runs))
        if stage.progress is not None:
            stage.progress("eval cases", number + 1, len(goal.eval_cases))
    return found
