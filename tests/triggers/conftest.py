"""A workspace with an agent that triggers start, and somebody who writes down what is fired."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import service_principal
from hive_agents.runs import RunStore
from hive_agents.triggers import TriggerSpec
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.conftest import make_workspace

NIGHTLY = {"id": "nightly", "type": "cron", "schedule": "0 2 * * *", "agent": "digest", "input": {"topic": "bees"}}
TICKET = {"id": "ticket", "type": "webhook", "agent": "digest", "secret_ref": "env:TICKET_SECRET"}


def at(text: str) -> dt.datetime:
    """A moment in UTC: at("2026-03-29 01:00")."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def trigger(workspace: Workspace, base: dict[str, Any], **changes: Any) -> str:
    value = {**base, **changes}
    write_json(workspace, f"triggers/{value['id']}.json", value)
    if "secret_ref" in value or value["type"] == "sse":
        trust(workspace)
    return str(value["id"])


class Fired:
    """Starts runs in the real run store; `before` is raised instead of starting one, once each."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.keys: list[str] = []
        self.inputs: list[dict[str, Any]] = []
        self.before: list[Exception] = []

    async def __call__(self, spec: TriggerSpec, input: dict[str, Any], *, key: str, scheduled: str) -> str:
        if self.before:
            raise self.before.pop(0)
        owner = service_principal(self.workspace, spec.service)
        row, new = RunStore(self.workspace).insert(
            "event_loop", {"input": input}, agent=spec.agent, owner=owner, key=key
        )
        if new:
            self.keys.append(key)
            self.inputs.append(input)
        return row.run_id


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    write_json(workspace, "goals/digest.json", GOAL)
    write_json(workspace, "agents/digest.json", agent_json())
    return workspace


@pytest.fixture
def fired(place: Workspace) -> Fired:
    return Fired(place)
