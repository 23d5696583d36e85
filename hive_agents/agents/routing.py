"""The nodes that follow a node: by its edges, a condition, or a model's choice."""

from __future__ import annotations

import json
import secrets
from typing import Any

from hive_agents.agents.effects import Done
from hive_agents.agents.models import complete, need
from hive_agents.agents.node_end import fault
from hive_agents.agents.node_judge import recent
from hive_agents.agents.node_work import NodeWork
from hive_agents.agents.spec import EdgeSpec
from hive_agents.goals.expressions import ExpressionError, parse
from hive_agents.models import Message, ModelError, prompts

ENDED = {"completed": ("always", "success", "condition", "model"), "failed": ("always", "failure")}


class NoWay(Exception):
    """No edge could be chosen; `fault` says why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault("HIVE-422", reason, message)


async def targets(work: NodeWork, status: str) -> list[str]:
    """Return the next nodes: the targets of all matching edges of the highest priority.

    Raises: NoWay where a condition can't be evaluated or the model doesn't choose; BudgetExhausted.
    """
    fixed, choices = ways(work, status)
    if len(choices) > 1:
        choices = [await _chosen(work, choices)]
    return list(dict.fromkeys([*fixed, *choices]))


def ways(work: NodeWork, status: str) -> tuple[list[str], list[str]]:
    """Return the targets of all matching edges of the highest priority: those to take, and those of which a model
    chooses one. Raises: NoWay."""
    edges = [edge for edge in work.agent.edges_from(work.node.id) if edge.on in ENDED[status] and _true(work, edge)]
    highest = [edge for edge in edges if edge.priority == edges[0].priority]
    choices = list(dict.fromkeys(edge.target for edge in highest if edge.on == "model"))
    return [edge.target for edge in highest if edge.on != "model"], choices


def _true(work: NodeWork, edge: EdgeSpec) -> bool:
    if edge.condition is None:
        return True
    names = {"result": work.outputs.values, "goal": {"goal_type": work.session.goal.goal_type}, "attempt": work.visit}
    try:
        return bool(parse(edge.condition).evaluate(names))
    except ExpressionError as error:
        message = f'the condition of the edge to "{edge.target}" can\'t be evaluated: {error}'
        raise NoWay("condition_error", message) from None


async def _chosen(work: NodeWork, choices: list[str]) -> str:
    async def do(_: bool) -> Done:
        text = prompts.load(
            "agent_choice",
            work.session.workspace,
            choices="\n".join(f"- {choice}" for choice in choices),
            outputs=json.dumps(work.outputs.values, ensure_ascii=False)[:30_000],
            conversation=recent(work.session.store.messages(work.conversation)),
            fence=f"-----{secrets.token_hex(8)}-----",
        )
        schema: dict[str, Any] = {
            "title": "next_phase",
            "description": "The phase that comes next.",
            "type": "object",
            "properties": {"target": {"type": "string", "enum": choices}},
            "required": ["target"],
        }
        messages, tell = [Message(role="user", content=text)], work.session.effects.sending(f"{work.key}/choice")
        chain = work.chain
        await work.session.effects.require(f"{work.key}/choice", **need(chain, messages))
        try:
            answer = await complete(chain, messages, schema=schema, tell=tell)
        except ModelError as error:
            return Done({"error": str(error)[:500]}, error.usage)
        return Done(answer.structured, answer.usage)

    choice = await work.session.effects.once(f"{work.key}/choice", "model", "choice", do, node=work.node.id)
    if "error" in choice:
        raise NoWay("model_error", f"the model chose no phase: {choice['error']}")
    return str(choice["target"])
