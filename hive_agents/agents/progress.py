"""Whether a node's loop gets anywhere: its iterations, its doom loops, its stalls."""

from __future__ import annotations

import json

from hive_agents.agents.guards import LoopTurn, doom_loop, fingerprint, is_stalled
from hive_agents.agents.guards.loops import KEPT
from hive_agents.agents.node_end import fault
from hive_agents.agents.node_work import NodeWork
from hive_agents.llm import Message
from hive_agents.memory import ToolResult

LOOKED_BACK = max(12, KEPT)
"""Turns: what was said before is no part of a loop."""


def stuck(work: NodeWork, iteration: int) -> dict[str, str] | None:
    """Why the loop must not go on, if it must not."""
    node, store = work.node, work.session.store
    if iteration >= node.max_iterations:
        why = f"{node.id} was not accepted within its max_iterations of {node.max_iterations}"
        return fault("HIVE-422", "max_iterations", why)
    numbers = range(max(1, iteration - LOOKED_BACK + 1), iteration + 1)
    turns = [(n, store.find(work.conversation, f"{work.key}/{n}")) for n in numbers]
    said = [(n, entry.message) for n, entry in turns if entry is not None]
    period = doom_loop([fingerprint(message.tool_calls) for _, message in said])
    if period is not None:
        why = f"{node.id} goes round in circles: the same tool calls three times, every {period} turns"
        return fault("HIVE-422", "doom_loop", why)
    if is_stalled(_as_turns(work, said)):
        return fault("HIVE-422", "stalled", f"{node.id} says the same again and again, and gets nothing done")
    return None


def _as_turns(work: NodeWork, said: list[tuple[int, Message]]) -> list[LoopTurn]:
    turns, values = [], dict[str, str]()
    for n, message in said:
        results = []
        for place, call in enumerate(message.tool_calls):
            entry = work.session.store.find(work.conversation, f"{work.key}/{n}/{place}")
            if entry is not None:
                results.append(ToolResult(entry.message.content, entry.is_error))
                if call.name == "set_output" and not entry.is_error:
                    values[str(call.args.get("key"))] = json.dumps(call.args.get("value"), default=str)
        turns.append(LoopTurn.of(message.content, results, values))
    return turns
