"""A model that can't be reached fails no run of a host: it waits, and other runs go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry, session
from hive_agents.agents.run import AgentRun
from hive_agents.models import Chain, Message, ModelError, Tool
from hive_agents.runs import RunQueue, RunStore, leases_of
from hive_agents.store import connected
from tests.agents.conftest import make_workspace, node, write_json
from tests.agents.loops import Answer, Told, agent, events, say, sets, start

ITEMS = [sets("items", [1])]
SPEC = agent(node("collect", output_keys=["items"]))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(session, "FIRST_PAUSE", 0.01)
    workspace = make_workspace(tmp_path / "ws", embedding=False)
    write_json(workspace, "goals/digest.json", {"id": "digest", "name": "Digest"})
    return workspace


def down(times: int) -> Told:
    left = [times]

    def answering(_: Sequence[Message], __: Sequence[Tool]) -> Answer:
        left[0] -= 1
        return ModelError("unavailable", "nobody answers", outage=True) if left[0] >= 0 else say(ITEMS)

    return Told(answering)


def hosted(run: AgentRun, model: Told) -> dict[str, Any]:
    how: dict[str, Any] = {"tools": ToolRegistry(), "models": lambda role: Chain([model]), "hosted": True}
    return AgentRun.resume(run.workspace, run.run_id, **how).go()


def test_a_hosts_run_waits_for_its_model_and_goes_on(place: Workspace) -> None:
    model = down(2)
    run = start(place, SPEC, model, hold=False)
    assert hosted(run, model)["status"] == "waiting"
    row = RunStore(place).get(run.run_id)
    assert (row.status, row.summary["error"]["code"]) == ("waiting", "HIVE-422")
    assert len(events(place, run, "run.waiting")) == 1
    assert hosted(run, model)["status"] == "waiting"
    ended = hosted(run, model)
    assert (ended["status"], ended["outputs"], ended["error"]) == ("done", {"items": [1]}, None)


@pytest.mark.sqlite_file
def test_the_queue_holds_it_when_its_pause_is_over(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RunQueue(leases_of(place))
    run = start(place, SPEC, down(9), hold=False)
    monkeypatch.setattr(session, "FIRST_PAUSE", 60.0)
    hosted(run, down(9))
    assert queue.due() == []
    monkeypatch.setattr(session, "FIRST_PAUSE", 0.0)
    hosted(run, down(9))
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert [due.run_id for due in RunQueue(leases_of(place)).due()] == [run.run_id]


def test_patience_ends(place: Workspace) -> None:
    (place.root / "hive.toml").write_text("[runs]\npatience_seconds = 0.001\n")
    place = Workspace(place.root)
    run = start(place, SPEC, down(9), hold=False)
    hosted(run, down(9))
    ended = hosted(run, down(9))
    assert (ended["status"], ended["stopped_by"]) == ("failed", "unavailable")


def test_a_refused_login_is_not_waited_for(place: Workspace) -> None:
    refused = Told(lambda _, __: ModelError("authentication", "no", outage=True))
    run = start(place, SPEC, refused, hold=False)
    assert hosted(run, refused)["stopped_by"] == "unavailable"


def tired(seconds: float) -> Told:
    return Told(lambda _, __: ModelError("throttling", "429: later", retry_after=seconds))


def test_a_rest_that_the_server_asked_for_is_kept(place: Workspace) -> None:
    model, began = tired(600.0), time.time()
    run = start(place, SPEC, model, hold=False)
    assert hosted(run, model)["status"] == "waiting"
    assert len(model.prompts) == 1
    with connected(place.records) as connection:
        (wakes,) = connection.execute("SELECT wake_at FROM runs WHERE run_id = ?", (run.run_id,)).fetchone()
    assert wakes >= began + 600.0


def test_a_rest_beyond_all_patience_fails_the_run_at_once(place: Workspace) -> None:
    model = tired(86_400.0)
    run = start(place, SPEC, model, hold=False)
    ended = hosted(run, model)
    assert (ended["status"], ended["stopped_by"], len(model.prompts)) == ("failed", "unavailable", 1)
