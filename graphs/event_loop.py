"""An agent as a graph: a loop for each of its nodes, its edges between them, then the judgement of its goal.

Each loop is enter → think → act → judge, again and again, then leave; it waits where a person has to answer. State
holds pointers and words like "completed": messages, values and results are in the workspace's database, under keys
that a step finds again when it is done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from hive_agents.agents import (
    STEPS,
    AgentSession,
    AgentSpec,
    End,
    GoalVerdict,
    NodeSpec,
    NodeWork,
    Update,
    conclude,
    joined,
    reachable,
)
from hive_agents.telemetry import span

GOAL, PERSON = "GOAL", "PERSON"
"""Names that no node of an agent can have: theirs are lower case."""


class AgentState(TypedDict, total=False):
    run_id: str
    ends: Annotated[list[End], joined]
    verdicts: list[GoalVerdict]
    asked: list[str]  # requests about the goal that wait for a person
    outcome: dict[str, Any]


class LoopState(TypedDict, total=False):
    ends: Annotated[list[End], joined]
    verdicts: list[GoalVerdict]
    iteration: int
    tool_calls: int
    unread: int  # turns in a row that could not be read
    overflows: int  # how often the context was too much for the model
    room: int  # tokens that it may have since
    next: str
    after: str  # the step that comes when `waiting` is answered
    waiting: list[str]
    error: dict[str, str] | None


class LoopEnd(TypedDict, total=False):
    ends: Annotated[list[End], joined]


WAYS = {
    "enter": ["think", "wait", "leave"],
    "think": ["think", "act", "judge", "wait", "leave"],
    "act": ["judge", "wait", "leave"],
    "judge": ["think", "wait", "leave"],
    "leave": ["wait", "end"],
}


def step(node: NodeSpec, name: str) -> Any:
    """A step of the library as a node of the loop."""

    async def run(state: LoopState, runtime: Runtime[AgentSession]) -> Update:
        work = NodeWork.of(runtime.context, node, state.get("ends", []), state.get("verdicts", []))
        with span(f"node {node.id}", hive__step=name):
            return await STEPS[name](work, state)

    return run


async def wait(state: LoopState) -> Update:
    """Pause until people have answered. Nothing comes before the interrupt: a resumed node starts from its top."""
    interrupt({"approval_ids": state["waiting"]})
    return {"next": state["after"], "waiting": []}


async def next_step(state: LoopState) -> str:
    return state["next"]


def loop(node: NodeSpec) -> CompiledStateGraph[LoopState, AgentSession, LoopState, LoopEnd]:
    builder = StateGraph(LoopState, context_schema=AgentSession, output_schema=LoopEnd)
    for name in STEPS:
        builder.add_node(name, step(node, name))
    builder.add_node("wait", wait)
    builder.add_edge(START, "enter")
    for name, ways in WAYS.items():
        builder.add_conditional_edges(name, next_step, {way: END if way == "end" else way for way in ways})
    builder.add_conditional_edges("wait", next_step, list(WAYS))
    return builder.compile()


async def goal(state: AgentState, runtime: Runtime[AgentSession]) -> Update:
    return await conclude(runtime.context, state["ends"], state.get("verdicts", []))


async def person(state: AgentState) -> Update:
    interrupt({"approval_ids": state["asked"]})
    return {"asked": []}


def way_from(node: NodeSpec) -> Callable[[AgentState], Awaitable[list[str]]]:
    """The targets that the node's last end names; where there are none the goal is judged."""

    async def way(state: AgentState) -> list[str]:
        last = next(end for end in reversed(state["ends"]) if end["node"] == node.id)
        return last["targets"] or [GOAL]

    return way


async def verdict(state: AgentState) -> list[str]:
    if state.get("outcome"):
        return [END]
    return [PERSON] if state.get("asked") else state["verdicts"][-1]["targets"]


def build(agent: AgentSpec) -> StateGraph[AgentState, AgentSession, AgentState, AgentState]:
    builder = StateGraph(AgentState, context_schema=AgentSession)
    nodes = [node for node in agent.nodes if node.id in reachable(agent, [agent.entry])]
    for node in nodes:
        sources = {edge.source for edge in agent.edges if edge.target == node.id}
        # A node that several ways lead to waits for all that are on theirs.
        builder.add_node(node.id, loop(node), defer=len(sources) > 1)
        targets = dict.fromkeys(edge.target for edge in agent.edges_from(node.id) if edge.on != "replan")
        builder.add_conditional_edges(node.id, way_from(node), [*targets, GOAL])
    builder.add_node(GOAL, goal, defer=True)
    builder.add_node(PERSON, person)
    builder.add_edge(START, agent.entry)
    builder.add_conditional_edges(GOAL, verdict, [*(node.id for node in nodes), PERSON, END])
    builder.add_edge(PERSON, GOAL)
    return builder
