"""POST /agui: AG-UI 1.0. A client's run is a run of the workspace, shown under the ids that the client chose."""

from __future__ import annotations

from typing import Any

from ag_ui.core import RunAgentInput
from starlette.responses import Response

from hive_agents.agents import RunLog, serving_agent
from hive_agents.base import HiveError
from hive_agents.base.files import load_value, require_short
from hive_agents.copilot import ThreadStore, remembered
from hive_agents.events import DURABLE, EventLog, EventType
from hive_agents.host import decide
from hive_agents.runs import RunRow, RunStore, Scope
from hive_agents.server import streams
from hive_agents.server.api import Api, foreign, require_references
from hive_agents.server.approvals import Decide, readable
from hive_agents.server.auth import ANYBODY, OPERATOR, Call
from hive_agents.server.run_stream import RunStream
from hive_agents.server.runs import StartRun, require_room, started

api = Api("protocols")


@api.post("/agui", ANYBODY, media="text/event-stream", takes=RunAgentInput)
async def agui(call: Call) -> Response:
    """A turn of the copilot for an AG-UI client; `resume` decides the requests that a run waits for."""
    return await _run(call, None)


@api.post("/agui/{agent}", ANYBODY, media="text/event-stream", takes=RunAgentInput)
async def agui_agent(call: Call, agent: str) -> Response:
    """A run of an agent for an AG-UI client: its inputs are `forwardedProps.input`, or the last message where it has
    just one."""
    return await _run(call, agent)


async def _run(call: Call, agent: str | None) -> Response:
    sent = await call.in_thread(foreign, RunAgentInput, call.request, await call.request.body())
    streams.require_room(call)  # before a run begins that nobody would follow
    if sent.resume:
        row, after = await call.in_thread(_resumed, call, sent)
    else:
        row, after = await started(call, *await call.in_thread(_wanted, call, sent, agent)), (0, 0)
    names = (sent.thread_id, sent.run_id)
    stream = RunStream(
        call, call.request.app.state.feed, row, after, names=names, until_rest=True, resumed=bool(sent.resume)
    )
    return streams.response(call, stream.frames())


def _wanted(call: Call, sent: RunAgentInput, agent: str | None) -> tuple[StartRun, str]:
    """Return the run to start, and its idempotency key: repeated with the same ids, a request follows the same run."""
    key = f"agui/{sent.thread_id}/{sent.run_id}"
    questions = asked_in([message.model_dump() for message in sent.messages])
    text = questions[-1] if questions else ""
    if agent is not None:
        inputs = sent.forwarded_props.get("input") if isinstance(sent.forwarded_props, dict) else None
        return StartRun(graph="event_loop", agent=agent, input=agent_input(call, agent, inputs, text)), key
    if not text.strip():
        raise HiveError.of("HIVE-409", "there is no message of a user", fix="send one", exit_code=2)
    require_short(text)
    require_references({"threadId": sent.thread_id, "runId": sent.run_id})
    require_room(call, call.own_key(key), questions=True)  # before a conversation begins that stays empty
    thread_id = ThreadStore(call.workspace, call.principal).of_client(sent.thread_id, text)
    return StartRun(input={"text": text, "before": remembered(questions[:-1])}, thread_id=thread_id), key


def _resumed(call: Call, sent: RunAgentInput) -> tuple[RunRow, tuple[int, int]]:
    """Decide the requests that a run waits for, as the caller. Return the run, and the position to follow it from.

    Raises: as `runtime.decide`; HIVE-409 for an entry without a decision, and for two that contradict each other.
    """
    row = None
    answers: dict[str, Decide] = {}
    for entry in sent.resume or ():
        request = readable(call, entry.interrupt_id)
        row = Scope(call.reaches()).run(call.workspace, str(request.run_id))
        answer = _answer(entry.status, entry.payload)
        if answers.setdefault(request.id, answer) != answer:
            fix = "send one entry for each interrupt"
            raise HiveError.of("HIVE-409", f"two answers to {request.id}, and not the same", fix=fix, exit_code=2)
    assert row is not None
    position = (_events_before(call, row.run_id, set(answers)), len(RunLog(call.workspace, row).new()))
    for request_id, answer in answers.items():
        decide(call.workspace, request_id, **answer.model_dump(), **call.asker.decider().named())
    call.wake()
    return RunStore(call.workspace).get(row.run_id), position


def _events_before(call: Call, run_id: str, requests: set[str]) -> int:
    """Return the number of the run's events before it continued.

    Where the requests were decided already, it is that of the events before the decisions: a client that lost the
    stream and resumes again gets the same events.
    """
    logged = EventLog(call.workspace).replay(run_id=run_id, types=DURABLE)
    decided = {
        str(event.payload["approval_id"]): place
        for place, event in enumerate(logged)
        if event.type is EventType.APPROVAL_DECIDED
    }
    return max(decided[one] for one in requests) if requests <= decided.keys() else len(logged)


def _answer(status: str, payload: Any) -> Decide:
    """Return the decision of a `resume` entry: a payload is the body of `POST /api/approvals/{request_id}/decide`, or
    a text, which responds; a cancelled entry rejects. One that names no content is on what was asked first: whoever
    holds a stream open isn't told that another approver has changed it."""
    if status == "cancelled":
        return Decide(verb="reject")
    if isinstance(payload, str):
        payload = {"verb": "respond", "message": payload}
    if not isinstance(payload, dict) or "verb" not in payload:
        fix = 'send {"verb": "approve"}, or one of its allowed_decisions'
        raise HiveError.of("HIVE-409", "the payload of a resume entry decides nothing", fix=fix, exit_code=2)
    fields = {name: value for name, value in payload.items() if name in Decide.model_fields}
    answer = load_value(Decide, fields, "body")
    names_content = answer.verb == "reject" or answer.content_hash is not None or answer.version is not None
    return answer if names_content else answer.model_copy(update={"version": 1})


def agent_input(call: Call, agent: str, inputs: Any, text: str) -> dict[str, Any]:
    """Return the inputs of an agent: `inputs` where they are an object, else the text, for an agent with one input.

    Raises: HIVE-415 for a caller who may start none: whom nothing is started for learns of no agent.
    """
    call.require(OPERATOR)
    if isinstance(inputs, dict):
        return inputs
    spec = serving_agent(call.workspace, agent)[0]
    keys = spec.node(spec.entry).input_keys
    return {keys[0]: text} if len(keys) == 1 else {}


def asked_in(messages: list[dict[str, Any]]) -> list[str]:
    """Return the texts of a user's messages, in order."""
    return [_text_of(message.get("content")) for message in messages if message.get("role") == "user"]


def _text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the lines of its text parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict) and part.get("text"))
