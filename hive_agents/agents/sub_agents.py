"""Sub-agents: a separate loop for one task, with fewer tools, a new conversation and always a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from hive_agents.agents.deployed import find_sub_agent
from hive_agents.agents.effects import Done
from hive_agents.agents.guards.budget import BudgetExhausted, Measure
from hive_agents.agents.node_end import End, spent, visits
from hive_agents.agents.node_requests import Pending
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.spec import AgentSpec, before_each, ways_on
from hive_agents.agents.tools import Tools
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.base import HiveError, schemas
from hive_agents.events import EventType
from hive_agents.memory import DataBuffer
from hive_agents.runs import Limits

SECONDS = 3_600.0

NodeLoop = Callable[[NodeWork], Awaitable[tuple[End, int]]]
"""Runs a node without a graph, and returns its end and the number of iterations."""


async def delegated(
    work: NodeWork,
    key: str,
    name: str,
    task: str,
    inputs: Mapping[str, Any],
    loop: NodeLoop,
    *,
    agent: AgentSpec | None = None,
    reach: Tools | None = None,
) -> dict[str, Any]:
    """Return {agent, status, outputs, error, iterations} of a sub-agent's work; its errors are the status failed.

    Code gives its `agent`, which sees no values but the `inputs`, and the tools in its `reach`.

    Raises: Pending where it waits for a person; BudgetExhausted of the whole run's budget.
    """
    session = work.session
    exhausted: BudgetExhausted | None = None
    await session.emit(EventType.SUBAGENT_STARTED, key, work.node.id, agent=name, task=task[:500])
    result: dict[str, Any] = {"agent": name, "status": "failed", "outputs": {}, "error": None, "iterations": 0}
    try:
        in_code = agent is not None  # whose inputs its type has made
        values = dict(inputs) if in_code else work.buffer.read_all() | dict(inputs)
        agent = agent or find_sub_agent(session.workspace, session.agent, name)
        session.effects.limit_delegated(work.key, Limits(tool_calls=work.node.max_tool_calls))
        if agent.budget is not None:
            session.effects.limit(key, agent.budget)
        given = {key: values[key] for key in (agent.input_schema or {}).get("properties", ()) if key in values}
        if agent.input_schema is not None and not in_code and (wrong := schemas.faults(given, agent.input_schema)):
            raise HiveError.of("HIVE-105", f"the inputs don't fit: {'; '.join(wrong[:5])}")
        async with asyncio.timeout(SECONDS):
            result |= await _worked(work, key, agent, task, values, reach, loop)
    except (Pending, asyncio.CancelledError):
        raise
    except HiveError as error:
        if error.exit_code == 3:  # not the sub-agent's fault: the run goes on when the database is back
            raise
        result["error"] = error.diagnostics[0].message
    except BudgetExhausted as error:
        exhausted, result["error"] = error if error.scope not in (key, work.key) else None, str(error)
    except TimeoutError:
        result["error"] = f"cut after {SECONDS:g} s"
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"
    await session.emit(
        EventType.SUBAGENT_COMPLETED, key, work.node.id, agent=name, status=result["status"], error=result["error"]
    )
    if exhausted is not None:
        raise exhausted
    return result


async def report(work: NodeWork, key: str, message: str, data: Any, *, complete: bool) -> None:
    """Publish a sub-agent's progress; `complete` ends its work at the next judgement."""
    session = work.session

    async def do(_: bool) -> Done:
        return Done(True)

    if complete:
        await session.effects.once(f"{work.key}/complete", "synthetic", "report_to_parent", do, node=work.node.id)
    payload = {"message": message[:2_000], "data": data, "complete": complete}
    await session.emit(EventType.SUBAGENT_REPORTED, key, work.node.id, agent=work.agent.id, **payload)


async def _worked(
    work: NodeWork,
    key: str,
    agent: AgentSpec,
    task: str,
    values: Mapping[str, Any],
    reach: Tools | None,
    loop: NodeLoop,
) -> dict[str, Any]:
    in_code = reach is not None
    reach = reach or _reach(work)
    buffer = await _snapshot(work, key, values)
    ends: list[End] = []
    outputs: dict[str, Any] = {}
    iterations = 0
    due, before = [agent.entry], before_each(agent.entry, ways_on(agent))
    while due:
        node = agent.node(next(name for name in due if before[name].isdisjoint(due)))
        due.remove(node.id)
        visit = visits(ends, node.id) + 1
        part = NodeWork(
            work.session,
            agent,
            node,
            f"{key}/{node.id}#{visit}",
            visit,
            ends,
            delegated=True,
            own_buffer=buffer,
            task=task or None,
            policies=reach,
            in_code=in_code,
        )
        end, used = await loop(part)
        ends.append(end)
        iterations += used
        outputs |= part.outputs.values
        if end["error"] and spent(end["error"]):
            raise BudgetExhausted(cast("Measure", end["error"]["reason"]), end["error"]["message"])
        if end["status"] == "failed" and not end["targets"]:
            error = (end["error"] or {}).get("message", "it failed")
            return {"status": "failed", "outputs": outputs, "error": error, "iterations": iterations}
        due = list(dict.fromkeys([*due, *end["targets"]]))
    return {"status": "completed", "outputs": outputs, "iterations": iterations}


def _reach(work: NodeWork) -> Tools:
    """Return the tools that a sub-agent of this node may use at most: the node's, and those for sub-agents only."""
    registry = work.session.tools
    names = {*(name for name in work.node.tools if name not in FILE_TOOLS), *registry.sub_agents_only}
    return registry.view(sorted(names), policy=work.agent.tool_policy, sub_agent=True)


async def _snapshot(work: NodeWork, key: str, given: Mapping[str, Any]) -> DataBuffer:
    """Return a buffer for the sub-agent with the values that it was given when it was first asked."""
    session = work.session
    buffer = DataBuffer(session.workspace, tenant=session.tenant, run_id=f"{session.run_id}/{key}")

    def copied() -> Done:
        for name, value in given.items():
            buffer.write(name, value)
        return Done(dict(given))

    await session.effects.within(f"{key}/snapshot", "synthetic", "snapshot", copied, node=work.node.id)
    return buffer
