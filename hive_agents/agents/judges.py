"""A node's own judge, level 1 of its judgement: its input, its verdict, and judges by name."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from hive_agents.base.files import AnyCase, Format
from hive_agents.models import ToolCall

NodeAction = Literal["accept", "retry", "escalate", "continue"]


class NodeContext(Format):
    """What a node's judge sees after an iteration; `accumulator` holds the outputs set so far.

    >>> NodeContext(assistant_text="Three found.", accumulator={"items": [1, 2, 3]}).iteration
    1
    """

    assistant_text: str = ""
    tool_calls: list[ToolCall] = []
    accumulator: dict[str, Any] = {}
    iteration: int = Field(default=1, ge=1)


class NodeVerdict(Format):
    """What a node's judge says: accept, retry, escalate or continue; `feedback` is sent to the model with a retry.

    >>> NodeVerdict(action="retry", feedback="find three at least").action
    'retry'
    """

    action: Annotated[NodeAction, AnyCase]
    feedback: str | None = None


@runtime_checkable
class JudgeProtocol(Protocol):
    """A node's own judge; `evaluate` may be a coroutine function.

    >>> class Thorough:
    ...     def evaluate(self, context: NodeContext) -> NodeVerdict:
    ...         if len(context.accumulator.get("items", [])) < 3:
    ...             return NodeVerdict(action="retry", feedback="find three at least")
    ...         return NodeVerdict(action="accept")
    >>> isinstance(Thorough(), JudgeProtocol), Thorough().evaluate(NodeContext(accumulator={"items": [1]})).action
    (True, 'retry')
    """

    def evaluate(self, context: NodeContext, /) -> NodeVerdict | Awaitable[NodeVerdict]: ...


_registered: dict[str, Any] = {}


def register_judge(name: str, judge: JudgeProtocol) -> None:
    """Register `judge` for nodes with `"judge": name`; it replaces an earlier one of that name.

    >>> class Patient:
    ...     def evaluate(self, context: NodeContext) -> NodeVerdict:
    ...         return NodeVerdict(action="accept" if context.iteration > 1 else "continue")
    >>> register_judge("patient", Patient())
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
