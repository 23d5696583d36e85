"""An agent as a graph: a loop for each of its nodes, its edges between them, then the judgement of its goal.

Each loop is enter → think → act → judge, repeated, then leave; it waits where a person has to answer. State holds
pointers and words like "completed": messages, values and results are in the workspace's database, under keys that a
repeated step finds again. So one checkpoint an iteration is enough: a step calls the next one itself, unless the run
is to be interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from hive_agents.agents import STEPS, AgentSession, AgentSpec, NodeWork, goal_judge, node_end, spec
from hive_agents.models import span

GOAL, PERSON = "GOAL", "PERSON"
"""Reserved names: those of an agent's nodes are lower case."""


class AgentState(TypedDict, total=False):
    run_id: str
    ends: Annotated[list[node_end.End], node_end.joined]
    verdicts: list[node_end.GoalVerdict]
    asked: list[str]  # requests about the goal that wait for a person
    outcome: dict[str, Any]


class LoopState(TypedDict, total=False):
    ends: Annotated[list[node_end.End], node_end.joined]
    verdicts: list[node_end.GoalVerdict]
    iteration: int
    since: int  # the iteration at which a person last let the node go on
    tool_calls: int
    unread: int  # turns in a row that could not be parsed
    overflows: int  # how often the context was too long for the model
    room: int  # its limit in tokens since then
    next: str
    after: str  # the step that follows when `waiting` is answered
    waiting: list[str]
    error: dict[str, str] | None


class LoopEnd(TypedDict, total=False):
    ends: Annotated[list[node_end.End], node_end.joined]


WAYS = {
    "enter": ["think", "wait", "leave"],
    "think": ["think", "act", "judge", "wait", "leave"],
    "act": ["judge", "wait", "leave"],
    "judge": ["think", "wait", "leave"],
    "leave": ["wait", "end"],
}


def is_cut_off(state: AgentState | LoopState, before: frozenset[str]) -> bool:
    """Return whether a node is skipped because a node in `before` has failed."""
    return any(end["node"] in before for end in goal_judge.losses(state.get("ends", []), state.get("verdicts", [])))


def is_early(id: str, state: AgentState | LoopState, before: frozenset[str]) -> bool:
    """Return whether a node has to wait for a node in `before` that is due, too."""
    due = goal_judge.owed(state.get("ends", []), state.get("verdicts", []))
    return id in due and not due.isdisjoint(before)


def step(id: str, name: str, before: frozenset[str]) -> Any:
    """Return a node of the loop that runs a step of the library, and those after it up to the end of the iteration."""

    async def run(state: LoopState, runtime: Runtime[AgentSession]) -> Command[str]:
        if name == "enter" and (is_cut_off(state, before) or is_early(id, state, before)):
            return Command(goto=END)
        node = runtime.context.agent.node(id)
        work = NodeWork.of(runtime.context, node, state.get("ends", []), state.get("verdicts", []))
        update: node_end.Update = {"next": name}
        while True:
            at = update["next"]
            with span(f"node {id}", hive__step=at):
                update |= await STEPS[at](work, {**state, **update})
            following = update["next"]
            if following not in STEPS or (following == "think" and at != "enter") or runtime.drain_requested:
                await runtime.context.tell_rest()
                return Command(update=update, goto=END if following == "end" else following)

    return run


async def wait(state: LoopState) -> Command[str]:
    """Pause until people have answered. Nothing comes before the interrupt: a resumed node starts from its top."""
    interrupt({"approval_ids": state["waiting"]})
    return Command(update={"waiting": []}, goto=state["after"])


def loop(
    id: str, before: frozenset[str] = frozenset()
) -> CompiledStateGraph[LoopState, AgentSession, LoopState, LoopEnd]:
    builder = StateGraph(LoopState, context_schema=AgentSession, output_schema=LoopEnd)
    for name, ways in WAYS.items():
        builder.add_node(name, step(id, name, before), destinations=tuple(END if way == "end" else way for way in ways))
    builder.add_node("wait", wait, destinations=tuple(WAYS))
    builder.add_edge(START, "enter")
    return builder.compile()


async def goal(state: AgentState, runtime: Runtime[AgentSession]) -> node_end.Update:
    return await goal_judge.conclude(runtime.context, state["ends"], state.get("verdicts", []))


async def person(state: AgentState) -> node_end.Update:
    interrupt({"approval_ids": state["asked"]})
    return {"asked": []}


def way_from(id: str, before: frozenset[str]) -> Callable[[AgentState], Awaitable[list[str]]]:
    """Return the router after a node: to the targets that its last end names, or else to the judgement of the goal."""

    async def way(state: AgentState) -> list[str]:
        if is_cut_off(state, before):
            return [GOAL]
        if is_early(id, state, before):
            return [id]
        last = next(end for end in reversed(state["ends"]) if end["node"] == id)
        return last["targets"] or [GOAL]

    return way


async def verdict(state: AgentState) -> list[str]:
    if state.get("outcome"):
        return [END]
    return [PERSON] if state.get("asked") else state["verdicts"][-1]["targets"]


class Shape(NamedTuple):
    """The part of an agent that its graph depends on; steps read the rest from the session."""

    entry: str
    nodes: tuple[tuple[str, tuple[str, ...], bool], ...]
    """The id of each reachable node, its targets, and whether several nodes lead to it."""

    @classmethod
    def of(cls, agent: AgentSpec) -> Self:
        ids = spec.reachable(agent, [agent.entry])
        targets = {id: tuple(names) for id, names in spec.ways_on(agent).items()}
        sources = {id: {edge.source for edge in agent.edges if edge.target == id} for id in ids}
        nodes = (node.id for node in agent.nodes if node.id in ids)
        return cls(agent.entry, tuple((id, targets[id], len(sources[id]) > 1) for id in nodes))


def build(agent: AgentSpec) -> StateGraph[AgentState, AgentSession, AgentState, AgentState]:
    return _built(Shape.of(agent))


def compiled(agent: AgentSpec) -> CompiledStateGraph[AgentState, AgentSession, AgentState, AgentState]:
    """Return the graph of an agent, cached by shape: compiling takes longer than running."""
    return _compiled(Shape.of(agent))


@lru_cache(maxsize=64)
def _compiled(shape: Shape) -> CompiledStateGraph[AgentState, AgentSession, AgentState, AgentState]:
    return _built(shape).compile()


def _built(shape: Shape) -> StateGraph[AgentState, AgentSession, AgentState, AgentState]:
    builder = StateGraph(AgentState, context_schema=AgentSession)
    ancestors = spec.before_each(shape.entry, {id: targets for id, targets, _ in shape.nodes})
    for id, targets, several in shape.nodes:
        # A node that several nodes lead to waits for all of its ancestors. It doesn't begin when one of them failed:
        # a retried run would reuse its results, which were based on incomplete input.
        before = ancestors[id] if several else frozenset()
        ways = dict.fromkeys([*targets, id] if several else targets)
        builder.add_node(id, loop(id, before), defer=several)
        builder.add_conditional_edges(id, way_from(id, before), [*ways, GOAL])
    builder.add_node(GOAL, goal, defer=True)
    builder.add_node(PERSON, person)
    builder.add_edge(START, shape.entry)
    builder.add_conditional_edges(GOAL, verdict, [*(id for id, _, _ in shape.nodes), PERSON, END])
    builder.add_edge(PERSON, GOAL)
    return builder
