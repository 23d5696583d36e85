"""A node's own judge, level 1 of its judgement: what it sees, what it says, and judges by name."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

from pydantic import Field

from hive_agents.files import AnyCase, Format
from hive_agents.llm import ToolCall

NodeAction = Literal["accept", "retry", "escalate", "continue"]


class NodeContext(Format):
    """What a node's judge sees after an iteration; `accumulator` holds the outputs set so far."""

    assistant_text: str = ""
    tool_calls: list[ToolCall] = []
    accumulator: dict[str, Any] = {}
    iteration: int = Field(default=1, ge=1)


class NodeVerdict(Format):
    """`feedback` is what a retry tells the model."""

    action: Annotated[NodeAction, AnyCase]
    feedback: str | None = None


_registered: dict[str, Any] = {}


def register_judge(name: str, judge: Any) -> None:
    """Make `judge` what nodes mean by `"judge": name`; the last registration of a name holds.

    Its `evaluate(context)` gives a `NodeVerdict`, or an awaitable of one.
    """
    _registered[name] = judge


def judge_names() -> list[str]:
    return sorted(_registered)


async def node_verdict(judge: Any, context: NodeContext) -> NodeVerdict:
    """Return what a judge, or the one registered by that name, says; whatever it does wrong escalates."""
    try:
        found = (_registered[judge] if isinstance(judge, str) else judge).evaluate(context)
        if inspect.isawaitable(found):
            found = await found
        if not isinstance(found, NodeVerdict):
            raise TypeError(f"it gave a {type(found).__name__}")
    except Exception as error:
        return NodeVerdict(action="escalate", feedback=f"the node's judge failed: {type(error).__name__}: {error}")
    return found
