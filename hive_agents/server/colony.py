"""The colony: its events, the queen, the agents, and the triggers that start them."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from hive_agents.agents import RunView, known_agents, serving_agent
from hive_agents.base import HiveError
from hive_agents.base.files import LongText
from hive_agents.events import DURABLE, Event, EventLog
from hive_agents.host import Queen
from hive_agents.runs import Scope
from hive_agents.server import streams
from hive_agents.server.api import MOST, Api, Body, Query, Value
from hive_agents.server.auth import OPERATOR, Call
from hive_agents.server.shapes import DiagnosticShape
from hive_agents.triggers import TriggerStore, all_triggers, firing, reached_trigger, reaches, trigger_row

api = Api("colony")
BATCH = 500


class EventsPage(Query):
    """`after` is the `seq` of the last event that the caller has."""

    after: Annotated[int, Field(ge=0, le=MOST)] = 0
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class Events(Value):
    """`next_after` is the `after` of the next page; null at the end of the log."""

    events: list[dict[str, Any]]
    next_after: int | None


class SteeringMessage(Body):
    text: Annotated[LongText, Field(min_length=1)]


class QueenReply(Value):
    """`runs` are the ids of runs in the answer, `actions` what was carried out: {action, run_id, status}."""

    answer: str
    runs: list[str]
    actions: list[dict[str, Any]]
    usage: dict[str, Any]


class Overview(Value):
    """Active runs, open tickets, and the queen's latest actions."""

    runs: list[dict[str, Any]]
    tickets: list[dict[str, Any]]
    actions: list[dict[str, Any]]


class TriggerRow(Value):
    id: str
    type: str
    agent: str
    enabled: bool
    next_at: str | None
    last_at: str | None
    missed: int
    last_run_id: str | None


class TriggerList(Value):
    """`diagnostics` are the errors of triggers that can't be read."""

    triggers: list[TriggerRow]
    diagnostics: list[DiagnosticShape]


class AgentRow(Value):
    """`inputs` are the inputs that a run needs; `diagnostics` say why an agent can't be read, and its rest is null."""

    id: str
    version: int | None
    goal: str | None
    inputs: list[str]
    diagnostics: list[DiagnosticShape]


class AgentList(Value):
    agents: list[AgentRow]


class FireTrigger(Body):
    """`input` overrides the trigger's constant inputs."""

    input: dict[str, Any] = {}


class Fired(Value):
    run_id: str
    status: str


@api.get("/api/events", OPERATOR)
def list_events(call: Call, query: EventsPage) -> Events:
    """The logged events of the caller's tenant, oldest first."""
    logged = _logged(call, query.after, query.limit + 1)
    shown = logged[: query.limit]
    more = len(logged) > query.limit
    return Events(
        events=[_without_quotations(call, one).to_json() for one in shown], next_after=shown[-1].seq if more else None
    )


@api.get("/api/events/stream", OPERATOR, media="text/event-stream")
async def follow_events(call: Call) -> Response:
    """A stream of the events of the caller's tenant; with Last-Event-ID those after it."""
    last_id = call.request.headers.get("last-event-id")
    after = streams.position(last_id)[0] if last_id else await run_in_threadpool(EventLog(call.workspace).last_seq)
    return streams.response(call, _frames(call, after))


async def _frames(call: Call, after: int) -> AsyncIterator[bytes]:
    seen = after

    def last_seen() -> int:
        return seen

    with suppress(HiveError):  # the caller's proof holds no longer: the stream ends, as at a heartbeat
        async with call.request.app.state.feed.watch(call.principal) as watch:
            while True:
                logged = await run_in_threadpool(_logged, call, seen, BATCH)
                for event in logged:
                    seen = event.seq or seen
                    yield await _frame(call, event)
                if len(logged) < BATCH:
                    break
            async for happening in streams.live(call, watch, last_seen):
                if happening is None:
                    yield streams.BEAT
                elif await run_in_threadpool(_reached, call, happening):
                    seen = max(seen, happening.seq or 0)
                    yield await _frame(call, happening)


def _reached(call: Call, event: Event) -> bool:
    return Scope(call.reaches()).tenant in (None, event.tenant)


async def _frame(call: Call, event: Event) -> bytes:
    shown = await run_in_threadpool(_without_quotations, call, event)
    return streams.frame(json.dumps(shown.to_json()), str(event.seq) if event.type in DURABLE else None)


def _logged(call: Call, after: int, limit: int) -> list[Event]:
    tenant = Scope(call.reaches()).tenant
    return EventLog(call.workspace).replay(after, types=DURABLE, tenant=tenant, limit=limit)


def _without_quotations(call: Call, event: Event) -> Event:
    """Return the event without what may quote a document that the caller may not view."""
    reader = call.reaches()
    if reader is None or event.run_id is None:
        return event
    view = RunView(call.workspace, event.run_id, event.tenant, reader)
    return replace(event, payload=view.payload(event.payload))


@api.get("/api/queen", OPERATOR)
def overview(call: Call) -> Overview:
    """The state of the colony, as far as the caller may see it."""
    return Overview(**Queen(call.workspace).overview(call.principal))


@api.post("/api/queen/messages", OPERATOR)
async def ask_queen(call: Call, body: SteeringMessage) -> QueenReply:
    """Ask the queen about runs, or to control them; she has no rights beyond the caller's."""
    return QueenReply(**await Queen(call.workspace, call.host.bus).ask(body.text, call.principal))


@api.get("/api/agents", OPERATOR)
def list_agents(call: Call) -> AgentList:
    """The agents of the workspace, each in its active version; POST /api/runs starts one."""
    return AgentList(agents=[_agent(call, id) for id in known_agents(call.workspace)])


def _agent(call: Call, id: str) -> AgentRow:
    try:
        spec, _ = serving_agent(call.workspace, id)
        inputs = spec.node(spec.entry).input_keys
    except HiveError as error:
        diagnostics = [DiagnosticShape(**one.to_json()) for one in error.diagnostics]
        return AgentRow(id=id, version=None, goal=None, inputs=[], diagnostics=diagnostics)
    except KeyError:  # its entry is none of its nodes: starting the agent reports that
        inputs = []
    return AgentRow(id=id, version=spec.version, goal=spec.goal, inputs=list(inputs), diagnostics=[])


@api.get("/api/triggers", OPERATOR)
def list_triggers(call: Call) -> TriggerList:
    """The triggers of the caller's tenant and of the workspace itself, with the time when each is due."""
    workspace, reader = call.workspace, call.reaches()
    sound, faulty = all_triggers(workspace)
    diagnostics = [DiagnosticShape(**one.to_json()) for error in faulty.values() for one in error.diagnostics]
    rows = [TriggerRow(**trigger_row(workspace, one)) for one in sound if reaches(workspace, one, reader)]
    return TriggerList(triggers=rows, diagnostics=diagnostics)


@api.post("/api/triggers/{trigger_id}/fire", OPERATOR, status=202, keyed=True)
async def fire(call: Call, trigger_id: str, body: FireTrigger) -> Fired:
    """Start a trigger's run now, enabled or not; its schedule stays as it is."""
    spec = await call.in_thread(lambda: reached_trigger(call.workspace, trigger_id, call.reaches()))
    now = dt.datetime.now(dt.UTC)
    sent_key = call.request.headers.get("idempotency-key")
    own = call.own_key(f"fire/{trigger_id}/{sent_key}") if sent_key else None
    key = own or firing.key_of(trigger_id, f"manual-{uuid.uuid4().hex}")
    run_id = await call.host.fire(spec, {**spec.input, **body.input}, key=key, scheduled=now.isoformat())
    store = TriggerStore(call.workspace)
    await run_in_threadpool(store.begin, spec, now)
    await run_in_threadpool(store.fired, trigger_id, run_id)
    return Fired(run_id=str(run_id), status="queued")
