"""What is known stays known where the records were away, and a script's place is its run's on whichever host."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.agents import AgentRun, Effects, effects as module
from hive_agents.agents.effects import Done
from hive_agents.agents.guards.budget import Budget, Limits
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import Busy
from hive_agents.runs import RunStore
from hive_agents.workspace.trusted import trust
from tests.host.hosting import prepared, tools
from tests.real_engines import Postgres, postgres

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def on(place: Workspace, server: Postgres, namespace: str, more: str = "") -> Workspace:
    file = place.root / "hive.toml"
    text = file.read_text().replace("[models]\n", f"[models]\n{more}")
    file.write_text(f'{text}[storage]\nurl = "{server.url}"\nnamespace = "{namespace}"\n')
    trust(Workspace(place.root))
    return Workspace(place.root)


class Letter:
    """An effect outside, during which the records go away; `back` is after how many seconds they return."""

    def __init__(self, server: Postgres, back: float | None) -> None:
        self.sent, self._server, self._back = 0, server, back

    async def __call__(self, again: bool) -> Done:
        assert not again, "a letter that was sent is not sent again"
        self.sent += 1
        self._server.stop()
        if self._back is not None:
            threading.Timer(self._back, self._server.start).start()
        return Done({"receipt": 12})


def ledger(place: Workspace, run_id: str) -> Effects:
    return Effects(place, run_id, Budget(Limits()))


@pytest.mark.parametrize("back", [1.0, None], ids=["away for a second", "away for longer"])
def test_what_came_of_an_effect_is_recorded_when_the_records_are_back(
    tmp_path: Path, server: Postgres, monkeypatch: pytest.MonkeyPatch, back: float | None
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 60.0 if back else 0.5)
    place = on(prepared(tmp_path / "ws"), server, f"t{uuid.uuid4().hex[:12]}")
    run, _ = RunStore(place).insert("agent", {"input": {}})
    letter = Letter(server, back)
    if back is None:
        with pytest.raises(Busy):
            asyncio.run(ledger(place, run.run_id).once("send#1", "tool", "letter", letter))
        server.start()
    found = asyncio.run(ledger(place, run.run_id).once("send#1", "tool", "letter", letter))
    assert (found, letter.sent) == ({"receipt": 12}, 1)
    assert ledger(place, run.run_id).find("send#1") == {"receipt": 12}


def test_a_script_goes_on_where_its_run_is_on_another_host(tmp_path: Path, server: Postgres) -> None:
    """Its workspace is another folder there."""
    namespace, script = f"t{uuid.uuid4().hex[:12]}", 'chat = ["scripted:chat.jsonl"]\n'
    places = []
    for name in ("a", "b"):
        place = prepared(tmp_path / name)
        calls = [("ask_first", {"what": "first", "seconds": 0.0}), ("ask_first", {"what": "second", "seconds": 0.0})]
        lines = [{"tool_calls": [{"name": tool, "args": args}]} for tool, args in calls]
        lines.append({"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "done"}}]})
        (place.root / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        places.append(on(place, server, namespace, script))
    first, second = places
    shutil.rmtree(first.root / "audit", ignore_errors=True)
    run = AgentRun.start(first, "careful", {"what": "work", "seconds": 0.0}, tools=tools(first.root))
    (asked,) = run.go()["approval_ids"]
    for place in (second, first):
        ApprovalStore(place).decide(asked, "approve", by="dana")
        state = AgentRun.resume(place, run.run_id, tools=tools(place.root)).go()
        (asked,) = state["approval_ids"] or [""]
    assert state["status"] == "done"
    told = [one.context["args"]["what"] for one in ApprovalStore(first).list(kind="tool_call")]
    assert sorted(told) == ["first", "second"]
