"""Whether a node's loop gets anywhere: its iterations, its doom loops, its stalls."""

from __future__ import annotations

import hashlib
import json
import re

from hive_agents.agents.guards import LoopTurn, doom_loop, fingerprint, is_stalled
from hive_agents.agents.guards.loops import kept
from hive_agents.agents.node_end import fault
from hive_agents.agents.node_work import NodeWork
from hive_agents.llm import Message
from hive_agents.memory import ToolResult

LOOKED_BACK = 12
"""Turns: what was said before is no part of a stall."""
_FILE = re.compile(r"'[\w-]+_[0-9]+\.\w+'")
"""The numbered file that holds a result: each call has another."""


def stuck(work: NodeWork, iteration: int, since: int = 0) -> dict[str, str] | None:
    """Return why the loop must not go on, if it must not; turns up to `since` count no more, for a person let them
    pass."""
    node, store = work.node, work.session.store
    if iteration - since >= node.max_iterations:
        why = f"{node.id} was not accepted within its max_iterations of {node.max_iterations}"
        return fault("HIVE-422", "max_iterations", why)
    repeats = work.agent.loop_repeats or work.session.workspace.settings.agents.loop_repeats
    numbers = range(max(since + 1, iteration - max(LOOKED_BACK, kept(repeats)) + 1), iteration + 1)
    turns = [(n, store.find(work.conversation, f"{work.key}/{n}")) for n in numbers]
    said = [(n, entry.message) for n, entry in turns if entry is not None]
    period = doom_loop([_with_results(work, n, message) for n, message in said], repeats)
    if period is not None:
        why = f"{node.id} goes round in circles: the same calls with the same results {repeats} times, period {period}"
        return fault("HIVE-422", "doom_loop", why)
    if is_stalled(_as_turns(work, said)):
        return fault("HIVE-422", "stalled", f"{node.id} says the same again and again, and gets nothing done")
    return None


def _with_results(work: NodeWork, n: int, message: Message) -> str:
    """Return what a turn asked of its tools and what came of it: a job that is polled gets on where its answer
    changes."""
    entries = [
        work.session.store.find(work.conversation, f"{work.key}/{n}/{at}") for at in range(len(message.tool_calls))
    ]
    results = [_FILE.sub("''", entry.message.content) for entry in entries if entry is not None]
    asked = fingerprint(message.tool_calls)
    return hashlib.sha256(json.dumps([asked, results]).encode()).hexdigest() if asked else ""


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
