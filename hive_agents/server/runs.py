"""Runs: starting, following as a stream, controlling and reading them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from hive_agents import runs as control
from hive_agents.agents import AgentRun, RunLog, RunView, retry, steps_of
from hive_agents.approvals import ApprovalStore, RequestReader, batch_hash
from hive_agents.base import HiveError, NotFound
from hive_agents.base.files import AnyCase, FewEntries, LongText, QuestionText, Reference, ShortName, load_value
from hive_agents.copilot import REMEMBERED, QuestionRun, Request, remembered
from hive_agents.events import EventLog
from hive_agents.host import delete_run
from hive_agents.optimizer import OptimizeRun
from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, ENDED, OPTIMIZER_GRAPH, RunRow, RunStore, Scope
from hive_agents.server import approvals, streams
from hive_agents.server.api import MOST, Api, ApiAnswer, Body, Query, Value
from hive_agents.server.auth import ANYBODY, APPROVER, OPERATOR, READER, Call
from hive_agents.server.protocols.agui_events import shown_result
from hive_agents.server.run_stream import RunStream
from hive_agents.server.shapes import Acknowledged, FilterWords, PageQuery, Pinned, RunSummary, stale_cursor

api = Api("runs")
Graph = Annotated[Literal["worker", "event_loop", "optimizer"], AnyCase]
RunStatus = Annotated[Literal["queued", "running", "waiting", "paused", "done", "failed", "stopped"], AnyCase]


class StartRun(Body):
    """`worker` answers a question, `event_loop` runs the agent that `agent` names, `optimizer` improves the config."""

    graph: Graph = "worker"
    agent: ShortName | None = None
    input: dict[str, Any] = {}
    thread_id: ShortName | None = None


class QuestionInput(Body):
    """The input of `worker`. `filters` have the syntax of the command line, `pinned` the shape of a reply's filters; no
    filter on a field in `dropped` is read from the text. `before` are earlier questions of a conversation that this
    server doesn't know, oldest first, as the context of a follow-up."""

    text: QuestionText
    before: Annotated[list[QuestionText], Field(max_length=REMEMBERED)] = []
    doc_id: Reference | None = None
    filters: FilterWords = []
    pinned: Pinned = []
    dropped: Annotated[list[ShortName], FewEntries] = []
    cursor: Reference | None = None


class OptimizeInput(Body):
    """The input of `optimizer`: budgets, and whether a config that is proved better is deployed."""

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
    """`result` is a reply, or the result of an agent or the optimizer; null while there is none for this reader."""

    run: RunSummary
    agent: str | None
    result: dict[str, Any] | None
    approval_ids: list[str]


class TrialsPage(Query):
    """Trials `after` a number, in order, or with `newest` those `before` one, in reverse."""

    limit: Annotated[int, Field(ge=1, le=2000)] = 500
    after: Annotated[int, Field(ge=0, le=MOST)] = 0
    newest: bool = False
    before: Annotated[int, Field(ge=1, le=MOST)] | None = None
    verdict: Literal["accept", "retry", "invalid", "unavailable"] | None = None


class Trial(Value):
    """A config that the optimizer tried: its changes, its figures on the open queries, and the verdict."""

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
    """The state of an optimizer's run: `total` counts its trials; `result` is null while it is at work.

    `losses` are the causes of its diagnosis: of `n` queries `queries` lose, and `points` of nUDCG could be had.
    """

    run: RunSummary
    total: int
    evaluations: int
    stopped_by: str | None
    diagnosis: str | None
    losses: list[dict[str, Any]]
    fallbacks: list[dict[str, Any]]
    unavailable: str | None
    trials: list[Trial]
    more: bool
    result: dict[str, Any] | None


class RunTimeline(Value):
    events: list[dict[str, Any]]


class RunStepShape(Value):
    """A turn of a model, a call of a tool or a judgement; `step` is that of the messages that it made, `seconds` its
    work without waiting for people. `started_at` is to the second; `ok` is null while it is under way, and of one that
    was cut off."""

    step: str
    node: str | None
    kind: Literal["model", "tool", "judge"]
    name: str
    ok: bool | None
    attempts: int
    tokens: int
    usd: float
    seconds: float
    started_at: str


class RunSteps(Value):
    steps: list[RunStepShape]


class RunMessages(Value):
    messages: list[dict[str, Any]]


class Batch(Value):
    """The calls that a run waits to make; `batch` names exactly these to decide at once, null where some are hidden."""

    run_id: str
    batch: str | None
    items: list[dict[str, Any]]


class Said(Body):
    text: Annotated[LongText, Field(min_length=1)]


class Retried(Body):
    node: ShortName | None = None


@api.post("/api/runs", ANYBODY, status=202, keyed=True)
async def start_run(call: Call, body: StartRun) -> RunStarted | ApiAnswer:
    """Start a run: readers start questions, operators agents and the optimizer."""
    row = await started(call, body, call.request.headers.get("idempotency-key"))
    value = RunStarted(
        run_id=row.run_id, thread_id=row.thread_id, status=row.status, events=f"/api/runs/{row.run_id}/events"
    )
    return ApiAnswer(value, headers={"Location": f"/api/runs/{row.run_id}"})


async def started(call: Call, wanted: StartRun, key: str | None = None) -> RunRow:
    """Queue a run and return its row; for a question the index is refreshed first.

    Raises: HIVE-415 where the caller's roles don't permit such a run, HIVE-433 where they have too many under way.
    """
    call.require(READER if wanted.graph == CHAT_GRAPH else OPERATOR)
    if wanted.graph == CHAT_GRAPH:
        await call.freshness.current()
    with call.host.dispatcher.precedence.first():
        row = await call.in_thread(_inserted, call, wanted, key)
    call.wake()
    return row


def _inserted(call: Call, wanted: StartRun, key: str | None) -> RunRow:
    key = call.own_key(key) if key else None
    require_room(call, key, questions=wanted.graph == CHAT_GRAPH)
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
    return _optimize(call, load_value(OptimizeInput, wanted.input, "input"), key)


def require_room(call: Call, key: str | None, *, questions: bool) -> None:
    """Raises: HIVE-433 where the caller has too many runs under way, or, before `questions`, too many records.

    A repeated request gets the run of its `key`, also while there is no room for another.
    """
    if key is None or not RunStore(call.workspace).has_key(key, tenant=call.principal.tenant):
        call.request.app.state.rates.require_room(call.principal)
        if questions:
            call.require_kept()


def ask(call: Call, question: QuestionInput, thread_id: str | None, key: str | None = None) -> RunRow:
    """Queue a question."""
    pinned = [*(call.chat().filters(question.filters) if question.filters else ()), *question.pinned]
    fields = question.model_dump(include={"text", "doc_id", "dropped", "cursor"})
    request = Request(**fields, pinned=pinned, before=remembered(question.before))
    return QuestionRun.queue(call.workspace, call.principal, request, thread_id, key=key)[0]


def _optimize(call: Call, wanted: OptimizeInput, key: str | None) -> RunRow:
    budgets = wanted.model_dump(exclude={"deploy"}, exclude_none=True)
    call.freshness.refresh(now=True)
    return OptimizeRun.start(
        call.workspace,
        golden=None,
        deploy=wanted.deploy,
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
    if query.cursor is not None:
        try:
            scope.run(call.workspace, query.cursor)
        except NotFound:
            raise stale_cursor() from None
    rows = scope.runs(call.workspace, query.status, limit=query.limit + 1, before=query.cursor, graph=graph)
    shown = [RunSummary.of(row, call.principal) for row in rows[: query.limit]]
    return RunList(runs=shown, next_cursor=shown[-1].run_id if len(rows) > query.limit else None)


@api.get("/api/runs/{run_id}", ANYBODY)
def show_run(call: Call, run_id: str) -> RunShown:
    """One run: its state and its result."""
    row = _run(call, run_id)
    result = shown_result(call, run_id)
    approval_ids = (row.result or {}).get("approval_ids", []) if row.status == "waiting" else []
    return RunShown(run=RunSummary.of(row, call.principal), agent=row.agent, result=result, approval_ids=approval_ids)


@api.get("/api/runs/{run_id}/events", ANYBODY, media="text/event-stream")
async def run_events(call: Call, run_id: str) -> Response:
    """The events of a run as AG-UI events; with Last-Event-ID those after it."""
    after = streams.position(call.request.headers.get("last-event-id"))
    with call.host.dispatcher.precedence.first():
        row = await run_in_threadpool(_run, call, run_id)
    if row.status in ENDED and after != (0, 0) and await run_in_threadpool(_has_all, call, run_id, after[0]):
        return Response(status_code=204)  # an EventSource doesn't reconnect after this status
    return follow(call, row, after)


def follow(
    call: Call, row: RunRow, after: tuple[int, int] = (0, 0), names: tuple[str, str] | None = None
) -> StreamingResponse:
    return streams.response(call, RunStream(call, call.request.app.state.feed, row, after, names=names).frames())


@api.get("/api/runs/{run_id}/trials", OPERATOR)
def show_trials(call: Call, run_id: str, query: TrialsPage) -> Trials:
    """The trials of an optimizer's run so far."""
    row = _run(call, run_id)
    if row.graph != OPTIMIZER_GRAPH:
        raise NotFound.of("HIVE-409", f"{run_id} is no run of the optimizer", fix="POST /api/runs starts one")
    search = OptimizeRun(call.workspace, row)
    state = search.shown_to(call.reaches(), search.progress())
    rows: list[dict[str, Any]] = state["rows"]
    numbers = range(query.after + 1, min(query.before or len(rows) + 1, len(rows) + 1))
    wanted = (n for n in (reversed(numbers) if query.newest else numbers)
              if query.verdict in (None, rows[n - 1]["verdict"]))  # fmt: skip
    page = list(islice(wanted, query.limit + 1))
    fields = [name for name in Trial.model_fields if name != "number"]
    result = search.shown_to(call.reaches(), row.result)
    return Trials(
        run=RunSummary.of(row, call.principal),
        total=len(rows),
        trials=[Trial(number=n, **{name: rows[n - 1][name] for name in fields}) for n in page[: query.limit]],
        more=len(page) > query.limit,
        result={name: part for name, part in result.items() if name != "iterations"} if result else None,
        **{name: value for name, value in state.items() if name != "rows"},
    )


@api.get("/api/runs/{run_id}/timeline", ANYBODY)
def run_timeline(call: Call, run_id: str) -> RunTimeline:
    """The logged events of a run, in order; `seq` counts them, as it does in the run's stream."""
    row, reader = _run(call, run_id), call.reaches()
    view = RunView(call.workspace, run_id, row.tenant, reader)
    events = enumerate(EventLog(call.workspace).replay(run_id=run_id), start=1)
    shown = [replace(event, seq=number, payload=view.payload(event.payload)) for number, event in events]
    return RunTimeline(events=[event.to_json() for event in shown])


@api.get("/api/runs/{run_id}/steps", ANYBODY)
def run_steps(call: Call, run_id: str) -> RunSteps:
    """The steps of an agent's run, with what each took, in the order in which they began."""
    found = steps_of(call.workspace, _run(call, run_id).run_id)
    return RunSteps(steps=[RunStepShape(**asdict(one)) for one in found])


@api.get("/api/runs/{run_id}/messages", ANYBODY)
def run_messages(call: Call, run_id: str) -> RunMessages:
    """The messages of an agent's run; what may quote a document that the caller may not view is withheld."""
    return RunMessages(messages=RunLog(call.workspace, _run(call, run_id), call.reaches).new())


@api.get("/api/runs/{run_id}/approvals", APPROVER)
def run_approvals(call: Call, run_id: str) -> Batch:
    """The tool calls that a run waits to make, and the name by which exactly these can be decided at once."""
    reader = RequestReader(call.workspace, call.reaches())
    pending = ApprovalStore(call.workspace).batch(run_id)
    shown = [reader.shown(one) for one in pending if reader.may_read(one)]
    batch = f"{run_id}:{batch_hash(pending)[:24]}" if pending and len(shown) == len(pending) else None
    return Batch(run_id=run_id, batch=batch, items=[approvals.whole(call, one) for one in shown])


@api.post("/api/runs/{run_id}/stop", ANYBODY)
def stop_run(call: Call, run_id: str) -> RunSummary:
    """Stop a run: at once, or after its present step."""
    return _controlled(call, run_id, control.stop)


@api.post("/api/runs/{run_id}/pause", ANYBODY)
def pause_run(call: Call, run_id: str) -> RunSummary:
    """Pause a run until it is resumed."""
    return _controlled(call, run_id, control.pause)


@api.post("/api/runs/{run_id}/resume", ANYBODY)
def resume_run(call: Call, run_id: str) -> RunSummary:
    """Put a run that was paused or stopped back into the queue."""
    call.request.app.state.rates.require_room(call.principal)
    return _controlled(call, _going_on(call, run_id).run_id, control.resume)


@api.post("/api/runs/{run_id}/retry", ANYBODY)
def retry_run(call: Call, run_id: str, body: Retried) -> RunSummary:
    """Continue a failed run from its last successful step."""
    call.request.app.state.rates.require_room(call.principal)
    row = asyncio.run(retry(call.workspace, _going_on(call, run_id).run_id, call.by, node=body.node))
    call.wake()
    return RunSummary.of(row, call.principal)


@api.post("/api/runs/{run_id}/messages", ANYBODY)
def say(call: Call, run_id: str, body: Said) -> Acknowledged:
    """Send a message to a run's agent, which reads it before its next turn."""
    key = call.request.headers.get("idempotency-key")
    control.say(call.workspace, _going_on(call, run_id).run_id, body.text, key=key)
    return Acknowledged()


@api.delete("/api/runs/{run_id}", ANYBODY)
def forget_run(call: Call, run_id: str) -> Acknowledged:
    """Delete a run that isn't under way."""
    delete_run(call.workspace, _run(call, run_id).run_id)
    return Acknowledged()


def _run(call: Call, run_id: str) -> RunRow:
    """Return a run of the caller's. Raises: HIVE-409 (404) for one out of their reach, as for an unknown one."""
    return Scope(call.reaches()).run(call.workspace, run_id)


def _going_on(call: Call, run_id: str) -> RunRow:
    """Return a run of the caller's, of a kind that they may start now: who operates no longer may only end theirs.

    Raises: as `_run`; HIVE-415."""
    row = _run(call, run_id)
    call.require(READER if row.graph == CHAT_GRAPH else OPERATOR)
    return row


def _controlled(call: Call, run_id: str, act: Any) -> RunSummary:
    row = act(call.workspace, _run(call, run_id).run_id, call.by)
    call.wake()
    return RunSummary.of(row, call.principal)


def abandon(call: Call, run_id: str) -> None:
    """Stop a run whose client has disconnected, unless it has ended."""
    if RunStore(call.workspace).get(run_id).status not in ENDED:
        control.stop(call.workspace, run_id, call.by)


def _has_all(call: Call, run_id: str, number: int) -> bool:
    return len(EventLog(call.workspace).replay(run_id=run_id)) <= number
