"""Calls of a run's models: retried after transient errors, and counted also where they fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, TypedDict

from hive_agents.agents.guards.retries import RetryPolicy, retried
from hive_agents.memory import estimate_tokens, message_tokens
from hive_agents.models import Chain, ChatResult, Message, ModelError, Tell, Tool, Usage, sending

PATIENCE = RetryPolicy(attempts=4, base=0.2, cap=5.0)


class Need(TypedDict):
    tokens: int
    rate: float


def need(chain: Chain, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Need:
    """Return the tokens that a call needs, estimated from what it sends, for `Effects.once`; none for a script."""
    if chain.name.startswith("scripted:"):
        return {"tokens": 0, "rate": 0.0}
    return {"tokens": estimated(messages, tools), "rate": chain.rate}


def estimated(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
    """Return the estimated tokens of what is sent."""
    return sum(map(message_tokens, messages)) + sum(estimate_tokens(tool.model_dump_json()) for tool in tools)


async def complete(chain: Chain, messages: Sequence[Message], *, schema: Mapping[str, Any], tell: Tell) -> ChatResult:
    """Return the structured answer; `usage` is that of all attempts. Raises: ModelError."""

    async def once() -> ChatResult:
        return _counted_at_least(messages, await chain.complete(messages, schema=schema))

    return await _counted(once, tell)


async def streamed(
    chain: Chain,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    on_text: Callable[[str], object],
    *,
    tell: Tell,
) -> ChatResult:
    """Return the answer, whose text `on_text` gets in pieces; `usage` is that of all attempts. Raises: ModelError."""

    async def once() -> ChatResult:
        async with aclosing(chain.stream(messages, tools=tools)) as deltas:
            async for delta in deltas:
                if delta.result is not None:
                    return _counted_at_least(messages, delta.result)
                on_text(delta.text)
        raise ModelError("garbage", f"{chain.name} ended without an answer", usage=Usage(priced=False))

    return await _counted(once, tell)


def _counted_at_least(messages: Sequence[Message], result: ChatResult) -> ChatResult:
    """Return the result with an estimate of its tokens where the server counted none."""
    usage = result.usage
    if usage.priced or usage.input_tokens or usage.output_tokens:
        return result
    answer = Message(role="assistant", content=result.text, tool_calls=result.tool_calls)
    tokens = {"input_tokens": sum(map(message_tokens, messages)), "output_tokens": message_tokens(answer)}
    return result.model_copy(update={"usage": Usage(**tokens, priced=False, estimated=True)})


async def _counted(once: Callable[[], Awaitable[ChatResult]], tell: Tell) -> ChatResult:
    wasted = Usage()

    async def attempt() -> ChatResult:
        with sending(tell) as take_back:
            try:
                return await once()
            except ModelError as error:
                if not (error.usage.input_tokens or error.usage.output_tokens):
                    take_back()
                raise

    def failed(_: int, error: BaseException, __: float) -> None:
        nonlocal wasted
        wasted += error.usage if isinstance(error, ModelError) else Usage()

    try:
        result = await retried(attempt, PATIENCE, on_retry=failed)
    except ModelError as error:
        spent = wasted + error.usage
        again = error.retry_after
        raise ModelError(error.kind, error.message, usage=spent, retry_after=again, outage=error.outage) from error
    return result.model_copy(update={"usage": wasted + result.usage})
