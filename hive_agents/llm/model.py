"""What every chat model is asked, what it answers or how it fails, and whom it tells that a request goes out.

Whoever keeps accounts has to know of a request before an answer comes, or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar

from pydantic import Field

from hive_agents.files import Format

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
"""`server`: not reached, broken off, or status 5xx. `unavailable`: not asked, because it failed again and again.
`truncated`: an answer that broke off in its JSON. `overflow`: more than the model's context holds. `unsupported`: the
request is not what the model takes. `refusal`: it would not answer. `exhausted`: several models failed, or a script.
"""

PASSING: frozenset[ErrorKind] = frozenset(
    {"throttling", "timeout", "server", "unavailable", "garbage", "truncated", "overflow", "unsupported"}
)
"""What another model may do better; a refused login, a refusal or a script that ran out is for a person to mend."""

OUTAGES: frozenset[ErrorKind] = frozenset({"throttling", "timeout", "server", "unavailable", "authentication"})
"""Failures that say nothing about the question: no model could be asked."""

Tell = Callable[[int], object]
"""Gets 1 when a request is out, and -1 for one that turned out to be free: it was refused, or never left."""

_TELL: ContextVar[Tell | None] = ContextVar("hive_sending", default=None)

LONGEST_STREAM = 600.0
"""Seconds after which an answer ends that never does."""

T = TypeVar("T")


class Usage(Format):
    """Tokens and dollars; `priced` is False where a model's price isn't known and its dollars count 0.

    `estimated` says that a server counted no tokens: they are judged by the length of what was sent and said.
    """

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    usd: float = Field(default=0.0, ge=0)
    priced: bool = True
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        """
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
        """Return an estimate of what `number` requests cost, by this usage of `of` requests.

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
    """One turn; `tool_call_id` says which call a `tool` message answers."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""


class ChatResult(Format):
    """`structured` is there exactly when a schema was asked for and the model didn't call a tool instead."""

    text: str
    structured: dict[str, Any] | None = None
    tool_calls: list[ToolCall] = []
    usage: Usage = Usage()
    model: str = ""


class ChatDelta(Format):
    """A piece of an answer; the last one of a stream has no text and carries the whole answer."""

    text: str
    result: ChatResult | None = None


class ModelError(Exception):
    """No usable answer; `usage` is what the failed call cost all the same.

    `retry_after` is in how many seconds the server wants to be asked again, `outage` whether no model could be asked.
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

        `temperature` and `max_tokens` are the provider's own where they are None.

        Raises: ModelError.
        """
        ...

    def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        """Return the answer in pieces, each within `deadline` seconds of the last; closing the generator stops
        listening.

        Raises: ModelError, also after pieces; its `usage` is then what is known of the unfinished answer.
        """
        ...


@asynccontextmanager
async def within(deadline: float, name: str) -> AsyncIterator[None]:
    """Whatever takes longer than `deadline` seconds, or times out by itself, is a ModelError."""
    try:
        async with asyncio.timeout(deadline):
            yield
    except TimeoutError:
        raise _too_late(deadline, name) from None


async def arriving(pieces: AsyncGenerator[T, None], deadline: float, name: str) -> AsyncGenerator[T, None]:
    """`pieces`, of which each has to come within `deadline` seconds: silence is a ModelError, a long answer is none.

    Each piece is waited for by itself: a timeout around all of them would cancel what the listener awaits.
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
    """Tell of each request that is made within; yields what takes back all of them, where they cost nothing.

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
    """Tell whoever listens that a request is out."""
    tell = _TELL.get()
    if tell is not None:
        tell(number)
