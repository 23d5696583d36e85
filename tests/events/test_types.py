from __future__ import annotations

import dataclasses
import datetime as dt
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from hive_agents.events import DURABLE, Event, EventType

DOCS = Path(__file__).parents[2] / "docs" / "events.md"


def test_names_follow_the_values() -> None:
    assert all(each.name == each.value.replace(".", "_").upper() for each in EventType)
    assert len(EventType) == 47


def test_all_is_durable_but_what_only_a_screen_wants() -> None:
    assert set(EventType) - DURABLE == {"model.started", "model.completed", "node.started", "tool.started"}


def test_documentation_lists_every_type_and_whether_it_is_logged() -> None:
    rows = re.findall(r"^\| `([a-z_.]+)` \| (yes|no) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(each.value, "yes" if each in DURABLE else "no") for each in EventType]


def test_event_is_frozen_and_has_an_id_and_a_time() -> None:
    first, second = Event(type=EventType.RUN_QUEUED), Event(type=EventType.RUN_QUEUED)
    assert first.id != second.id
    assert uuid.UUID(first.id).version == 4
    assert str(uuid.UUID(first.id)) == first.id
    at = dt.datetime.fromisoformat(first.time)
    assert first.time == at.isoformat(timespec="milliseconds")
    assert abs(dt.datetime.now(dt.UTC) - at) < dt.timedelta(minutes=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.seq = 1  # type: ignore[misc]


def test_json_of_an_event() -> None:
    event = Event(EventType.TOOL_FAILED, "r1", "t1", "n1", "s1", "acme", {"tool": "search"}, "e1", "2025-01-01", 7)
    assert event.to_json() == {
        "id": "e1",
        "type": "tool.failed",
        "time": "2025-01-01",
        "seq": 7,
        "tenant": "acme",
        "run_id": "r1",
        "thread_id": "t1",
        "node_id": "n1",
        "stream_id": "s1",
        "payload": {"tool": "search"},
    }
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize("value", [{}, {"type": "no.such"}, {"type": "run.started", "colour": "red"}])
def test_json_that_is_no_event_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"event|no\.such"):
        Event.from_json(value)
