"""What every chat model is asked, and what it answers or how it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

from pydantic import Field

from hive_agents.formats import Format

ErrorKind = Literal["throttling", "timeout", "server", "authentication", "garbage", "exhausted"]
PASSING: frozenset[ErrorKind] = frozenset({"throttling", "timeout", "server", "garbage"})
"""What another model may do better; a refused login or a script that ran out is for a person to mend."""


class Usage(Format):
    """Tokens and dollars; `priced` is False where a model's price isn't known and its dollars count 0."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    usd: float = Field(default=0.0, ge=0)
    priced: bool = True

    def __add__(self, other: Usage) -> Usage:
        """
        >>> Usage(input_tokens=3, usd=0.5) + Usage(output_tokens=2, priced=False)
        Usage(input_tokens=3, output_tokens=2, usd=0.5, priced=False)
        """
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=self.usd + other.usd,
            priced=self.priced and other.priced,
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


class ModelError(Exception):
    """No usable answer; `usage` is what the failed call cost all the same."""

    def __init__(self, kind: ErrorKind, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.usage = usage or Usage()


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
    ) -> ChatResult:
        """The answer within `deadline` seconds; `schema` is a JSON schema of an object.

        Raises: ModelError.
        """
        ...


@asynccontextmanager
async def within(deadline: float, name: str) -> AsyncIterator[None]:
    """Whatever takes longer than `deadline` seconds, or times out by itself, is a ModelError."""
    try:
        async with asyncio.timeout(deadline):
            yield
    except TimeoutError:
        raise ModelError("timeout", f"{name} gave no answer within {deadline:g} s") from None
