"""Chat models of LangChain; those of Bedrock use the client of `bedrock`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, NoModel
from hive_agents.base.files import jsontext
from hive_agents.models.bedrock import attempts_until, failure, open_client
from hive_agents.models.failures import refused
from hive_agents.models.model import ChatDelta, ChatResult, Message, ModelError, Tool, ToolCall, Usage, arriving, within
from hive_agents.models.prices import usage_of
from hive_agents.models.structured import IN_WORDS, answer_tool, validated
from hive_agents.models.telemetry import untraced, untraced_steps
from hive_agents.models.threads import from_thread, in_thread

if TYPE_CHECKING:
    from langchain_aws import ChatBedrockConverse
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

EXTRAS = ("openai", "ollama", "anthropic")
_REFUSED = ("content_filter", "content_filtered", "guardrail_intervened", "refusal")
_TOO_LONG = ("length", "max_tokens")
_READ_TIMEOUT = 60.0
"""At least this for a client, as a call's deadline can be longer than that of the settings."""


def open_langchain(name: str, deadline: float) -> LangChainModel:
    """Return a model by `provider:model`.

    Raises: HIVE-401 for a provider that isn't installed or a model that can't be opened.
    """
    provider, _, model = name.partition(":")
    try:
        if provider == "bedrock":
            chat = _open_bedrock(model, deadline)
            return LangChainModel(name, chat, server=chat.client.meta.endpoint_url, blocking=True)
        return LangChainModel(name, _open_other(name), server=provider)
    except HiveError:
        raise
    except Exception as error:  # each provider's package has its own errors, for example for a missing key
        why = f'"{name}" cannot be opened: {(str(error).splitlines() or [type(error).__name__])[0]}'
        raise HiveError.of(
            "HIVE-401", why, file="hive.toml", path="models", fix=_fix(provider, error), exit_code=3
        ) from None


def _fix(provider: str, error: Exception) -> str:
    if provider in EXTRAS and isinstance(error, ImportError):
        return f'pip install "hive-agents[{provider}]"'
    if isinstance(error, ImportError | ValueError):
        server = f"for a server of your own add [models.endpoints.{provider}] with its base_url"
        return f"pip install langchain langchain-{provider}, or check the name; {server}"
    return f"set the key or address that {provider} wants, or check the name"


def _open_bedrock(model: str, deadline: float) -> ChatBedrockConverse:
    from langchain_aws import ChatBedrockConverse

    read_timeout = max(deadline, _READ_TIMEOUT)
    client = open_client("bedrock-runtime", read_timeout)
    # Only an application inference profile is looked up through the control plane.
    control = open_client("bedrock", read_timeout) if "application-inference-profile" in model else client
    return ChatBedrockConverse(model=model, client=client, bedrock_client=control, disable_streaming=True)


def _open_other(name: str) -> BaseChatModel:
    from importlib import import_module

    opened: BaseChatModel = import_module("langchain.chat_models").init_chat_model(name)
    return opened


class LangChainModel:
    """A `ChatModel` of LangChain. `blocking` ones have no async client, so that each call gets a thread."""

    def __init__(self, name: str, chat: BaseChatModel, *, server: str = "", blocking: bool = False) -> None:
        self.name = name
        self.server = server
        self._chat = chat
        self._blocking = blocking

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
        answer = answer_tool(schema, tools)
        bound, in_words = self._bind(schema, answer, tools)
        sampling = {"temperature": temperature, "max_tokens": max_tokens}
        bound = bound.bind(**{name: value for name, value in sampling.items() if value is not None})
        turns = [_turn(message) for message in messages]
        if schema is not None and in_words:
            turns = _with_schema(turns, schema)
        async with within(deadline, self.name):
            reply = await self._invoke(bound, turns, deadline)
        return self._result(reply, schema, {tool.name for tool in tools})

    async def stream(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), deadline: float
    ) -> AsyncGenerator[ChatDelta, None]:
        specs = [_spec(tool.name, tool.description, tool.parameters) for tool in tools]
        bound = self._streaming.bind_tools(specs) if specs else self._streaming
        turns = [_turn(message) for message in messages]
        reply: AIMessageChunk | None = None
        chunks: Any = (
            from_thread(partial(_blocking_stream, bound, turns, deadline)) if self._blocking else bound.astream(turns)
        )
        try:
            async with aclosing(arriving(untraced_steps(chunks), deadline, self.name)) as pieces:
                chunk: AIMessageChunk
                async for chunk in pieces:
                    reply = chunk if reply is None else reply + chunk
                    if chunk.text:
                        yield ChatDelta(text=str(chunk.text))
        except Exception as error:
            failure = failure_of(error, self.name)
            if failure is None:
                raise
            if isinstance(failure, ModelError) and reply is not None:
                failure.usage = self._usage(reply)
            raise failure from (error if failure is not error else None)
        if reply is None:
            raise ModelError("garbage", f"{self.name} answered with nothing", usage=Usage(priced=False))
        self._require_whole_calls(reply)
        yield ChatDelta(text="", result=self._result(reply, None, set()))

    @cached_property
    def _streaming(self) -> BaseChatModel:
        """The model for streams: Bedrock's again, for which langchain-aws decides by its name if it can stream."""
        if not self._blocking:
            return self._chat
        from langchain_aws import ChatBedrockConverse

        chat: Any = self._chat
        return ChatBedrockConverse(
            model=chat.model_id, provider=chat.provider, client=chat.client, bedrock_client=chat.bedrock_client
        )

    def _require_whole_calls(self, reply: AIMessage) -> None:
        """Raise for truncated arguments, whose JSON LangChain repairs: a tool would be called with half of them."""
        for part in getattr(reply, "tool_call_chunks", ()):
            try:
                jsontext.parse(part["args"] or "{}", "arguments")
            except HiveError:
                why = f"{self.name}: the arguments of {part['name']} break off"
                raise ModelError("truncated", why, usage=self._usage(reply)) from None

    async def _invoke(self, bound: Any, turns: list[BaseMessage], deadline: float) -> AIMessage:
        try:
            with untraced():
                answer = await (
                    in_thread(partial(_blocking_call, bound, turns, deadline))
                    if self._blocking
                    else bound.ainvoke(turns)
                )
        except Exception as error:
            raise failure_of(error, self.name) or error from error
        from langchain_core.messages import AIMessage

        if not isinstance(answer, AIMessage):
            raise ModelError("garbage", f"{self.name} answered with {type(answer).__name__}")
        return answer

    def _bind(self, schema: dict[str, Any] | None, answer: str, tools: Sequence[Tool]) -> tuple[Any, bool]:
        """Return the model with its tools, and whether the schema must go into the prompt as no tool can be forced."""
        specs = [_spec(tool.name, tool.description, tool.parameters) for tool in tools]
        if schema is None:
            return (self._chat.bind_tools(specs) if specs else self._chat), False
        specs.append(_spec(answer, schema.get("description") or "Gives the answer.", schema))
        for choice in ("any",) if tools else (answer, "any"):
            try:
                return self._chat.bind_tools(specs, tool_choice=choice), False
            except (ValueError, NotImplementedError):
                continue
        return (self._chat.bind_tools(specs[:-1]) if tools else self._chat), True

    def _result(self, reply: AIMessage, schema: dict[str, Any] | None, offered: set[str]) -> ChatResult:
        usage = self._usage(reply)
        text = str(reply.text)
        calls = [ToolCall(name=call["name"], args=call["args"], id=call["id"] or "") for call in reply.tool_calls]
        stopped = str(reply.response_metadata.get("stopReason") or reply.response_metadata.get("finish_reason") or "")
        if stopped in _REFUSED or reply.additional_kwargs.get("refusal"):
            raise ModelError("refusal", f"{self.name} refused: {stopped or text[:300]}", usage=usage)
        if reply.invalid_tool_calls and stopped in _TOO_LONG:
            raise ModelError("truncated", f"{self.name}: a tool call that breaks off", usage=usage)
        if reply.invalid_tool_calls:
            raise ModelError("garbage", f"{self.name}: a tool call that cannot be parsed", usage=usage)
        # A call of a tool that the caller doesn't have is the answer.
        others = [call for call in calls if schema is None or call.name in offered]
        arguments = next((call.args for call in calls if call not in others), None)
        structured = None
        if schema is not None and (arguments is not None or not others):
            structured = validated(text if arguments is None else arguments, schema, usage=usage)
        return ChatResult(text=text, structured=structured, tool_calls=others, usage=usage, model=self.name)

    def _usage(self, reply: AIMessage) -> Usage:
        counted = reply.usage_metadata
        if not counted or counted["input_tokens"] <= 0:  # zero is no count
            return Usage(priced=False)
        return usage_of(self.name, counted["input_tokens"], counted["output_tokens"])


def _blocking_call(bound: Any, turns: list[BaseMessage], deadline: float) -> Any:
    with attempts_until(deadline):
        return bound.invoke(turns)


def _blocking_stream(bound: Any, turns: list[BaseMessage], deadline: float) -> Generator[AIMessageChunk, None, None]:
    with attempts_until(deadline):
        yield from bound.stream(turns)


def _spec(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _turn(message: Message) -> BaseMessage:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    if message.role == "system":
        return SystemMessage(message.content)
    if message.role == "tool":
        return ToolMessage(message.content, tool_call_id=message.tool_call_id)
    if message.role == "assistant":
        calls: Any = [{"name": call.name, "args": call.args, "id": call.id} for call in message.tool_calls]
        return AIMessage(message.content, tool_calls=calls)
    return HumanMessage(message.content)


def _with_schema(turns: list[BaseMessage], schema: dict[str, Any]) -> list[BaseMessage]:
    import json

    from langchain_core.messages import SystemMessage

    words = IN_WORDS + json.dumps(schema)
    if turns and isinstance(turns[0], SystemMessage):
        return [SystemMessage(f"{turns[0].text}\n\n{words}"), *turns[1:]]
    return [SystemMessage(words), *turns]


def failure_of(error: Exception, name: str) -> Exception | None:
    """Return a provider's error as one of the model `name`; None for one that looks like a bug of this program."""
    if isinstance(error, ModelError | HiveError | TimeoutError):
        return error
    cause: BaseException | None = error
    while cause is not None:  # langchain-aws wraps some of boto3's errors
        boto_failure = failure(cause, name)
        if boto_failure is not None:
            return boto_failure
        cause = cause.__cause__ or cause.__context__
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    class_names = [cls.__name__ for cls in type(error).__mro__]
    if isinstance(status, int):
        return refused(status, f"{name}: {error}", retry_after=_retry_after(response))
    if any("Timeout" in name for name in class_names):
        return ModelError("timeout", f"{name}: {error}")
    if isinstance(error, OSError) or any(name in ("TransportError", "APIConnectionError") for name in class_names):
        return ModelError("server", f"{name}: {error}")
    if isinstance(error, LookupError | ValueError | TypeError):
        return ModelError("garbage", f"{name} answered what cannot be read: {type(error).__name__}: {error}")
    return None


def _retry_after(response: Any) -> float:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (AttributeError, LookupError, TypeError, ValueError):
        return 0.0


def is_outage(error: BaseException | None) -> bool:
    """Return whether `error` or its cause is that a model couldn't be reached, or that there is none.

    >>> is_outage(ModelError("timeout", "late")), is_outage(ModelError("garbage", "?")), is_outage(KeyError("x"))
    (True, False, False)
    """
    while error is not None:
        failure = error if isinstance(error, ModelError) or not isinstance(error, Exception) else failure_of(error, "")
        if isinstance(failure, ModelError):
            return failure.outage
        if isinstance(failure, NoModel):
            return True
        error = error.__cause__
    return False
