"""A chat model with scripted answers, for tests and demos: one line of a JSON Lines file for each call."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import Format, jsontext, load_value, read_bytes
from hive_agents.models.model import ChatDelta, ChatResult, Message, ModelError, Tool, ToolCall, arriving, within
from hive_agents.models.prices import usage_of
from hive_agents.models.structured import validated

Failure = Literal["throttling", "timeout", "server", "authentication", "garbage"]


class When(Format):
    contains: str


class Tokens(Format):
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)


class Line(Format):
    """One answer. With `when` it is skipped unless the prompt contains that text."""

    content: str | None = None
    tool_calls: list[ToolCall] = []
    structured: dict[str, Any] | None = None
    error: Failure | None = None
    delay_seconds: float = Field(default=0.0, ge=0)
    when: When | None = None
    repeat: bool = False
    usage: Tokens = Tokens()

    @model_validator(mode="after")
    def _says_something(self) -> Line:
        answers = self.content is not None or self.structured is not None or bool(self.tool_calls)
        if answers == (self.error is not None):
            raise ValueError("a line holds content, tool_calls or structured, or else error")
        return self


class Script:
    """The unused lines of a file, which the models of a run share."""

    def __init__(self, path: Path, shown: str | None = None) -> None:
        self.name = shown or str(path)
        self._remaining = _lines(path, self.name)
        self._taken = 0

    def take(self, prompt: str) -> Line:
        """Return the first line for a prompt, and remove it unless it repeats. Raises: ModelError `exhausted`."""
        for position, line in enumerate(self._remaining):
            if line.when is None or line.when.contains in prompt:
                self._taken += 1
                return line if line.repeat else self._remaining.pop(position)
        why = f"scripted:{self.name} has run out: {self._taken} answers were taken"
        waiting = [line.when.contains for line in self._remaining if line.when]
        if waiting:
            why += f", and {len(waiting)} wait for a prompt that contains {json.dumps(waiting[0], ensure_ascii=False)}"
        raise ModelError("exhausted", why)


class ScriptedModel:
    tells_when_sent = True
    """No request is sent, so that `sent` is never called."""

    def __init__(self, script: Script) -> None:
        self.name = f"scripted:{script.name}"
        self._script = script

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
        line = self._script.take("\n".join(message.content for message in messages))
        async with within(deadline, self.name):
            await asyncio.sleep(line.delay_seconds)
        usage = usage_of(self.name, line.usage.input_tokens, line.usage.output_tokens)
        if line.error is not None:
            raise ModelError(line.error, f"{self.name}: scripted {line.error}", usage=usage)
        structured = line.structured
        if schema is not None and not (line.tool_calls and structured is None):
            answer = structured if structured is not None else line.content or ""
            structured = validated(answer, schema, usage=usage)
        text = line.content
        if text is None:
            text = json.dumps(structured, ensure_ascii=False) if structured is not None else ""
        return ChatResult(text=text, structured=structured, tool_calls=line.tool_calls, usage=usage, model=self.name)

    def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        """Yield the next line word by word, after its delay."""
        return arriving(self._words(messages, tools, deadline), deadline, self.name)

    async def _words(
        self, messages: Sequence[Message], tools: Sequence[Tool], deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        result = await self.complete(messages, tools=tools, deadline=deadline)
        for word in re.findall(r"\s*\S+|\s+$", result.text):
            yield ChatDelta(text=word)
            await asyncio.sleep(0)
        yield ChatDelta(text="", result=result)


def _lines(path: Path, shown: str) -> list[Line]:
    """Return the lines of a script. Raises: HIVE-401 for an unreadable file, else every fault with its line."""
    try:
        text = jsontext.decode(read_bytes(path), shown)
    except OSError as error:
        why = f"the script cannot be read: {error.strerror}"
        raise HiveError.of(
            "HIVE-401", why, file=shown, path="$", fix="name a file of JSON lines", exit_code=3
        ) from None
    lines: list[Line] = []
    faults: list[Diagnostic] = []
    numbered = [(number, raw) for number, raw in enumerate(text.split("\n"), start=1) if raw.strip()]
    for number, raw in numbered:
        try:
            line = load_value(Line, jsontext.parse(raw, shown), shown)
        except HiveError as error:
            faults += [replace(fault, line=number) for fault in error.diagnostics]
            continue
        lines.append(line)
        if line.repeat and line.when is None and number != numbered[-1][0]:
            fix = "move it to the end, or give it a when"
            message = "a line that repeats keeps the lines below it from being reached"
            faults.append(Diagnostic("HIVE-105", message, shown, "repeat", fix, number))
    if faults:
        raise HiveError(faults)
    return lines
