"""Exhausted budgets: a person is asked to raise them, where the workspace names one; else the work ends."""

from __future__ import annotations

import asyncio

from hive_agents.access import AccessRules
from hive_agents.agents.guards.budget import BudgetExhausted
from hive_agents.agents.node_requests import Pending, words_of
from hive_agents.agents.session import AgentSession
from hive_agents.approvals import Filing
from hive_agents.events import EventType


async def more(session: AgentSession, at: str, node: str | None, error: BudgetExhausted) -> str | None:
    """Return None where the budget was raised, else why it wasn't. Raises: Pending while a person is asked."""
    budget = session.effects.budget
    limit = getattr(budget.limits, error.measure)
    unknown = error.measure == "usd" and budget.spent.unpriced > 0  # no limit could be enforced
    if not unknown and 0 < error.needed <= limit and getattr(budget.spent, error.measure) < limit:
        return None  # another branch has had it raised
    await session.emit(EventType.BUDGET_EXHAUSTED, at, node, measure=error.measure, **budget.to_json())
    if unknown or not await asyncio.to_thread(somebody, session):
        return str(error)
    request = await session.ask(_filing(session, error.measure, limit, await _proposed(session, error, limit)))
    if not request.decided:
        raise Pending([request.id])
    if request.status not in ("approved", "edited"):
        return f"{error}; {words_of(request)}"
    await session.effects.raise_limit(error.measure, limit, float(request.context["args"]["limit"]))
    return None


def somebody(session: AgentSession) -> bool:
    """Return whether the workspace names a person who may decide the run's requests."""
    people = AccessRules.load(session.workspace).principals.values()
    return any("approver" in person.roles and session.tenant in (person.tenant, "local") for person in people)


async def _proposed(session: AgentSession, error: BudgetExhausted, limit: float) -> float:
    """Return the limit to propose; the first branch to exhaust the budget sets it for all branches."""
    key = f"GOAL#budget/{error.measure}/{limit:g}"
    async with session.budgets:
        budget = session.effects.budget
        await session.effects.note(key, {"limit": budget.doubled(error.measure, error.needed)})
    return float(session.effects.find(key)["limit"])


def _filing(session: AgentSession, measure: str, limit: float, proposed: float) -> Filing:
    number = {"type": "integer" if isinstance(limit, int) else "number", "exclusiveMinimum": limit}
    return Filing(
        kind="question",
        title=f"{session.agent.id} has used up its budget of {measure}: may it use {proposed:g} in all?",
        requester=f"agent:{session.agent.id}",
        **session.asking,
        context={
            "agent": session.agent.id,
            "budget": measure,
            "used_up": limit,
            "args": {"limit": type(limit)(proposed)},
        },
        allowed_decisions=["approve", "edit", "reject"],
        args_schema={
            "type": "object",
            "properties": {"limit": number},
            "required": ["limit"],
            "additionalProperties": False,
        },
        idempotency_key=f"run:{session.run_id}:budget/{measure}/{limit:g}",
    )
