"""A node's own judge, level 1 of its judgement: its input, its verdict, and judges by name."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

from pydantic import Field

from hive_agents.base.files import AnyCase, Format
from hive_agents.models import ToolCall

NodeAction = Literal["accept", "retry", "escalate", "continue"]


class NodeContext(Format):
    """What a node's judge sees after an iteration; `accumulator` holds the outputs set so far."""

    assistant_text: str = ""
    tool_calls: list[ToolCall] = []
    accumulator: dict[str, Any] = {}
    iteration: int = Field(default=1, ge=1)


class NodeVerdict(Format):
    """`feedback` is sent to the model with a retry."""

    action: Annotated[NodeAction, AnyCase]
    feedback: str | None = None


_registered: dict[str, Any] = {}


def register_judge(name: str, judge: Any) -> None:
    """Register `judge` for nodes with `"judge": name`; it replaces an earlier one of that name.

    Its `evaluate(context)` returns a `NodeVerdict`, or an awaitable of one.
    """
    _registered[name] = judge


def judge_names() -> list[str]:
    return sorted(_registered)


async def node_verdict(judge: Any, context: NodeContext) -> NodeVerdict:
    """Return the verdict of a judge, or of the one registered by that name; any failure of it escalates."""
    try:
        outcome = (_registered[judge] if isinstance(judge, str) else judge).evaluate(context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if not isinstance(outcome, NodeVerdict):
            raise TypeError(f"it gave a {type(outcome).__name__}")
    except Exception as error:
        return NodeVerdict(action="escalate", feedback=f"the node's judge failed: {type(error).__name__}: {error}")
    return outcome
