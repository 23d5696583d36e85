"""The kinds of runs by the graph that their rows name."""

from __future__ import annotations

from hive_agents.agents import AgentRun
from hive_agents.copilot import QuestionRun
from hive_agents.optimizer import OptimizeRun
from hive_agents.runs import Run

KINDS: dict[str, type[Run]] = {kind.GRAPH: kind for kind in (AgentRun, OptimizeRun, QuestionRun)}
