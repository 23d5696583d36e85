"""The interface of chat models: requests, answers, failures, and a callback for each request that is sent.

The callback lets budgets count a request even if its answer never comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar

from pydantic import Field

from hive_agents.base.files import Format

ErrorKind = Literal[
    "throttling",
    "timeout",
    "server",
    "unavailable",
    "authentication",
    "garbage",
    "truncated",
    "overflow",
    "unsupported",
    "refusal",
    "exhausted",
]
"""`server`: not reached, disconnected, or status 5xx. `unavailable`: not called, as its circuit breaker is open.
`truncated`: the JSON of the answer is incomplete. `overflow`: the request exceeds the model's context. `unsupported`:
the model doesn't accept such a request. `refusal`: it refuses to answer. `exhausted`: several models failed, or a
script has no more lines.
"""

PASSING: frozenset[ErrorKind] = frozenset(
    {"throttling", "timeout", "server", "unavailable", "garbage", "truncated", "overflow", "unsupported"}
)
"""Failures after which the next model is tried; the others are for a person to fix."""

OUTAGES: frozenset[ErrorKind] = frozenset({"throttling", "timeout", "server", "unavailable", "authentication"})
"""Failures that are independent of the request: the model can't be reached."""

Tell = Callable[[int], object]
"""Called with 1 for each request that is sent, and with -1 for one that is free: refused, or not sent after all."""

_TELL: ContextVar[Tell | None] = ContextVar("hive_sending", default=None)

LONGEST_STREAM = 600.0
"""The longest time of a stream in seconds, unless its deadline is longer."""

T = TypeVar("T")


class Usage(Format):
    """Tokens and dollars; `priced` is False when a model's price isn't known, and its dollars count as 0.

    `estimated` means that tokens are estimated from the length of texts, as the server didn't count them.
    """

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    usd: float = Field(default=0.0, ge=0)
    priced: bool = True
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """Return the sum.

        >>> Usage(input_tokens=3, usd=0.5) + Usage(output_tokens=2, priced=False)
        Usage(input_tokens=3, output_tokens=2, usd=0.5, priced=False, estimated=False)
        """
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=self.usd + other.usd,
            priced=self.priced and other.priced,
            estimated=self.estimated or other.estimated,
        )

    def share(self, number: int, of: int) -> Usage:
        """Return the estimated usage of `number` requests, where this is the usage of `of` requests.

        >>> Usage(input_tokens=30, output_tokens=5, usd=0.5).share(1, of=2)
        Usage(input_tokens=15, output_tokens=2, usd=0.25, priced=True, estimated=True)
        """
        return Usage(
            input_tokens=self.input_tokens * number // of,
            output_tokens=self.output_tokens * number // of,
            usd=self.usd * number / of,
            priced=self.priced,
            estimated=True,
        )


class ToolCall(Format):
    name: str
    args: dict[str, Any] = {}
    id: str = ""


class Tool(Format):
    """A tool that the model may call; `parameters` is a JSON schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {"type": "object", "properties": {}}


class Message(Format):
    """One turn; `tool_call_id` is the call that a `tool` message answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""


class ChatResult(Format):
    """An answer; `structured` is set exactly if there was a schema and the model didn't call a tool instead."""

    text: str
    structured: dict[str, Any] | None = None
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage()
    model: str = ""


class ChatDelta(Format):
    """A piece of an answer; the last one of a stream has no text and the whole answer in `result`."""

    text: str
    result: ChatResult | None = None


class ModelError(Exception):
    """No usable answer; `usage` is that of the failed call.

    `retry_after` is the seconds that the server wants to pass before a retry, `outage` whether the model couldn't be
    reached.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        usage: Usage | None = None,
        retry_after: float = 0.0,
        outage: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.usage = usage or Usage()
        self.retry_after = retry_after
        self.outage = kind in OUTAGES if outage is None else outage


class ChatModel(Protocol):
    @property
    def name(self) -> str:
        """As in the settings, `provider:model`."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: dict[str, Any] | None = None,
        tools: Sequence[Tool] = (),
        deadline: float,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> ChatResult:
        """Return the answer within `deadline` seconds; `schema` is a JSON schema of an object.

        `temperature` and `max_tokens` None are the provider's defaults.

        Raises: ModelError.
        """
        ...

    def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        """Yield the answer in pieces, each within `deadline` seconds of the last; the generator can be closed early.

        Raises: ModelError, also after pieces; its `usage` is then that of the unfinished answer as far as it is known.
        """
        ...


@asynccontextmanager
async def within(deadline: float, name: str) -> AsyncIterator[None]:
    """Raise a ModelError after `deadline` seconds, or for any TimeoutError."""
    try:
        async with asyncio.timeout(deadline):
            yield
    except TimeoutError:
        raise _too_late(deadline, name) from None


async def arriving(pieces: AsyncGenerator[T, None], deadline: float, name: str) -> AsyncGenerator[T, None]:
    """Yield `pieces`, and raise a ModelError when one takes longer than `deadline` seconds.

    The timeout is around each piece by itself: one around all of them would cancel what the consumer awaits.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + max(deadline, LONGEST_STREAM)
    async with aclosing(pieces):
        while True:
            try:
                async with asyncio.timeout_at(min(end, loop.time() + deadline)):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise _too_late(deadline, name) from None
            yield piece


def _too_late(deadline: float, name: str) -> ModelError:
    return ModelError("timeout", f"{name} gave no answer within {deadline:g} s")


@contextmanager
def sending(tell: Tell) -> Iterator[Callable[[], None]]:
    """Call `tell` for each request inside the block; yield a function that takes them all back if they cost nothing.

    >>> out = []
    >>> with sending(out.append) as take_back:
    ...     sent()
    ...     take_back()
    >>> out
    [1, -1]
    """
    count = 0

    def counted(number: int) -> None:
        nonlocal count
        count += number
        tell(number)

    def take_back() -> None:
        if count:
            counted(-count)

    token = _TELL.set(counted)
    try:
        yield take_back
    finally:
        _TELL.reset(token)


def sent(number: int = 1) -> None:
    """Report to the innermost `sending` block that requests are sent."""
    tell = _TELL.get()
    if tell is not None:
        tell(number)
