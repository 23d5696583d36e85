"""A question to the copilot by MCP: progress for each step, then the answer with its sources."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ag_ui.core import StepStartedEvent
from anyio import CancelScope
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from hive_agents.base import HiveError
from hive_agents.copilot import Request
from hive_agents.runs import RunStore
from hive_agents.server.api import Value
from hive_agents.server.auth import Call
from hive_agents.server.protocols.agui_events import shown_result, spoken
from hive_agents.server.protocols.openai import sources_of
from hive_agents.server.run_stream import RunStream
from hive_agents.server.runs import StartRun, abandon, started

if TYPE_CHECKING:
    from hive_agents.server.auth import CallContext

TellStep = Callable[[str], Coroutine[Any, Any, None]]


class CitedAnswer(Value):
    """`text` is the answer with its sources; `results` are what it cites, by their `citation`."""

    run_id: str
    thread_id: str
    status: str
    text: str
    results: list[dict[str, Any]] = Field(description="passages, each with doc_id, title, excerpt, citation")


async def answer(call: CallContext, request: Request, thread_id: str | None, tell: TellStep) -> CitedAnswer:
    """Ask, and report each step. A client that disconnects before the answer cancels the question.

    Raises: as `runs.started`, or `Chat.ask`; HIVE-409 where there is no answer.
    """
    if isinstance(call, Call):
        reply = await _by_host(call, request, thread_id, tell)
    else:
        reply = await _here(call, request, thread_id, tell)
    said = spoken(reply | {"files": []})  # a client of MCP is a model, which gets no word of a reader's own files
    text = "\n\n".join(part for part in (said, sources_of(reply)) if part)
    parts = {name: reply[name] for name in ("run_id", "thread_id", "status", "results")}
    return CitedAnswer(text=text, **parts)


async def _by_host(call: Call, request: Request, thread_id: str | None, tell: TellStep) -> dict[str, Any]:
    row = await started(call, StartRun(input=request.model_dump(exclude_defaults=True), thread_id=thread_id))
    stream = RunStream(call, call.request.app.state.feed, row, until_rest=True)
    complete = False
    try:
        async for step in _steps(stream):
            await tell(step)
        complete = True
    finally:
        if not complete:
            with CancelScope(shield=True):
                await run_in_threadpool(abandon, call, row.run_id)
    reply = await run_in_threadpool(shown_result, call, row.run_id)
    if reply is None:
        status = (await run_in_threadpool(RunStore(call.workspace).get, row.run_id)).status
        raise HiveError.of("HIVE-409", f"run {row.run_id} gave no answer: {status}", fix="ask again", exit_code=1)
    return reply


async def _steps(stream: RunStream) -> AsyncIterator[str]:
    async for numbered in stream.groups():
        for event in numbered[1].events if numbered is not None else ():
            if isinstance(event, StepStartedEvent):
                yield event.step_name


async def _here(call: CallContext, request: Request, thread_id: str | None, tell: TellStep) -> dict[str, Any]:
    await call.freshness.current()
    loop = asyncio.get_running_loop()
    reports: list[concurrent.futures.Future[None]] = []

    async def asked() -> dict[str, Any]:
        chat = call.chat(thread_id)
        notify = lambda step: reports.append(asyncio.run_coroutine_threadsafe(tell(step), loop))  # noqa: E731
        return await chat.ask(request, notify)

    try:
        return await call.beside(asked)
    finally:
        await asyncio.gather(*map(asyncio.wrap_future, reports), return_exceptions=True)
