"""The queen: hear → (ticket or decision: decide → act) | (message: think ⇄ act, or answer) → say.

Her actions are logged before and after they happen and are idempotent, so the graph needs no checkpoints: it starts
again after a crash.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from hive_agents.models import Message, ModelError
from hive_agents.supervision.queen import QueenSession


class QueenState(TypedDict, total=False):
    ticket: dict[str, Any]  # the input is one of these three
    approval_id: str
    text: str
    keys: list[str]  # of her log: the actions to carry out
    turns: list[dict[str, Any]]  # a model's calls, and their results
    calls: int
    fault: str | None  # why a model gave no answer
    done: list[dict[str, Any]]
    reply: dict[str, Any]


Update = dict[str, Any]


async def hear(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    if "text" in state:
        session = runtime.context
        await asyncio.to_thread(lambda: session.memory.heard(state["text"]))
    return {"calls": 0, "turns": [], "fault": None}


async def decide(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    session = runtime.context
    if "approval_id" in state:
        return {"keys": await asyncio.to_thread(session.rulings.decide, state["approval_id"])}
    ticket = await asyncio.to_thread(session.escalations.current, state["ticket"])
    due = await asyncio.to_thread(session.escalations.is_due, ticket)
    words = await session.words_for(ticket) if due and ticket.status == "open" and ticket.severity != "low" else ""
    return {"keys": await asyncio.to_thread(session.escalations.decide, ticket, words)}


async def act(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    session = runtime.context
    if "text" in state:
        turn = Message.model_validate(state["turns"][-1])
        results = await session.act(state["text"], turn)
        turns = [*state["turns"], *(one.model_dump() for one in results)]
        return {"turns": turns, "calls": state["calls"] + len(results)}
    actor = session.rulings if "approval_id" in state else session.escalations
    return {"done": [one for key in state["keys"] for one in await asyncio.to_thread(actor.act, key)]}


async def think(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    turns = [Message.model_validate(one) for one in state["turns"]]
    try:
        turn = await runtime.context.think(turns, state["calls"])
    except ModelError as error:
        return {"fault": error.message}
    return {"turns": [*state["turns"], turn.model_dump()]}


async def answer(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    await runtime.context.answer(state["text"], state["fault"])
    return {}


async def say(state: QueenState, runtime: Runtime[QueenSession]) -> Update:
    """Return the reply; the answer to a message is added to her memory."""
    session = runtime.context
    if "text" not in state:
        return {"reply": {"actions": state["done"]}}
    if not session.reply.lines:
        session.conclude(state["text"], Message.model_validate(state["turns"][-1]))
    reply = session.reply
    text = await asyncio.to_thread(session.colony.hide, reply.text)
    await asyncio.to_thread(session.memory.said, text, reply.runs, reply.asked)
    return {"reply": {"answer": text, "runs": reply.runs, "actions": reply.actions, "usage": session.usage()}}


async def heard(state: QueenState, runtime: Runtime[QueenSession]) -> Literal["decide", "think", "answer"]:
    if "text" not in state:
        return "decide"
    return "think" if runtime.context.chain is not None else "answer"


async def thought(state: QueenState) -> Literal["act", "answer", "say"]:
    if state["fault"] is not None:
        return "answer"
    return "act" if state["turns"][-1]["tool_calls"] else "say"


async def acted(state: QueenState) -> Literal["think", "say"]:
    return "think" if "text" in state else "say"


def build() -> StateGraph[QueenState, QueenSession, QueenState, QueenState]:
    builder = StateGraph(QueenState, context_schema=QueenSession)
    for node in (hear, decide, think, act, answer, say):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "hear")
    builder.add_conditional_edges("hear", heard)
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("think", thought)
    builder.add_conditional_edges("act", acted)
    builder.add_edge("answer", "say")
    builder.add_edge("say", END)
    return builder


graph: CompiledStateGraph[QueenState, QueenSession, QueenState, QueenState] = build().compile()
