"""Whether a node's loop makes progress: its iterations, doom loops and stalls."""

from __future__ import annotations

import json
import re

from hive_agents.agents.guards.loops import doom_loop, fingerprint, kept
from hive_agents.agents.guards.stalls import LoopTurn, is_stalled
from hive_agents.agents.node_end import fault
from hive_agents.agents.node_work import NodeWork
from hive_agents.base import sha256
from hive_agents.memory import ToolResult
from hive_agents.models import Message

LOOKED_BACK = 12
"""Turns in which a stall is looked for."""
_FILE = re.compile(r"'[\w-]+_[0-9]+\.\w+'")
"""The numbered file of a long result, which differs from call to call."""


def stuck(work: NodeWork, iteration: int, since: int = 0) -> dict[str, str] | None:
    """Return why the loop has to end, None where it may go on; turns up to `since` were let pass by a person."""
    node, store = work.node, work.session.store
    if iteration - since >= node.max_iterations:
        why = f"{node.id} was not accepted within its max_iterations of {node.max_iterations}"
        return fault("HIVE-422", "max_iterations", why)
    repeats = work.agent.loop_repeats or work.session.workspace.settings.agents.loop_repeats
    numbers = range(max(since + 1, iteration - max(LOOKED_BACK, kept(repeats)) + 1), iteration + 1)
    turns = [(n, store.find(work.conversation, f"{work.key}/{n}")) for n in numbers]
    messages = [(n, entry.message) for n, entry in turns if entry is not None]
    period = doom_loop([_with_results(work, n, message) for n, message in messages], repeats)
    if period is not None:
        why = f"{node.id} goes round in circles: the same calls with the same results {repeats} times, period {period}"
        return fault("HIVE-422", "doom_loop", why)
    if is_stalled(_as_turns(work, messages)):
        return fault("HIVE-422", "stalled", f"{node.id} says the same again and again, and gets nothing done")
    return None


def _with_results(work: NodeWork, n: int, message: Message) -> str:
    """Return a hash of a turn's calls and their results: polling a job is no loop while its answer changes."""
    entries = [
        work.session.store.find(work.conversation, f"{work.key}/{n}/{at}") for at in range(len(message.tool_calls))
    ]
    results = [_FILE.sub("''", entry.message.content) for entry in entries if entry is not None]
    calls = fingerprint(message.tool_calls)
    return sha256(json.dumps([calls, results])) if calls else ""


def _as_turns(work: NodeWork, messages: list[tuple[int, Message]]) -> list[LoopTurn]:
    turns, values = [], dict[str, str]()
    for n, message in messages:
        results = []
        for call_number, call in enumerate(message.tool_calls):
            entry = work.session.store.find(work.conversation, f"{work.key}/{n}/{call_number}")
            if entry is not None:
                results.append(ToolResult(entry.message.content, entry.is_error))
                if call.name == "set_output" and not entry.is_error:
                    values[str(call.args.get("key"))] = json.dumps(call.args.get("value"), default=str)
        turns.append(LoopTurn.of(message.content, results, values))
    return turns
