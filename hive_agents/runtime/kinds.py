"""The kinds of runs by the graph that their rows name."""

from __future__ import annotations

from hive_agents.runtime.agent_run import AgentRun
from hive_agents.runtime.driver import Run
from hive_agents.runtime.optimize import OptimizeRun
from hive_agents.runtime.question import QuestionRun

KINDS: dict[str, type[Run]] = {kind.GRAPH: kind for kind in (AgentRun, OptimizeRun, QuestionRun)}
