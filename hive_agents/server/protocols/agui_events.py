"""The events of a run as AG-UI 1.0 events: a deterministic projection of the log.

A group holds the events for one logged event, or for one message of an agent. Text is rendered when its group is made,
with the reader's rights at that moment. A reply is complete by then: no part of it is shown before all of it was judged
and gated.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from hive_agents.agents import RunLog, RunView
from hive_agents.approvals import ApprovalStore
from hive_agents.base import UNSEEN, Busy, HiveError, hides, spelled, unfetched
from hive_agents.events import Event, EventType
from hive_agents.optimizer import OptimizeRun
from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, OPTIMIZER_GRAPH, RunStore

if TYPE_CHECKING:
    from hive_agents.runs import RunRow
    from hive_agents.server.auth import Call

PIECE = 80
"""Characters of one TEXT_MESSAGE_CONTENT, more or less."""
ENDS = frozenset({EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_STOPPED})
_STATUS = {
    EventType.RUN_QUEUED: "queued",
    EventType.RUN_STARTED: "running",
    EventType.RUN_RESUMED: "running",
    EventType.RUN_PAUSED: "paused",
    EventType.RUN_WAITING: "waiting",
}
_BEGINS = frozenset({EventType.RUN_QUEUED, EventType.RUN_STARTED, EventType.RUN_RESUMED})
"""The events that start a run for its client."""


@dataclass(frozen=True)
class EventGroup:
    """`messages` is the number of the run's messages up to the end of the group."""

    events: list[BaseEvent]
    messages: int


class Projection:
    """One run for one reader, from its first event on. `names` are the client's ids of the thread and the run."""

    def __init__(self, call: Call, row: RunRow, names: tuple[str, str] | None = None) -> None:
        self._call, self._row = call, row
        self._thread, self._run = names or (row.thread_id, row.run_id)
        self._log = RunLog(call.workspace, row, call.reaches)
        self._open = False
        self._steps: list[str] = []
        self._messages = 0
        self._unread: deque[dict[str, Any]] = deque()
        self._calls: dict[tuple[str, str], str] = {}
        self.over = self.waits = False
        """Whether the run is over; whether it waits for people."""

    def messages(self, most: int | None = None) -> list[EventGroup]:
        """Return the groups of an agent's new messages, one for each, up to its `most`th message."""
        return list(self._message_groups(most)) if self._row.graph == AGENT_GRAPH and self._open else []

    def group(self, event: Event) -> EventGroup | None:
        """Return the group of an event, which follows those of the messages before it; None where it has none."""
        events = list(self._projected(event))
        return EventGroup(events, self._messages) if events else None

    def missing(self) -> list[Event]:
        """Return the events of a run's end that the log lacks, of an old run or one whose process died.

        Empty for a run that was under way when the projection was made, or is now: its events are still to come.
        """
        row = RunStore(self._call.workspace).get(self._row.run_id)
        kinds = {"done": EventType.RUN_COMPLETED, "failed": EventType.RUN_FAILED, "stopped": EventType.RUN_STOPPED}
        if self.over or row.status not in kinds or row != self._row:
            return []
        payload = {"error": row.summary["error"], "by": row.summary["stopped_by"]}
        ids: dict[str, Any] = {"run_id": row.run_id, "thread_id": row.thread_id, "tenant": row.tenant, "seq": 0}
        start = [] if self._open else [Event(EventType.RUN_STARTED, **ids)]
        return [*start, Event(kinds[row.status], payload=payload, **ids)]

    def _projected(self, event: Event) -> Iterator[BaseEvent]:
        kind, payload = event.type, event.payload
        if kind in _BEGINS and not self._open:
            yield from self._begun(_STATUS[kind])
        elif not self._open:
            return
        elif kind in ENDS:
            yield from self._ended(event)
        elif kind is EventType.RUN_WAITING and payload.get("approval_ids"):
            yield from self._interrupted(payload["approval_ids"])
        elif kind in _STATUS:
            yield _delta("replace", "/status", _STATUS[kind])
        elif kind is EventType.NODE_STARTED and event.node_id is not None:
            if self._row.graph == CHAT_GRAPH:  # its nodes run one at a time, and log no end
                yield from self._steps_ended()
            if event.node_id not in self._steps:
                self._steps.append(event.node_id)
                yield StepStartedEvent(step_name=event.node_id)
        elif kind in (EventType.NODE_COMPLETED, EventType.NODE_FAILED) and event.node_id in self._steps:
            self._steps.remove(str(event.node_id))
            yield StepFinishedEvent(step_name=str(event.node_id))
        elif kind is EventType.OPTIMIZER_TRIAL:
            yield _delta("add", "/trials/-", dict(payload))

    def _begun(self, status: str) -> Iterator[BaseEvent]:
        self._open, self.over, self.waits = True, False, False
        row = self._row
        yield RunStartedEvent(thread_id=self._thread, run_id=self._run)
        state: dict[str, Any] = {"run_id": row.run_id, "graph": row.graph, "agent": row.agent, "status": status}
        yield StateSnapshotEvent(snapshot=state | ({"trials": []} if row.graph == OPTIMIZER_GRAPH else {}))

    def _ended(self, event: Event) -> Iterator[BaseEvent]:
        yield from self._steps_ended()
        self._open, self.over = False, True
        ids: dict[str, Any] = {"thread_id": self._thread, "run_id": self._run}
        if event.type is EventType.RUN_FAILED:
            error = event.payload.get("error") or {}
            message = str(error.get("message", "the run failed")) if self._may_view_all() else "the run failed"
            yield RunErrorEvent(message=unfetched(message), code=error.get("code"))
            return
        if event.type is EventType.RUN_STOPPED:
            yield _delta("replace", "/status", "stopped")
            yield RunFinishedEvent(**ids, outcome=RunFinishedCancelledOutcome())
            return
        result = shown_result(self._call, self._row.run_id)
        if self._row.graph == CHAT_GRAPH and result is not None:
            yield _delta("add", "/reply", result)
            yield from text_message(f"{self._row.run_id}:answer", spoken(result))
        yield _delta("replace", "/status", "done")
        yield RunFinishedEvent(**ids, result=result, outcome=RunFinishedSuccessOutcome())

    def _interrupted(self, approval_ids: Sequence[str]) -> Iterator[BaseEvent]:
        yield from self._steps_ended()
        self._open, self.waits = False, True
        yield _delta("replace", "/status", "waiting")
        outcome = RunFinishedInterruptOutcome(interrupts=[self._interrupt(one) for one in approval_ids])
        yield RunFinishedEvent(thread_id=self._thread, run_id=self._run, outcome=outcome)

    def _interrupt(self, approval_id: str) -> Interrupt:
        request = ApprovalStore(self._call.workspace).get(approval_id)
        may_view_all = self._may_view_all()
        facts: dict[str, Any] = {
            "kind": request.kind,
            "allowed_decisions": request.allowed_decisions,
            "version": request.version,
        }
        if may_view_all:
            facts |= {name: request.context[name] for name in ("tool", "args", "question", "options", "node")
                     if name in request.context}  # fmt: skip
        message = unfetched(request.title) if may_view_all else f"a person has to decide: {request.kind}"
        if hides([message, facts]):
            facts["warning"], message = UNSEEN, f"{spelled(message)} ({UNSEEN})"
        return Interrupt(
            id=request.id,
            reason=request.kind,
            message=message,
            response_schema=answer_schema(request.allowed_decisions),
            expires_at=request.due_at,
            metadata={"hive": facts},
        )

    def _steps_ended(self) -> Iterator[BaseEvent]:
        while self._steps:
            yield StepFinishedEvent(step_name=self._steps.pop())

    def _may_view_all(self) -> bool:
        """Return whether the reader may view all documents that the run has read, which its texts may quote."""
        row = self._row
        return not RunView(self._call.workspace, row.run_id, row.tenant, self._call.reaches()).hidden

    def _message_groups(self, most: int | None) -> Iterator[EventGroup]:
        if most is None or self._messages < most:
            self._unread += self._log.new()
        while self._unread and (most is None or self._messages < most):
            self._messages += 1
            events = list(self._message(self._unread.popleft()))
            if events:
                yield EventGroup(events, self._messages)

    def _message(self, message: dict[str, Any]) -> Iterator[BaseEvent]:
        conversation = message["conversation_id"]
        id = f"{conversation}:{message['n']}"
        if message["speaker"] == "tool":
            call_id = self._calls.get((conversation, message["call_id"]))
            if call_id is not None:
                yield ToolCallResultEvent(message_id=id, tool_call_id=call_id, content=message["text"], role="tool")
        elif message["speaker"] == "agent":
            yield from text_message(id, message["text"])
            for place, call in enumerate(message["calls"]):
                call_id = self._calls[conversation, call["id"]] = f"{id}:{place}"
                yield ToolCallStartEvent(tool_call_id=call_id, tool_call_name=call["name"], parent_message_id=id)
                yield ToolCallArgsEvent(tool_call_id=call_id, delta=json.dumps(call["args"], ensure_ascii=False))
                yield ToolCallEndEvent(tool_call_id=call_id)


def shown_result(call: Call, run_id: str) -> dict[str, Any] | None:
    """Return a run's result with the caller's present rights: a reply, or the result of an agent or the optimizer.

    None while there is none, and for another person's question. Raises: HIVE-402 while it can't be read.
    """
    row = RunStore(call.workspace).get(run_id)
    if row.graph == CHAT_GRAPH:
        if (row.tenant, row.user) != (call.principal.tenant, call.principal.user) or row.status != "done":
            return None
        try:
            return call.chat().render(run_id)
        except Busy:
            raise
        except HiveError:  # its thread was deleted
            return None
    if row.graph != AGENT_GRAPH or row.result is None:
        search: dict[str, Any] | None = row.result and OptimizeRun(call.workspace, row).shown_to(
            call.reaches(), row.result
        )
        return search
    view = RunView(call.workspace, run_id, row.tenant, call.reaches())
    shown: dict[str, Any] = {"outputs": view.values(row.result["outputs"], {})}
    if view.hidden:
        shown |= {"judgment": None, "error": None}
    return row.result | shown


def spoken(reply: dict[str, Any]) -> str:
    """Return a reply as Markdown that fetches nothing: its notice, passages of the reader's files, then its
    answer or question, else its results."""
    text = reply["answer"] or reply["question"] or ""
    if reply["options"]:
        text += "".join(f"\n- {option}" for option in reply["options"])
    if not text and reply["results"]:
        text = ("\n\n" if reply["results"][0]["citation"] else "\n").join(map(_listed, reply["results"]))
    own = [f"your file {one['name']}\n{_unmarked(one['excerpt'])}" for one in reply.get("files", ())]
    text = "\n\n".join([*own, text] if text else own)
    return unfetched("\n\n".join(part for part in (reply["notice"], text) if part))


def _listed(result: dict[str, Any]) -> str:
    """Return a result as text, with its passage; results that were matched by filter have none.

    >>> found = {"title": "Keys", "doc_id": "a.md", "rank": 1, "citation": "[1]", "excerpt": "<mark>Keys</mark> end."}
    >>> _listed(found), _listed(found | {"citation": None})
    ('[1] Keys (a.md)\\nKeys end.', '1. Keys (a.md)')
    """
    heading = f"{result['title']} ({result['doc_id']})"
    if result["citation"] is None:
        return f"{result['rank']}. {heading}"
    return f"{result['citation']} {heading}\n{_unmarked(result['excerpt'])}"


def _unmarked(excerpt: str) -> str:
    return re.sub("</?mark>", "", excerpt).strip()


def text_message(id: str, text: str) -> Iterator[BaseEvent]:
    """Yield the events of an assistant's message, `unfetched`; none for an empty text."""
    if not text:
        return
    text = unfetched(text)
    yield TextMessageStartEvent(message_id=id, role="assistant")
    for piece in pieces(text):
        yield TextMessageContentEvent(message_id=id, delta=piece)
    yield TextMessageEndEvent(message_id=id)


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """Yield a text in pieces that end after a space.

    >>> list(pieces("one two three", 5))
    ['one two ', 'three']
    """
    start = 0
    while start < len(text):
        end = text.find(" ", start + size)
        end = len(text) if end < 0 else end + 1
        yield text[start:end]
        start = end


def answer_schema(verbs: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of the payload of a `resume` entry."""
    properties: dict[str, Any] = {"verb": {"enum": list(verbs)}, "reason": {"type": "string"}}
    if "respond" in verbs:
        properties["message"] = {"type": "string"}
    if "edit" in verbs:
        properties["patch"] = {"description": "RFC 6902 operations, or an object to merge into the arguments"}
    return {"type": "object", "properties": properties, "required": ["verb"]}


def _delta(op: Literal["add", "replace"], path: str, value: Any) -> BaseEvent:
    return StateDeltaEvent.model_validate({"delta": [{"op": op, "path": path, "value": value}]})
