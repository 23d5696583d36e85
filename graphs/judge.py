"""The health judge: observe → detect → (assess) → tell → remember, once a tick and tenant.

It reads the workers' log and publishes tickets on the bus. It doesn't know the queen, and can't change a run. An
interrupted tick is repeated: the log stores each event once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from hive_agents.supervision.health import JudgeContext, steps


class JudgeState(TypedDict, total=False):
    tenant: str
    runs: list[dict[str, Any]]  # the health of each
    changes: list[dict[str, Any]]  # tickets to open, update or resolve


Update = dict[str, Any]
Step = Callable[[JudgeContext, JudgeState], Awaitable[Update]]

STEPS: tuple[Step, ...] = (steps.observe, steps.detect, steps.assess, steps.tell, steps.remember)


def node(step: Step) -> Any:
    """Return a step of the library as a node."""

    async def run(state: JudgeState, runtime: Runtime[JudgeContext]) -> Update:
        return await step(runtime.context, state)

    return run


async def found(state: JudgeState) -> Literal["assess", "tell"]:
    """A model assesses only open problems."""
    return "assess" if any(change["kind"] != "resolved" for change in state["changes"]) else "tell"


async def worth_remembering(state: JudgeState) -> Literal["remember", "__end__"]:
    return "remember" if state["changes"] else "__end__"


def build() -> StateGraph[JudgeState, JudgeContext, JudgeState, JudgeState]:
    builder = StateGraph(JudgeState, context_schema=JudgeContext)
    for step in STEPS:
        builder.add_node(step.__name__, node(step))
    builder.add_edge(START, "observe")
    builder.add_edge("observe", "detect")
    builder.add_conditional_edges("detect", found)
    builder.add_edge("assess", "tell")
    builder.add_conditional_edges("tell", worth_remembering)
    builder.add_edge("remember", END)
    return builder


graph: CompiledStateGraph[JudgeState, JudgeContext, JudgeState, JudgeState] = build().compile()
