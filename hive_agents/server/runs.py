"""Runs: started by a request and worked on by a host; followed as a stream, steered, and read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from hive_agents import runs as control
from hive_agents.agents import RunLog, RunView
from hive_agents.approvals import ApprovalStore, RequestReader, batch_hash
from hive_agents.copilot import REMEMBERED, DocumentFilter, Request, remembered
from hive_agents.errors import HiveError, NotFound
from hive_agents.events import EventLog
from hive_agents.files import AnyCase, load_value
from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, ENDED, OPTIMIZER_GRAPH, RunRow, RunStore, Scope
from hive_agents.runtime import AgentRun, OptimizeRun, QuestionRun, delete_run, retry
from hive_agents.server import streams
from hive_agents.server.api import MOST, Api, ApiAnswer, Body, Query, Value
from hive_agents.server.auth import ANYBODY, APPROVER, OPERATOR, READER, Call
from hive_agents.server.protocols.agui_events import shown_result
from hive_agents.server.run_stream import RunStream
from hive_agents.server.shapes import Acknowledged, PageQuery, RunSummary

api = Api("runs")
Graph = Annotated[Literal["worker", "event_loop", "optimizer"], AnyCase]
RunStatus = Annotated[Literal["queued", "running", "waiting", "paused", "done", "failed", "stopped"], AnyCase]


class StartRun(Body):
    """`worker` answers a question, `event_loop` runs the agent that `agent` names, `optimizer` improves the config."""

    graph: Graph = "worker"
    agent: str | None = None
    input: dict[str, Any] = {}
    thread_id: str | None = None


class QuestionInput(Body):
    """The input of `worker`; `filters` as the command line writes them, `pinned` as a reply has them; of the fields in
    `dropped` no filter is read out of the text. `before` are the reader's own earlier questions, oldest first, of a
    conversation that this server doesn't know: a follow-up is read in their light."""

    text: str
    before: Annotated[list[str], Field(max_length=REMEMBERED)] = []
    doc_id: str | None = None
    filters: list[str] = []
    pinned: list[DocumentFilter] = []
    dropped: list[str] = []
    cursor: str | None = None


class OptimizeInput(Body):
    """The input of `optimizer`: budgets, and whether what is proved is deployed."""

    deploy: bool = True
    iterations: Annotated[int, Field(ge=1, le=MOST)] | None = None
    patience: Annotated[int, Field(ge=1, le=MOST)] | None = None
    seconds: Annotated[float, Field(gt=0)] | None = None
    evaluations: Annotated[int, Field(ge=1, le=MOST)] | None = None
    llm_calls: Annotated[int, Field(ge=0, le=MOST)] | None = None
    max_usd: Annotated[float, Field(ge=0)] | None = None
    seed: Annotated[int, Field(ge=0, le=MOST)] | None = None


class RunStarted(Value):
    """`events` is the path of the run's stream."""

    run_id: str
    thread_id: str
    status: str
    events: str


class RunsPage(PageQuery):
    status: RunStatus | None = None
    graph: Graph | None = None


class RunList(Value):
    runs: list[RunSummary]
    next_cursor: str | None


class RunShown(Value):
    """`result` is a reply, or what an agent or the optimizer came to; null while there is none for this reader."""

    run: RunSummary
    agent: str | None
    result: dict[str, Any] | None
    approval_ids: list[str]


class TrialsPage(Query):
    """Those after a number in their order, or with `newest` those before one, backwards."""

    limit: Annotated[int, Field(ge=1, le=2000)] = 500
    after: Annotated[int, Field(ge=0, le=MOST)] = 0
    newest: bool = False
    before: Annotated[int, Field(ge=1, le=MOST)] | None = None
    verdict: Literal["accept", "retry", "invalid", "unavailable"] | None = None


class Trial(Value):
    """A config that the optimizer tried: its change, its figures on the open queries, and what was said of it."""

    number: int
    n: int
    config: str | None
    changes: list[dict[str, Any]]
    step: str
    reason: str
    cause: str
    proposer: str
    train: float | None
    validation: float | None
    distractors: float | None
    verdict: str
    feedback: str


class Trials(Value):
    """An optimizer's run as it stands: `total` trials were judged; `result`, less these, is there once it rests."""

    run: RunSummary
    total: int
    evaluations: int
    stopped_by: str | None
    diagnosis: str | None
    fallbacks: list[dict[str, Any]]
    unavailable: str | None
    trials: list[Trial]
    more: bool
    result: dict[str, Any] | None


class RunTimeline(Value):
    events: list[dict[str, Any]]


class RunMessages(Value):
    messages: list[dict[str, Any]]


class Batch(Value):
    """The calls that a run waits to make; `batch` decides just these at once, null where some can't be read."""

    run_id: str
    batch: str | None
    items: list[dict[str, Any]]


class Said(Body):
    text: Annotated[str, Field(min_length=1, max_length=20_000)]


class Retried(Body):
    node: str | None = None


@api.post("/api/runs", ANYBODY, status=202, keyed=True)
async def start_run(call: Call, body: StartRun) -> RunStarted | ApiAnswer:
    """Start a run. Questions are a reader's; agents and the optimizer an operator's."""
    row = await started(call, body, call.request.headers.get("idempotency-key"))
    value = RunStarted(
        run_id=row.run_id, thread_id=row.thread_id, status=row.status, events=f"/api/runs/{row.run_id}/events"
    )
    return ApiAnswer(value, headers={"Location": f"/api/runs/{row.run_id}"})


async def started(call: Call, wanted: StartRun, key: str | None = None) -> RunRow:
    """Return the row of a run that a host will take; a question is asked of the documents as they are now.

    Raises: HIVE-415 where the caller's roles don't start such a run, HIVE-433 where too many of theirs are under way.
    """
    call.require(READER if wanted.graph == CHAT_GRAPH else OPERATOR)
    if wanted.graph == CHAT_GRAPH:
        await call.freshness.current()
    with call.host.dispatcher.precedence.first():
        row = await run_in_threadpool(_inserted, call, wanted, key)
    call.wake()
    return row


def _inserted(call: Call, wanted: StartRun, key: str | None) -> RunRow:
    key = f"{call.principal.user}/{key}" if key else None  # one person's key is not another's
    # Who repeats a request under its key gets the run that it started, also while there is no room for another.
    if key is None or not RunStore(call.workspace).has_key(key, tenant=call.principal.tenant):
        call.request.app.state.rates.require_room(call.workspace, call.principal)
    if wanted.agent is not None and wanted.graph != AGENT_GRAPH:
        raise HiveError.of("HIVE-409", "only event_loop runs an agent", fix='leave "agent" out', exit_code=2)
    if wanted.graph == CHAT_GRAPH:
        return ask(call, load_value(QuestionInput, wanted.input, "input"), wanted.thread_id, key)
    if wanted.thread_id is not None:
        raise HiveError.of("HIVE-409", "only questions have threads", fix='leave "thread_id" out', exit_code=2)
    if wanted.graph == AGENT_GRAPH:
        if wanted.agent is None:
            fix = "name one: GET /api/agents lists them"
            raise HiveError.of("HIVE-106", '"agent" is missing', file="body", path="agent", fix=fix)
        return AgentRun.start(
            call.workspace, wanted.agent, wanted.input, principal=call.principal, key=key, hold=False
        ).row
    return _search(call, load_value(OptimizeInput, wanted.input, "input"), key)


def ask(call: Call, question: QuestionInput, thread_id: str | None, key: str | None = None) -> RunRow:
    """Leave a question for a host."""
    pinned = [*call.chat().filters(question.filters), *question.pinned] if question.filters else question.pinned
    told = question.model_dump(include={"text", "doc_id", "dropped", "cursor"})
    request = Request(**told, pinned=pinned, before=remembered(question.before))
    return QuestionRun.queue(call.workspace, call.principal, request, thread_id, key=key)[0]


def _search(call: Call, search: OptimizeInput, key: str | None) -> RunRow:
    budgets = search.model_dump(exclude={"deploy"}, exclude_none=True)
    call.freshness.refresh(now=True)
    return OptimizeRun.start(
        call.workspace,
        golden=None,
        deploy=search.deploy,
        settings=budgets,
        hold=False,
        owner=call.principal,
        key=key,
    ).row


@api.get("/api/runs", ANYBODY)
def list_runs(call: Call, query: RunsPage) -> RunList:
    """The runs that the caller may see, newest first."""
    return runs_of(call, query, query.graph)


def runs_of(call: Call, query: RunsPage, graph: str | Sequence[str] | None) -> RunList:
    """Return the page of the runs of some graphs that the caller may see, newest first."""
    scope = Scope(call.reaches())
    found = scope.runs(call.workspace, query.status, limit=query.limit + 1, before=query.cursor, graph=graph)
    shown = [RunSummary.of(row) for row in found[: query.limit]]
    return RunList(runs=shown, next_cursor=shown[-1].run_id if len(found) > query.limit else None)


@api.get("/api/runs/{run_id}", ANYBODY)
def show_run(call: Call, run_id: str) -> RunShown:
    """One run: how it stands, and what it came to."""
    row = _run(call, run_id)
    result = shown_result(call, run_id)
    asked = (row.result or {}).get("approval_ids", []) if row.status == "waiting" else []
    return RunShown(run=RunSummary.of(row), agent=row.agent, result=result, approval_ids=asked)


@api.get("/api/runs/{run_id}/events", ANYBODY, media="text/event-stream")
async def run_events(call: Call, run_id: str) -> Response:
    """What happens in a run, as AG-UI events; with Last-Event-ID what happened since."""
    after = streams.position(call.request.headers.get("last-event-id"))
    with call.host.dispatcher.precedence.first():
        row = await run_in_threadpool(_run, call, run_id)
    if row.status in ENDED and after != (0, 0) and await run_in_threadpool(_has_all, call, run_id, after[0]):
        return Response(status_code=204)  # a client that follows doesn't come back after this
    return follow(call, row, after)


def follow(
    call: Call, row: RunRow, after: tuple[int, int] = (0, 0), names: tuple[str, str] | None = None
) -> StreamingResponse:
    return streams.response(RunStream(call, call.request.app.state.feed, row, after, names=names).frames())


@api.get("/api/runs/{run_id}/trials", OPERATOR)
def show_trials(call: Call, run_id: str, query: TrialsPage) -> Trials:
    """What an optimizer tried so far, while it is at work, too."""
    row = _run(call, run_id)
    if row.graph != OPTIMIZER_GRAPH:
        raise NotFound.of("HIVE-409", f"{run_id} is no run of the optimizer", fix="POST /api/runs starts one")
    state = OptimizeRun(call.workspace, row).progress()
    rows: list[dict[str, Any]] = state["rows"]
    numbers = range(query.after + 1, min(query.before or len(rows) + 1, len(rows) + 1))
    wanted = (n for n in (reversed(numbers) if query.newest else numbers)
              if query.verdict in (None, rows[n - 1]["verdict"]))  # fmt: skip
    found = list(islice(wanted, query.limit + 1))
    parts = [name for name in Trial.model_fields if name != "number"]
    return Trials(
        run=RunSummary.of(row),
        total=len(rows),
        trials=[Trial(number=n, **{name: rows[n - 1][name] for name in parts}) for n in found[: query.limit]],
        more=len(found) > query.limit,
        result={name: part for name, part in row.result.items() if name != "iterations"} if row.result else None,
        **{name: state[name] for name in ("evaluations", "stopped_by", "diagnosis", "fallbacks", "unavailable")},
    )


@api.get("/api/runs/{run_id}/timeline", ANYBODY)
def run_timeline(call: Call, run_id: str) -> RunTimeline:
    """The logged events of a run, in order."""
    row, reader = _run(call, run_id), call.reaches()
    view = RunView(call.workspace, run_id, row.tenant, reader)
    found = EventLog(call.workspace).replay(run_id=run_id)
    return RunTimeline(events=[replace(event, payload=view.payload(event.payload)).to_json() for event in found])


@api.get("/api/runs/{run_id}/messages", ANYBODY)
def run_messages(call: Call, run_id: str) -> RunMessages:
    """Who said what in an agent's run; what may quote a document that the caller may not view is withheld."""
    return RunMessages(messages=RunLog(call.workspace, _run(call, run_id), call.reaches).new())


@api.get("/api/runs/{run_id}/approvals", APPROVER)
def run_approvals(call: Call, run_id: str) -> Batch:
    """The calls of tools that a run waits to make, and the name under which just these can be decided at once."""
    reader = RequestReader(call.workspace, call.asker.token_holder())
    every = ApprovalStore(call.workspace).batch(run_id)
    shown = [reader.shown(one) for one in every if reader.may_read(one)]
    batch = f"{run_id}:{batch_hash(every)[:24]}" if every and len(shown) == len(every) else None
    return Batch(run_id=run_id, batch=batch, items=[one.to_json() for one in shown])


@api.post("/api/runs/{run_id}/stop", ANYBODY)
def stop_run(call: Call, run_id: str) -> RunSummary:
    """End a run before its time: at once, or after its present step."""
    return _steered(call, run_id, control.stop)


@api.post("/api/runs/{run_id}/pause", ANYBODY)
def pause_run(call: Call, run_id: str) -> RunSummary:
    """Let a run rest until it is resumed."""
    return _steered(call, run_id, control.pause)


@api.post("/api/runs/{run_id}/resume", ANYBODY)
def resume_run(call: Call, run_id: str) -> RunSummary:
    """Put a run that was paused or stopped back into the queue."""
    return _steered(call, run_id, control.resume)


@api.post("/api/runs/{run_id}/retry", ANYBODY)
def retry_run(call: Call, run_id: str, body: Retried) -> RunSummary:
    """Let a failed run go on from its last good step."""
    row = asyncio.run(retry(call.workspace, _run(call, run_id).run_id, call.by, node=body.node))
    call.wake()
    return RunSummary.of(row)


@api.post("/api/runs/{run_id}/messages", ANYBODY)
def say(call: Call, run_id: str, body: Said) -> Acknowledged:
    """Tell a run's agent something, which it reads before its next turn."""
    key = call.request.headers.get("idempotency-key")
    control.say(call.workspace, _run(call, run_id).run_id, body.text, key=key)
    return Acknowledged()


@api.delete("/api/runs/{run_id}", ANYBODY)
def forget_run(call: Call, run_id: str) -> Acknowledged:
    """Forget a run that doesn't go on."""
    delete_run(call.workspace, _run(call, run_id).run_id)
    return Acknowledged()


def _run(call: Call, run_id: str) -> RunRow:
    """Raises: HIVE-409 (404) for a run that the caller doesn't reach, alike for one that doesn't exist."""
    return Scope(call.reaches()).run(call.workspace, run_id)


def _steered(call: Call, run_id: str, act: Any) -> RunSummary:
    row = act(call.workspace, _run(call, run_id).run_id, call.by)
    call.wake()
    return RunSummary.of(row)


def _has_all(call: Call, run_id: str, number: int) -> bool:
    return len(EventLog(call.workspace).replay(run_id=run_id)) <= number
