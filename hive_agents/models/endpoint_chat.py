"""Chat models of endpoints, through OpenAI's chat completions and the variants of other servers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from hive_agents.base import HiveError
from hive_agents.base.files import jsontext
from hive_agents.models.abilities import SAMPLES, WAYS, AbilityFile, OutputWay
from hive_agents.models.endpoint import Endpoint
from hive_agents.models.model import (
    ChatDelta,
    ChatResult,
    ErrorKind,
    Message,
    ModelError,
    Tool,
    ToolCall,
    Usage,
    arriving,
    within,
)
from hive_agents.models.prices import estimated_usage, list_price, usage_at
from hive_agents.models.structured import IN_WORDS, answer_tool, validated

PATH = "/chat/completions"
_DISPENSABLE = ("max_tokens", "temperature", "stream_options")
_NOT_TAKEN = ("unsupported", "garbage", "truncated")
"""Failures of a server that doesn't support a way of structured answers."""


class EndpointModel:
    tells_when_sent = True

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self.name = f"{endpoint.name}:{model}"
        self._endpoint, self._model = endpoint, model
        self._price = endpoint.price or list_price(self.name, endpoint.url)
        self.abilities = AbilityFile(endpoint.memory, endpoint.url, model)

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
        body = self._body(messages, tools, temperature=temperature, max_tokens=max_tokens)
        async with within(deadline, self.name):
            if schema is None:
                return self._result(await self._ask(body, deadline), body)
            return await self._structured(body, schema, tools, deadline)

    async def _structured(
        self, body: dict[str, Any], schema: dict[str, Any], tools: Sequence[Tool], deadline: float
    ) -> ChatResult:
        """Request a structured answer in the way that is known to work, or try one way after the other.

        An invalid answer is a failure of the way until one has worked; after that it is the model's.
        """
        known = self.abilities.known.structured
        lost = Usage()
        for way in WAYS if known is None else WAYS[WAYS.index(known) :]:
            try:
                result = await self._in_way(way, body, schema, tools, deadline)
            except ModelError as error:
                error.usage = lost = lost + error.usage
                unsupported = error.kind == "unsupported" or (known is None and error.kind in _NOT_TAKEN)
                if way == WAYS[-1] or not unsupported:
                    raise
                continue
            if way != known and not result.tool_calls:
                self.abilities.learn(lambda old, way=way: old.model_copy(update={"structured": way}))  # type: ignore[misc]
            return result.model_copy(update={"usage": lost + result.usage})
        raise AssertionError("the last way answers or raises")

    async def _in_way(
        self, way: OutputWay, body: dict[str, Any], schema: dict[str, Any], tools: Sequence[Tool], deadline: float
    ) -> ChatResult:
        offered = {tool.name for tool in tools}
        if way == "tool":
            answer = answer_tool(schema, tools)
            spec = _spec(
                Tool(name=answer, description=schema.get("description") or "Gives the answer.", parameters=schema)
            )
            choice: Any = "required" if tools else {"type": "function", "function": {"name": answer}}
            request = {**body, "tools": [*body.get("tools", ()), spec], "tool_choice": choice}
            result = self._result(await self._ask(request, deadline), request)
            arguments = next((call.args for call in result.tool_calls if call.name not in offered), None)
            others = [call for call in result.tool_calls if call.name in offered]
            if arguments is None and not others:
                raise ModelError("garbage", f"{self.name} did not call the tool it had to", usage=result.usage)
            structured = None if arguments is None else validated(arguments, schema, usage=result.usage)
            return result.model_copy(update={"structured": structured, "tool_calls": others})
        if way == "schema":
            form = {"type": "json_schema", "json_schema": {"name": answer_tool(schema, ()), "schema": schema}}
            request = {**body, "response_format": form}
            return self._checked(self._result(await self._ask(request, deadline), request), schema)
        request = {**body, "messages": _in_words(body["messages"], schema)}
        result = self._result(await self._ask(request, deadline), request)
        try:
            return self._checked(result, schema)
        except ModelError as error:
            if error.kind == "truncated":
                raise
            repair = f"That is not what was asked for: {error.message[:500]}\nGive the corrected JSON object alone."
            turns = [{"role": "assistant", "content": result.text}, {"role": "user", "content": repair}]
            request = {**request, "messages": [*request["messages"], *turns]}
            repaired = self._result(await self._ask(request, deadline), request)
            spent = result.usage + repaired.usage
            return self._checked(repaired.model_copy(update={"usage": spent}), schema)

    def _checked(self, result: ChatResult, schema: dict[str, Any]) -> ChatResult:
        """Return the result with its text parsed as the answer, unless the model called tools instead."""
        if result.tool_calls:
            return result
        text = _without_thoughts(result.text)
        try:
            structured = validated(text, schema, usage=result.usage)
        except ModelError as error:
            if _breaks_off(text[text.find("{") :]):
                raise ModelError("truncated", error.message, usage=error.usage) from None
            raise
        return result.model_copy(update={"structured": structured})

    async def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        body = self._body(messages, tools) | {"stream": True, "stream_options": {"include_usage": True}}
        partial = _StreamedMessage()
        async with aclosing(arriving(self._events(body, deadline), deadline, self.name)) as events:
            try:
                async for event in events:
                    text = partial.add(event)
                    if text:
                        yield ChatDelta(text=text)
            except ModelError as error:
                if partial.text or partial.calls or error.kind == "timeout":  # the server goes on, and counts it
                    error.usage = self._usage(partial.usage, body, partial.written)
                raise
        if not partial.finish:
            spent = self._usage(partial.usage, body, partial.written)
            kind: ErrorKind = "server" if partial.text or partial.calls else "garbage"
            raise ModelError(kind, f"{self.name}: the stream ended without an answer", usage=spent)
        yield ChatDelta(text="", result=self._read(partial.message(), partial.finish, partial.usage, body))

    async def _events(self, body: dict[str, Any], deadline: float) -> AsyncGenerator[dict[str, Any], None]:
        while True:
            request = self._without(body)
            try:
                async with aclosing(self._endpoint.events(PATH, request, deadline, self.name)) as events:
                    async for event in events:
                        yield event
                return
            except ModelError as error:
                if not self._dispensed(error, request):
                    raise

    async def _ask(self, body: dict[str, Any], deadline: float) -> dict[str, Any]:
        while True:
            request = self._without(body)
            try:
                return await self._endpoint.post(PATH, request, deadline, self.name)
            except ModelError as error:
                if not self._dispensed(error, request):
                    raise

    def _without(self, body: dict[str, Any]) -> dict[str, Any]:
        request = {key: value for key, value in body.items() if key not in self.abilities.known.without}
        if "max_tokens" in body and "max_tokens" not in request:
            request["max_completion_tokens"] = body["max_tokens"]  # the name that OpenAI's newer models want
        return request

    def _dispensed(self, error: ModelError, request: Mapping[str, Any]) -> bool:
        """Return whether the server refused a parameter that can be left out, and leave it out from now on."""
        refused = next((name for name in _DISPENSABLE if name in request and name in error.message), None)
        if error.kind != "unsupported" or refused is None:
            return False
        self.abilities.learn(lambda old: old.model_copy(update={"without": sorted({*old.without, refused})}))
        return True

    def _body(self, messages: Sequence[Message], tools: Sequence[Tool], **sampling: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": [_turn(message) for message in messages]}
        body |= {name: value for name, value in sampling.items() if value is not None}
        return body | ({"tools": [_spec(tool) for tool in tools]} if tools else {})

    def _result(self, answer: Mapping[str, Any], body: Mapping[str, Any]) -> ChatResult:
        try:
            choice = answer["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
        except (LookupError, TypeError, AttributeError):
            raise ModelError("garbage", f"{self.name} answered without choices") from None
        return self._read(message, finish, answer.get("usage"), body)

    def _read(self, message: Any, finish: Any, usage: Any, body: Mapping[str, Any]) -> ChatResult:
        if not isinstance(message, Mapping):
            raise ModelError("garbage", f"{self.name} answered with a message that is no object")
        text = _text(message.get("content"))
        spent = self._usage(usage, body, _written(text, message.get("tool_calls")))
        if message.get("refusal") or finish == "content_filter":
            why = _text(message.get("refusal")) or "its content filter stopped the answer"
            raise ModelError("refusal", f"{self.name} refused: {why[:300]}", usage=spent)
        calls = self._calls(message.get("tool_calls"), finish, spent)
        if finish == "length" and not text and not calls:
            raise ModelError("truncated", f"{self.name}: its thoughts took all tokens that it may write", usage=spent)
        return ChatResult(text=text, tool_calls=calls, usage=spent, model=self.name)

    def _calls(self, tool_calls: Any, finish: Any, spent: Usage) -> list[ToolCall]:
        calls = []
        for number, call in enumerate(tool_calls or ()):
            try:
                function = call["function"]
                name, arguments = str(function["name"]), function.get("arguments") or {}
            except (LookupError, TypeError, AttributeError):
                raise ModelError("garbage", f"{self.name}: a tool call without a function", usage=spent) from None
            if isinstance(arguments, str):
                arguments = self._arguments(name, arguments, finish, spent)
            if not isinstance(arguments, dict):
                raise ModelError("garbage", f"{self.name}: the arguments of {name} are no object", usage=spent)
            calls.append(ToolCall(name=name, args=arguments, id=str(call.get("id") or f"call_{number}")))
        return calls

    def _arguments(self, name: str, text: str, finish: Any, spent: Usage) -> Any:
        try:
            return jsontext.parse(text, "arguments")
        except HiveError:
            if finish == "length" or _breaks_off(text):
                raise ModelError("truncated", f"{self.name}: the arguments of {name} break off", usage=spent) from None
            raise ModelError("garbage", f"{self.name}: the arguments of {name} are not JSON", usage=spent) from None

    def _usage(self, counted: Any, body: Mapping[str, Any], written: str) -> Usage:
        """Return the server's count, else an estimate by length and by its earlier counts.

        A count of zero is none: with it a budget would never be used up.
        """
        try:
            tokens = int(counted["prompt_tokens"]), int(counted.get("completion_tokens") or 0)
        except (LookupError, TypeError, ValueError, AttributeError):
            tokens = 0, 0
        if tokens[0] <= 0:
            per_token = self.abilities.known.tokens.per_token
            return estimated_usage(self._price, _length(body), len(written), per_token=per_token)
        if self.abilities.known.tokens.samples < SAMPLES:
            sizes = (_length(body), tokens[0]), (len(written), tokens[1])
            with suppress(HiveError):  # without a stored token length, estimates are too high
                self.abilities.learn(lambda old: old.model_copy(update={"tokens": old.tokens.with_answer(*sizes)}))
        return usage_at(self._price, tokens[0], max(0, tokens[1]))


def _length(body: Mapping[str, Any]) -> int:
    return len(json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False))


class _StreamedMessage:
    """The part of a message that a stream has sent so far."""

    def __init__(self) -> None:
        self.text, self.refusal, self.finish = "", "", ""
        self.calls: list[dict[str, Any]] = []
        self._latest: dict[Any, dict[str, Any]] = {}
        self.usage: Any = None

    def add(self, event: Mapping[str, Any]) -> str:
        """Add an event and return its text."""
        self.usage = event.get("usage") or self.usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, Mapping):
            return ""
        delta = choice.get("delta") or choice.get("message") or {}
        self.finish = str(choice.get("finish_reason") or self.finish)
        if "message" in choice:
            self.finish = self.finish or "stop"
        text = _text(delta.get("content"))
        self.text += text
        self.refusal += _text(delta.get("refusal"))
        for part in delta.get("tool_calls") or ():
            self._add_call(part)
        return text

    def _add_call(self, part: Any) -> None:
        if not isinstance(part, Mapping):
            return
        function = part.get("function") or {}
        # Servers that leave out the index send each call as a whole.
        name, id = function.get("name") or "", part.get("id") or ""
        key = part.get("index", len(self.calls) if name else len(self.calls) - 1)
        call = self._latest.get(key)
        # Ollama gives every call the index 0: a name begins the next one under another id, or without ids after a whole
        # call. Others repeat the name with each piece of the arguments.
        ended = call is not None and (call["id"] not in ("", id) if id else _is_whole(call))
        if call is None or (name and ended):
            call = self._latest[key] = {"id": "", "function": {"name": "", "arguments": ""}}
            self.calls.append(call)
        call["id"] = call["id"] or id
        if name != call["function"]["name"]:
            call["function"]["name"] += name
        arguments = function.get("arguments")
        call["function"]["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments or {})

    @property
    def written(self) -> str:
        return _written(self.text, self.calls)

    def message(self) -> dict[str, Any]:
        return {"content": self.text, "refusal": self.refusal, "tool_calls": self.calls}


def _is_whole(call: Mapping[str, Any]) -> bool:
    """Return whether a streamed call has its name and all of its arguments."""
    try:
        json.loads(call["function"]["arguments"])
    except ValueError:
        return False
    return True


def _breaks_off(text: str) -> bool:
    """Return whether a text is the start of JSON that ends too early."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
    except RecursionError:
        pass
    return False


def _text(content: Any) -> str:
    """Return the text of a message; some servers send it as a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _without_thoughts(text: str) -> str:
    """Return an answer without the thoughts that a model wrote into it.

    >>> _without_thoughts(" <think>blue</think>{}"), _without_thoughts("<think>{}")
    ('{}', '<think>{}')
    """
    before, _, rest = text.partition("<think>")
    _, end, after = rest.partition("</think>")
    return before.rstrip() + after if end else text


def _written(text: str, calls: Any) -> str:
    """Return the text and the calls, for their length."""
    return text + (json.dumps(calls) if calls else "")


def _spec(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump()}


def _turn(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        turn["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.args)}}
            for call in message.tool_calls
        ]
    return turn


def _in_words(turns: Sequence[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    words = IN_WORDS + json.dumps(schema)
    if turns and turns[0]["role"] == "system":
        return [{"role": "system", "content": f"{turns[0]['content']}\n\n{words}"}, *turns[1:]]
    return [{"role": "system", "content": words}, *turns]
