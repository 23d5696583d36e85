"""OpenAI's chat completions: the copilot and each agent as a model. The caller is the holder of the token."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from anyio import CancelScope
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.agents import known_agents
from hive_agents.base import NotFound
from hive_agents.base.files import FewEntries, ShortName, require_short
from hive_agents.copilot import ThreadStore, remembered
from hive_agents.runs import RunRow
from hive_agents.server import streams
from hive_agents.server.api import Api, Value, foreign
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.protocols.agui import agent_input, asked_in
from hive_agents.server.protocols.agui_events import EventGroup, shown_result
from hive_agents.server.run_stream import RunStream
from hive_agents.server.runs import StartRun, abandon, started

api = Api("protocols")
COPILOT = "copilot"
AGENT = "agent/"
MOST_MESSAGES = 10_000
"""Messages of a conversation that a client keeps; the questions that count are the last few."""


class ChatMessage(BaseModel):
    """One message of the conversation so far; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    role: ShortName
    content: Any = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class Completion(BaseModel):
    """A request for a chat completion. Sampling parameters are accepted and ignored."""

    model_config = ConfigDict(extra="ignore")
    model: ShortName = COPILOT
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions | None = None
    metadata: Annotated[dict[str, ShortName], FewEntries] | None = None


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
    wanted = await call.in_thread(foreign, Completion, call.request, await call.request.body())
    row = await started(call, *await call.in_thread(_wanted, call, wanted))
    answer = _Answer(call, wanted, row)
    if wanted.stream:
        return streams.response(answer.chunks())
    text = "".join([piece async for piece in answer.pieces() if piece is not None])
    return await run_in_threadpool(answer.completion, text)


def _no_model(name: str) -> NotFound:
    return NotFound.of("HIVE-409", f"there is no model {name[:80]!a}", fix="GET /v1/models lists them")


def _wanted(call: Call, wanted: Completion) -> tuple[StartRun, str | None]:
    """Return the run to start, and its idempotency key."""
    questions = asked_in([one.model_dump() for one in wanted.messages])
    text, key = questions[-1] if questions else "", call.request.headers.get("idempotency-key")
    if wanted.model.startswith(AGENT):
        agent = wanted.model.removeprefix(AGENT)
        return StartRun(graph="event_loop", agent=agent, input=agent_input(call, agent, _object(text), text)), key
    if wanted.model != COPILOT:
        raise _no_model(wanted.model)
    require_short(text)
    thread_id, before = (wanted.metadata or {}).get("thread_id"), questions[:-1]
    if thread_id is None and before:
        thread_id = ThreadStore(call.workspace, call.principal).of_questions(before)
    # Answers in the client's messages aren't used: they may have been edited, or be another model's.
    earlier = {"before": remembered(before)} if thread_id is None else {}
    return StartRun(input={"text": text, **earlier}, thread_id=thread_id), key


def _object(text: str) -> dict[str, Any] | None:
    """Return a text's JSON object; None where it isn't one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


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

    async def pieces(self) -> AsyncIterator[str | None]:
        """Yield the text in pieces, with errors, requests that the run waits for, and sources; None for heartbeats."""
        async for numbered in self._stream.groups():
            if numbered is None:
                yield None
                continue
            for piece in self._pieces(numbered[1]):
                yield piece
        result = await run_in_threadpool(shown_result, self._call, self._row.run_id)
        self._result = result or {}
        if sources := sources_of(self._result):
            yield "\n\n" + sources

    def _pieces(self, group: EventGroup) -> list[str]:
        pieces = []
        for event in group.events:
            value = event.model_dump(by_alias=True)
            if value["type"] == "TEXT_MESSAGE_CONTENT":
                pieces.append(value["delta"])
            elif value["type"] == "RUN_ERROR":
                pieces.append(f"\n\n{value.get('code') or 'error'}: {value['message']}")
            elif value["type"] == "RUN_FINISHED" and (value.get("outcome") or {}).get("type") == "interrupt":
                interrupts = value["outcome"]["interrupts"]
                pieces.append("".join(f"\n\nWaits for a person: {one['message']} ({one['id']})" for one in interrupts))
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
        finally:
            if not complete:
                with CancelScope(shield=True):
                    await run_in_threadpool(abandon, self._call, self._row.run_id)
        yield self._chunk({"annotations": citations_in(self._result, text)}, "stop", hive=self._hive())
        options = self._wanted.stream_options
        if options is not None and options.include_usage:
            yield self._chunk(None, usage=self._usage())
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any] | None, reason: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}] if delta is not None else []
        value = {**self._facts, "object": "chat.completion.chunk", "choices": choices, **more}
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
    return "\n".join(f"{one['citation']} {one['title']} ({one['doc_id']})" for one in cited)


def citations_in(result: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """Return OpenAI's `url_citation` annotations: the places of citations in the text, and their documents."""
    from urllib.parse import quote

    citations = []
    for one in result.get("results") or ():
        mark = one["citation"]
        # In a list of passages only a mark before a title is a citation; others are the documents' own text.
        sought = mark if result["status"] == "answered" or not mark else f"{mark} {one['title']}"
        start = text.find(sought) if mark else -1
        while start >= 0:
            cited = {"start_index": start, "end_index": start + len(mark), "title": one["title"]}
            cited["url"] = f"/api/documents/{quote(one['doc_id'])}"
            citations.append({"type": "url_citation", "url_citation": cited})
            start = text.find(sought, start + 1)
    return citations
