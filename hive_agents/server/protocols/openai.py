"""OpenAI's chat completions: the copilot and each agent as a model. The caller is the holder of the token."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from anyio import CancelScope
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    field_validator,
)
from pydantic_core.core_schema import CoreSchema, no_info_plain_validator_function
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.agents import known_agents
from hive_agents.base import Diagnostic, HiveError, NotFound, unfetched
from hive_agents.base.files import FewEntries, ShortName, jsontext, require_short
from hive_agents.copilot import ThreadStore, remembered
from hive_agents.runs import CHAT_GRAPH, RunRow, RunStore
from hive_agents.server import streams
from hive_agents.server.api import Api, Value, foreign
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.problems import AGAIN, problem, problem_of
from hive_agents.server.protocols.agui import agent_input, asked_in
from hive_agents.server.protocols.agui_events import EventGroup, shown_result
from hive_agents.server.run_stream import RunStream
from hive_agents.server.runs import StartRun, abandon, started
from hive_agents.server.shapes import OPENAI

api = Api("protocols")
COPILOT = "copilot"
AGENT = "agent/"
MOST_MESSAGES = 10_000
"""Messages of a conversation that a client keeps; the questions that count are the last few."""


class _Unsupported(ValueError):
    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class _Only:
    """A parameter that isn't supported: what is the default of OpenAI's API may be sent."""

    def __init__(self, *allowed: Any) -> None:
        self._allowed = (None, *allowed)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_plain_validator_function(self._checked)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": list(self._allowed)}

    def _checked(self, value: Any) -> Any:
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in self._allowed):
            raise _Unsupported("it isn't supported here", "leave it out")
        return value


_TEXTS = ("text", "refusal")


class ChatMessage(BaseModel):
    """One message of the conversation so far; unknown fields are ignored. Its content is text, or parts of text."""

    model_config = ConfigDict(extra="ignore")
    role: ShortName
    content: Any = None

    @field_validator("content")
    @classmethod
    def _text_alone(cls, content: Any) -> Any:
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type", "text") not in _TEXTS:
                raise _Unsupported(f"parts of the type {str(part['type'])[:40]!a} aren't supported here", "send text")
        return content


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False
    include_obfuscation: bool | None = None


class Completion(BaseModel):
    """A request for a chat completion. What can't be honoured is refused by name.

    `user` and `safety_identifier` name nobody: the token says who asks.
    """

    model_config = ConfigDict(extra="forbid")
    model: ShortName = COPILOT
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: Annotated[dict[str, ShortName], FewEntries] | None = None
    user: ShortName | None = None
    safety_identifier: ShortName | None = None
    prompt_cache_key: ShortName | None = None
    audio: Annotated[Any, _Only()] = None
    frequency_penalty: Annotated[Any, _Only(0)] = None
    function_call: Annotated[Any, _Only("none", "auto")] = None
    functions: Annotated[Any, _Only([])] = None
    logit_bias: Annotated[Any, _Only({})] = None
    logprobs: Annotated[Any, _Only(False)] = None
    max_completion_tokens: Annotated[Any, _Only()] = None
    max_tokens: Annotated[Any, _Only()] = None
    modalities: Annotated[Any, _Only(["text"])] = None
    n: Annotated[Any, _Only(1)] = None
    parallel_tool_calls: Annotated[Any, _Only(True, False)] = None
    prediction: Annotated[Any, _Only()] = None
    presence_penalty: Annotated[Any, _Only(0)] = None
    prompt_cache_retention: Annotated[Any, _Only()] = None
    reasoning_effort: Annotated[Any, _Only()] = None
    response_format: Annotated[Any, _Only({"type": "text"})] = None
    seed: Annotated[Any, _Only()] = None
    service_tier: Annotated[Any, _Only("auto", "default")] = None
    stop: Annotated[Any, _Only([])] = None
    store: Annotated[Any, _Only(False)] = None
    temperature: Annotated[Any, _Only(1)] = None
    tool_choice: Annotated[Any, _Only("none", "auto")] = None
    tools: Annotated[Any, _Only([])] = None
    top_logprobs: Annotated[Any, _Only(0)] = None
    top_p: Annotated[Any, _Only(1)] = None
    verbosity: Annotated[Any, _Only("medium")] = None
    web_search_options: Annotated[Any, _Only()] = None


class ModelRow(Value):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "hive"


class ModelList(Value):
    object: str = "list"
    data: list[ModelRow]


class ChatCompletion(Value):
    """A completion in OpenAI's format; `hive` names the run and the thread behind it."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]
    hive: dict[str, Any]


@api.get("/v1/models", ANYBODY)
def models(call: Call) -> ModelList:
    """The copilot, and for operators each agent."""
    agents = sorted(known_agents(call.workspace)) if OPERATOR & call.principal.roles else []
    return ModelList(data=[ModelRow(id=COPILOT), *(ModelRow(id=f"{AGENT}{one}") for one in agents)])


@api.get("/v1/models/{model:path}", ANYBODY)
def one_model(call: Call, model: str) -> ModelRow:
    """One model, as in the list."""
    row = next((one for one in models(call).data if one.id == model), None)
    if row is None:
        raise _no_model(model)
    return row


@api.post("/v1/chat/completions", ANYBODY, takes=Completion)
async def complete(call: Call) -> ChatCompletion | Response:
    """Answer the last message, with the questions before it as context, wherever they were answered."""
    # What doesn't fit is 400 in OpenAI's protocol.
    wanted = await call.in_thread(foreign, Completion, call.request, await call.request.body(), 2)
    if wanted.stream:
        streams.require_room(call)  # before a run begins that nobody would follow
    row = await started(call, *await call.in_thread(_wanted, call, wanted))
    answer = _Answer(call, wanted, row)
    if wanted.stream:
        return streams.response(call, answer.chunks())
    try:
        text = "".join([piece async for piece in answer.pieces() if piece is not None])
    except RunFailed as failure:
        return failure.response()
    return await run_in_threadpool(answer.completion, text)


class RunFailed(Exception):
    """The run behind a completion failed, or was stopped."""

    def __init__(self, message: str, code: str | None) -> None:
        super().__init__(message)
        self._diagnostics = [Diagnostic(code, message)] if code else []
        self._status = 503 if code and HiveError(self._diagnostics).exit_code == 3 else 500

    def response(self) -> Response:
        headers = AGAIN if self._status == 503 else None
        return problem(self._status, str(self), self._diagnostics, headers, path=OPENAI)

    def chunk(self) -> bytes:
        """Return the error as clients read it in a stream."""
        return streams.frame(json.dumps({"error": problem_of(self._status, str(self), self._diagnostics)["error"]}))


def _no_model(name: str) -> NotFound:
    return NotFound.of("HIVE-409", f"there is no model {name[:80]!a}", fix="GET /v1/models lists them")


def _wanted(call: Call, wanted: Completion) -> tuple[StartRun, str | None]:
    """Return the run to start, and its idempotency key."""
    questions = asked_in([one.model_dump() for one in wanted.messages])
    text, key = questions[-1] if questions else "", call.request.headers.get("idempotency-key")
    if wanted.model.startswith(AGENT):
        agent = wanted.model.removeprefix(AGENT)
        return StartRun(
            graph="event_loop", agent=agent, input=agent_input(call, agent, jsontext.object_in(text), text)
        ), key
    if wanted.model != COPILOT:
        raise _no_model(wanted.model)
    require_short(text)
    thread_id, before = (wanted.metadata or {}).get("thread_id"), questions[:-1]
    if thread_id is None and before:
        thread_id = ThreadStore(call.workspace, call.principal).of_questions(before)
    # Answers in the client's messages aren't used: they may have been edited, or be another model's.
    earlier = {"before": remembered(before)} if thread_id is None else {}
    return StartRun(input={"text": text, **earlier}, thread_id=thread_id), key


class _Answer:
    """The answer of one run, as a whole or as a stream."""

    def __init__(self, call: Call, wanted: Completion, row: RunRow) -> None:
        self._call, self._wanted, self._row = call, wanted, row
        self._stream = RunStream(call, call.request.app.state.feed, row, until_rest=True)
        self._facts: dict[str, Any] = {
            "id": f"chatcmpl-{row.run_id}",
            "created": int(time.time()),
            "model": wanted.model,
        }
        self._result: dict[str, Any] = {}
        self._stopped = self._begun = False
        self._tells_usage = wanted.stream_options is not None and wanted.stream_options.include_usage

    async def pieces(self) -> AsyncIterator[str | None]:
        """Yield the text in pieces, with requests that the run waits for, and sources; None for heartbeats.

        Raises: RunFailed.
        """
        async for numbered in self._stream.groups():
            if numbered is None:
                yield None
                continue
            for piece in self._pieces(numbered[1]):
                yield piece
        if self._stopped:
            raise await run_in_threadpool(self._why_stopped)
        result = await run_in_threadpool(shown_result, self._call, self._row.run_id)
        self._result = result or {}
        if sources := sources_of(self._result):
            yield "\n\n" + sources

    def _why_stopped(self) -> RunFailed:
        row = RunStore(self._call.workspace).get(self._row.run_id)
        error: dict[str, Any] = row.summary["error"] or {}
        # What stopped an agent may speak of documents that the caller may not view; the question is their own.
        why = error.get("message") if row.graph == CHAT_GRAPH else None
        return RunFailed(why or "the run was stopped", error.get("code"))

    def _pieces(self, group: EventGroup) -> list[str]:
        pieces = []
        for event in group.events:
            value = event.model_dump(by_alias=True)
            if value["type"] == "TEXT_MESSAGE_START":
                # Of two messages that are harmless each, "!" and "[a](…)", one would be an image.
                pieces += ["\n\n"] if self._begun else []
                self._begun = True
            elif value["type"] == "TEXT_MESSAGE_CONTENT":
                pieces.append(value["delta"])
            elif value["type"] == "RUN_ERROR":
                raise RunFailed(value["message"], value.get("code"))
            elif value["type"] == "RUN_FINISHED" and (value.get("outcome") or {}).get("type") == "cancelled":
                self._stopped = True
            elif value["type"] == "RUN_FINISHED" and (value.get("outcome") or {}).get("type") == "interrupt":
                interrupts = value["outcome"]["interrupts"]
                waits = (f"\n\nWaits for a person: {one['message']} ({one['id']})" for one in interrupts)
                pieces.append(unfetched("".join(waits)))
        return pieces

    def completion(self, text: str) -> ChatCompletion:
        message = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": citations_in(self._result, text),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return ChatCompletion(**self._facts, choices=[choice], usage=self._usage(), hive=self._hive())

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the completion in chunks. A client that disconnects cancels it."""
        text, complete = "", False
        try:
            yield self._chunk({"role": "assistant", "content": ""})
            async for piece in self.pieces():
                text += piece or ""
                yield streams.BEAT if piece is None else self._chunk({"content": piece})
            complete = True
        except RunFailed as failure:
            complete = True
            yield failure.chunk()
            yield b"data: [DONE]\n\n"
            return
        finally:
            if not complete:
                with CancelScope(shield=True):
                    await run_in_threadpool(abandon, self._call, self._row.run_id)
        yield self._chunk({"annotations": citations_in(self._result, text)}, "stop", hive=self._hive())
        if self._tells_usage:
            yield self._chunk(None, usage=self._usage())
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}] if delta is not None else []
        usage = {"usage": None} if self._tells_usage else {}
        value = {**self._facts, "object": "chat.completion.chunk", "choices": choices, **usage, **more}
        return streams.frame(json.dumps(value, ensure_ascii=False))

    def _usage(self) -> dict[str, int]:
        used = self._result.get("usage") or {}
        prompt, completion = int(used.get("input_tokens", 0)), int(used.get("output_tokens", 0))
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _hive(self) -> dict[str, Any]:
        return {"run_id": self._row.run_id, "thread_id": self._row.thread_id}


def sources_of(result: dict[str, Any]) -> str:
    """Return the results that an answer cites, one a line; "" for a reply without an answer."""
    if result.get("status") != "answered":
        return ""
    cited = [one for one in result["results"] if one["citation"] and one["citation"] in (result["answer"] or "")]
    return unfetched("\n".join(f"{one['citation']} {one['title']} ({one['doc_id']})" for one in cited))


def citations_in(result: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """Return OpenAI's `url_citation` annotations: the places of citations in the text, and their documents."""
    from urllib.parse import quote

    citations = []
    for one in result.get("results") or ():
        mark = one["citation"]
        # In a list of passages only a mark before a title is a citation; others are the documents' own text.
        sought = mark if result["status"] == "answered" or not mark else unfetched(f"{mark} {one['title']}")
        start = text.find(sought) if mark else -1
        while start >= 0:
            cited = {"start_index": start, "end_index": start + len(mark), "title": one["title"]}
            cited["url"] = f"/api/documents/{quote(one['doc_id'])}"
            citations.append({"type": "url_citation", "url_citation": cited})
            start = text.find(sought, start + 1)
    return citations
