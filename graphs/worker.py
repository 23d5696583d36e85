"""The copilot: rewrite → route → retrieve → rerank → permission_gate → finalize.

NoMatch and NeedsClarification go from route to finalize, without a search. If the gate drops hits, the turn returns to
retrieve, with more depth. State holds ids and numbers; text is rendered when it is read. A turn has no effect before it
is recorded, so an interrupted one is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from hive_agents.copilot import CopilotContext, TurnSession, reply, steps


class WorkerState(TypedDict, total=False):
    run_id: str
    request: dict[str, Any]
    decision: dict[str, Any]
    planner: str
    doc_id: str | None
    tally: dict[str, Any] | None
    depth: int  # how many hits the lanes return; grows when the gate drops some
    candidates: int
    short: bool
    results: list[dict[str, Any]]
    next_cursor: str | None
    outcome: dict[str, Any]


Update = dict[str, Any]
Step = Callable[[TurnSession, WorkerState], Awaitable[Update]]

STEPS = (steps.rewrite, steps.route, steps.retrieve, steps.rerank, steps.permission_gate, reply.finalize)


def node(step: Step) -> Any:
    """Return a step of the library as a node, with the turn's session."""

    async def run(state: WorkerState, runtime: Runtime[CopilotContext]) -> Update:
        session = CopilotContext.of(runtime).turn(state["run_id"], state["request"])
        with session.timed(step.__name__):
            return await step(session, state)

    return run


# Asynchronous only because LangGraph runs plain functions in threads.
async def strategy(state: WorkerState) -> Literal["retrieve", "finalize"]:
    return "retrieve" if steps.retrieves(state) else "finalize"


async def enough(state: WorkerState) -> Literal["retrieve", "finalize"]:
    return "retrieve" if state["short"] else "finalize"


def build() -> StateGraph[WorkerState, CopilotContext, WorkerState, WorkerState]:
    builder = StateGraph(WorkerState, context_schema=CopilotContext)
    for step in STEPS:
        builder.add_node(step.__name__, node(step))
    builder.add_edge(START, "rewrite")
    builder.add_edge("rewrite", "route")
    builder.add_conditional_edges("route", strategy)
    builder.add_edge("retrieve", "rerank")
    builder.add_edge("rerank", "permission_gate")
    builder.add_conditional_edges("permission_gate", enough)
    builder.add_edge("finalize", END)
    return builder


graph: CompiledStateGraph[WorkerState, CopilotContext, WorkerState, WorkerState] = build().compile()
