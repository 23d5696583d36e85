"""The types of events, and the event itself."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal


class EventType(StrEnum):
    """Every type of event; `docs/events.md` describes each.

    >>> EventType.NODE_COMPLETED, EventType("run.waiting").name
    (<EventType.NODE_COMPLETED: 'node.completed'>, 'RUN_WAITING')
    """

    RUN_QUEUED = "run.queued"
    RUN_STARTED = "run.started"
    RUN_PAUSED = "run.paused"
    RUN_WAITING = "run.waiting"
    RUN_RESUMED = "run.resumed"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"
    RUN_STOPPED = "run.stopped"
    NODE_STARTED = "node.started"
    NODE_COMPLETED = "node.completed"
    NODE_FAILED = "node.failed"
    NODE_RETRIED = "node.retried"
    MODEL_STARTED = "model.started"
    MODEL_COMPLETED = "model.completed"
    TOOL_STARTED = "tool.started"
    TOOL_COMPLETED = "tool.completed"
    TOOL_FAILED = "tool.failed"
    OUTPUT_SET = "output.set"
    JUDGMENT_MADE = "judgment.made"
    ESCALATION_OPENED = "escalation.opened"
    ESCALATION_UPDATED = "escalation.updated"
    ESCALATION_RESOLVED = "escalation.resolved"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_EXPIRED = "approval.expired"
    SUBAGENT_STARTED = "subagent.started"
    SUBAGENT_REPORTED = "subagent.reported"
    SUBAGENT_COMPLETED = "subagent.completed"
    OPTIMIZER_TRIAL = "optimizer.trial"
    OPTIMIZER_CERTIFIED = "optimizer.certified"
    CONFIG_DEPLOYED = "config.deployed"
    CONFIG_ROLLED_BACK = "config.rolled_back"
    INDEX_COMPLETED = "index.completed"
    DOCUMENTS_UPLOADED = "documents.uploaded"
    DOCUMENTS_IMPORTED = "documents.imported"
    DOCUMENT_CHANGED = "document.changed"
    DOCUMENT_DELETED = "document.deleted"
    TRIGGER_FIRED = "trigger.fired"
    TRIGGER_MISSED = "trigger.missed"
    BUDGET_WARNED = "budget.warned"
    BUDGET_EXHAUSTED = "budget.exhausted"
    HEALTH_TICKED = "health.ticked"
    TOKEN_MADE = "token.made"
    TOKEN_REVOKED = "token.revoked"
    SESSION_ENDED = "session.ended"
    PERSON_ENDED = "person.ended"
    BUS_GAP = "bus.gap"


_TRANSIENT = {EventType.MODEL_STARTED, EventType.MODEL_COMPLETED, EventType.NODE_STARTED, EventType.TOOL_STARTED}
DURABLE = frozenset(EventType) - _TRANSIENT
"""Events that a bus with a log appends to it before they are delivered."""
WAKING = frozenset(
    {
        EventType.RUN_QUEUED,
        EventType.TRIGGER_FIRED,
        EventType.APPROVAL_DECIDED,
        EventType.APPROVAL_EXPIRED,
        EventType.CONFIG_DEPLOYED,
        EventType.CONFIG_ROLLED_BACK,
    }
)
"""Events that hosts which share a database are notified of at once."""


def _uuid4() -> str:
    # uuid.uuid4() takes four times as long, and every event has one.
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


@lru_cache(maxsize=1)
def _date_and_time(seconds: int) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None).isoformat()


def _now() -> str:
    # A third of what isoformat() takes: most events share their second with the one before.
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_date_and_time(seconds)}.{milliseconds:03d}+00:00"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `time` is ISO 8601 in UTC; `seq` is set when it is published.

    `payload` is plain JSON data, which is checked when the event is logged. All subscribers get the same object, and
    must not change it.

    >>> event = Event(type=EventType.RUN_STARTED, run_id="r1", payload={"graph": "worker"})
    >>> event.tenant, event.seq
    ('local', None)
    >>> Event.from_json(event.to_json()) == event
    True
    """

    type: EventType
    run_id: str | None = None
    thread_id: str | None = None
    node_id: str | None = None
    stream_id: str | None = None
    tenant: str = "local"
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=_uuid4)
    time: str = field(default_factory=_now)
    seq: int | None = None

    def numbered(self, seq: int) -> Event:
        """Return the event with its number."""
        # dataclasses.replace() takes several times as long.
        return Event(
            self.type,
            self.run_id,
            self.thread_id,
            self.node_id,
            self.stream_id,
            self.tenant,
            self.payload,
            self.id,
            self.time,
            seq,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": str(self.type),
            "time": self.time,
            "seq": self.seq,
            "tenant": self.tenant,
            "run_id": self.run_id,
            "thread_id": self.thread_id,
            "node_id": self.node_id,
            "stream_id": self.stream_id,
            "payload": dict(self.payload),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Event:
        """Return the event that `to_json` wrote. Raises: ValueError for an unknown type or key, or without a type."""
        try:
            return cls(**{**value, "type": EventType(value["type"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an event: {error}") from error


EventSource = Literal[
    "agent",
    "approval",
    "chat",
    "given_up",
    "health",
    "optimizer",
    "optimizer_run",
    "run_moved",
    "trigger",
    "ticks_missed",
]
_NAMESPACE = uuid.UUID("3b0d6c1e-52f7-5a68-9c21-6e4f8d0a7b95")
# Ids have to stay the same across releases: these sources keep the namespaces that they had in earlier ones. New
# sources need none.
_LEGACY = {
    "agent": uuid.UUID("0d2a1f6e-6a57-5c2b-9a53-8f8d5f0f4c11"),
    "approval": uuid.UUID("6d1f3a0c-8e0b-5b0e-9c57-2f7f0c1e9d44"),
    "chat": uuid.UUID("2d8f6a17-5b3c-5e90-9a44-c1e07b9d3f62"),
    "health": uuid.UUID("5c0a4d0e-8d0f-5b1c-9d7e-2f6f0a9b4c33"),
    "optimizer": uuid.UUID("f1d5c9a2-6f6e-5a0d-8f58-3a7f0f0f7b31"),
    "optimizer_run": uuid.UUID("7c1f4b0e-93a5-5d21-8e64-0b5d2f6a9c17"),
    "trigger": uuid.UUID("0d6f1f0e-54f5-5b1c-8a43-3a1f2f7a9c55"),
}


def derived_id(source: EventSource, *parts: object) -> str:
    """Return the id of an event, the same for equal arguments, so that a repeated event is logged once.

    >>> derived_id("health", "r1", "stalled", 1)
    '58709e37-4018-5438-a5e1-21eecb06c380'
    """
    name = "/".join(map(str, parts))
    legacy = _LEGACY.get(source)
    space, name = (_NAMESPACE, f"{source}/{name}") if legacy is None else (legacy, name)
    # As str(uuid.uuid5(space, name)), in a third of its time: each event has one.
    text = hashlib.sha1(space.bytes + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"
